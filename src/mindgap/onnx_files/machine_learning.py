"""Translates operators of `ai.onnx.ml` on tensors of numbers: trees, linear models, scaling.

Source of the formulas: ONNX's specification of `ai.onnx.ml` (version 3). Labels that are texts have no tensors.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# (PyTorch's functions and the shapes of tensors are partly untyped)

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch.nn import functional as F

from mindgap.onnx_files.node import OnnxNode, translates

Tensor = torch.Tensor

_MODES: Final[Mapping[bytes, Callable[[Tensor, Tensor], Tensor]]] = {
    b"BRANCH_LEQ": torch.le, b"BRANCH_LT": torch.lt, b"BRANCH_GTE": torch.ge, b"BRANCH_GT": torch.gt,
    b"BRANCH_EQ": torch.eq, b"BRANCH_NEQ": torch.ne,
}  # fmt: skip


def _transformed(node: OnnxNode, scores: Tensor) -> Tensor:
    kind = node.get("post_transform", b"NONE")
    node.only(kind in (b"NONE", b"SOFTMAX", b"LOGISTIC"), f"with {kind.decode()}")
    if kind == b"SOFTMAX":
        return torch.softmax(scores, -1)
    return torch.sigmoid(scores) if kind == b"LOGISTIC" else scores


def _as_numbers(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x.to(torch.float32)


def _leaves(node: OnnxNode, x: Tensor) -> tuple[Tensor, list[tuple[int, int]]]:
    """Returns the leaf that each row of `x` [rows, features] reaches in each tree, as [rows, trees] positions in the
    list of nodes, and the list: the tree and the number of each node."""
    numbers = [*zip(node.get("nodes_treeids"), node.get("nodes_nodeids"), strict=True)]
    at, modes = {each: i for i, each in enumerate(numbers)}, node.get("nodes_modes")
    node.only(set(modes) <= {*_MODES, b"LEAF"}, "with such branches")
    branch = [mode != b"LEAF" for mode in modes]
    yes, no = (
        torch.tensor([at[tree, to] if inner else i for i, ((tree, _), to, inner) in enumerate(
            zip(numbers, node.get(f"nodes_{side}nodeids"), branch, strict=True))])
        for side in ("true", "false")
    )  # fmt: skip
    roots: dict[int, int] = {}
    for i, (tree, _) in enumerate(numbers):
        roots.setdefault(tree, i)
    features, values = torch.tensor(node.get("nodes_featureids")), torch.tensor(node.get("nodes_values"), dtype=x.dtype)
    missing = torch.tensor(node.get("nodes_missing_value_tracks_true") or [0] * len(numbers)).to(torch.bool)
    place = torch.tensor([*roots.values()]).expand(x.shape[0], -1)
    for _ in range(_depth(numbers, yes.tolist(), no.tolist(), branch)):
        given, limit = torch.gather(x, 1, features[place]), values[place]
        taken = torch.zeros_like(place, dtype=torch.bool)
        for mode in sorted(set(modes) - {b"LEAF"}):
            here = torch.tensor([each == mode for each in modes])[place]
            taken = taken | (here & _MODES[mode](given, limit))
        if bool(missing.any()):
            taken = taken | (torch.isnan(given) & missing[place])
        place = torch.where(taken, yes[place], no[place])
    return place, numbers


def _depth(numbers: list[tuple[int, int]], yes: list[int], no: list[int], branch: list[bool]) -> int:
    """The number of branches on the longest way to a leaf."""
    depth, front = 0, {i for i in range(len(numbers)) if branch[i]}
    while front and depth <= len(numbers):
        front, depth = {to for i in front for to in (yes[i], no[i]) if branch[to]}, depth + 1
    return depth


def _tree_scores(node: OnnxNode, x: Tensor, kind: str, outputs: int) -> Tensor:
    """Sums what the leaves that each row reaches give each output. `kind`: `target` or `class`."""
    aggregate = node.get("aggregate_function", b"SUM")
    node.only(aggregate in (b"SUM", b"AVERAGE"), f"with {aggregate.decode()}")
    place, numbers = _leaves(node, x)
    at = {each: i for i, each in enumerate(numbers)}
    added = [[0.0] * outputs for _ in numbers]
    names = ("treeids", "nodeids", "ids", "weights")
    for tree, leaf, output, weight in zip(*(node.get(f"{kind}_{name}") for name in names), strict=True):
        added[at[tree, leaf]][output] += weight
    total = torch.tensor(added, dtype=x.dtype)[place].sum(1)
    total = total / place.shape[1] if aggregate == b"AVERAGE" else total
    base = node.get("base_values")
    return total + torch.tensor(base, dtype=x.dtype) if base else total


@translates("ai.onnx.ml.TreeEnsembleRegressor")
def tree_regressor(node: OnnxNode, x: Tensor) -> Tensor:
    scores = _tree_scores(node, _as_numbers(x), "target", node.get("n_targets"))
    return _transformed(node, scores).to(torch.float32)


@translates("ai.onnx.ml.TreeEnsembleClassifier")
def tree_classifier(node: OnnxNode, x: Tensor) -> tuple[Tensor, Tensor]:
    labels = node.get("classlabels_int64s")
    node.only(
        bool(labels) and len(set(node.get("class_ids"))) > 1, "with labels that are texts, or scores of one class"
    )
    scores = _tree_scores(node, _as_numbers(x), "class", len(labels))
    return torch.tensor(labels)[scores.argmax(-1)], _transformed(node, scores).to(torch.float32)


def _linear(node: OnnxNode, x: Tensor, count: int) -> Tensor:
    weights = torch.tensor(node.get("coefficients"), dtype=torch.float32).reshape(count, -1)
    bias = node.get("intercepts")
    return F.linear(x.to(torch.float32), weights, torch.tensor(bias, dtype=torch.float32) if bias else None)


@translates("ai.onnx.ml.LinearRegressor")
def linear_regressor(node: OnnxNode, x: Tensor) -> Tensor:
    return _transformed(node, _linear(node, x, node.get("targets", 1)))


@translates("ai.onnx.ml.LinearClassifier")
def linear_classifier(node: OnnxNode, x: Tensor) -> tuple[Tensor, Tensor]:
    labels: Any = node.get("classlabels_ints")
    count = len(node.get("intercepts") or labels or ())
    node.only(bool(labels) and count == len(labels) > 1, "with labels that are texts, or scores of one class")
    scores = _linear(node, x, count)
    return torch.tensor(labels)[scores.argmax(-1)], _transformed(node, scores)


@translates("ai.onnx.ml.Scaler")
def scaler(node: OnnxNode, x: Tensor) -> Tensor:
    offset, scale = (torch.tensor(node.get(name), dtype=torch.float32) for name in ("offset", "scale"))
    return (x.to(torch.float32) - offset) * scale


@translates("ai.onnx.ml.Normalizer")
def normalizer(node: OnnxNode, x: Tensor) -> Tensor:
    """Divides by a norm along the last dimension of [rows, features]; a row of zeros stays."""
    kind, values = node.get("norm", b"MAX"), x.to(torch.float32)
    if kind == b"MAX":
        size = values.max(-1, keepdim=True).values
    else:
        size = torch.linalg.vector_norm(values, {b"L1": 1, b"L2": 2}[kind], -1, keepdim=True)
    return torch.where(size == 0, values, values / size)


@translates("ai.onnx.ml.Binarizer")
def binarizer(node: OnnxNode, x: Tensor) -> Tensor:
    return (x > node.get("threshold", 0.0)).to(x.dtype)


@translates("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(_: OnnxNode, x: Tensor, index: Tensor) -> Tensor:
    elements = x.index_select(-1, index.reshape(-1).to(torch.int64))
    return elements.reshape(1, -1) if x.dim() == 1 else elements


@translates("ai.onnx.ml.ZipMap")
def zip_map(node: OnnxNode, x: Tensor) -> Tensor:
    """The table of the values of the maps that it gives: a row for each, a column for each label in order."""
    labels = node.get("classlabels_int64s") or node.get("classlabels_strings")
    column = {label: at for at, label in enumerate(labels)}
    return x.reshape(-1, len(labels))[:, torch.tensor([column[label] for label in sorted(column)])]


@translates("ai.onnx.ml.Imputer")
def imputer(node: OnnxNode, x: Tensor) -> Tensor:
    kind = "float" if x.is_floating_point() else "int64"
    replaced, values = node.get(f"replaced_value_{kind}", 0), node.get(f"imputed_value_{kind}s")
    gone = torch.isnan(x) if replaced != replaced else x == replaced
    return torch.where(gone, torch.tensor(values, dtype=x.dtype), x)
