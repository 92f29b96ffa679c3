"""Finds the node at which the values of an older ONNX file part from those of a fresh export of its program."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final

import onnx
import torch

from mindgap.aten.tensors import to_numpy
from mindgap.graph import Array
from mindgap.graph.compare.metrics import distance
from mindgap.onnx_files.cutting import CutModel, cut_model
from mindgap.own_path.program_run import FlatProgram, InputsNotMatched

_LIBRARY: Final[Any] = onnx  # typed in parts
#: Values part where they differ by more than this share of the largest magnitude.
_SHARE: Final = 1e-4
#: Seconds for the evaluation of each model.
_SECONDS: Final = 20.0
_NO_OPERATOR: Final = ("Constant", "Identity")


def parting_node(path: Path, export: Any, program: FlatProgram) -> tuple[Any, float] | None:
    """Returns the node of the export at which values part, and by which share of the largest magnitude.

    Nodes of the two models are paired in order by their operators. Where nodes without a counterpart lie between the
    last equal pair and the first unequal one, it is the first of them. None where no pair with values is unequal.
    """
    with tempfile.TemporaryDirectory(prefix="mindgap-export-") as folder:
        _LIBRARY.save(export, f"{folder}/export.onnx")
        old, new = (_evaluated(each, program) for each in (path, Path(folder) / "export.onnx"))
    if old is None or new is None:
        return None
    unpaired: int | None = None
    for ours, theirs in _pairs(old, new):
        if ours is None:
            unpaired = theirs if unpaired is None else unpaired
            continue
        off = _off(old, ours, new, theirs)
        if off is None:
            continue
        if off > _SHARE:
            return new.model.graph.node[theirs if unpaired is None else unpaired], off
        unpaired = None
    return None


def _evaluated(path: Path, program: FlatProgram) -> CutModel | None:
    """A model with the values of its nodes, up to the first that cannot be evaluated; None for one that is not cut."""
    model = _LIBRARY.load(str(path), load_external_data=False)
    weights = {each.name for each in model.graph.initializer}
    inputs = [
        (each.name, [d.dim_value or "any" for d in each.type.tensor_type.shape.dim])
        for each in model.graph.input if each.name not in weights
    ]  # fmt: skip
    try:
        matched = program.matched(inputs, program.tensors)
    except InputsNotMatched:
        return None
    given: Mapping[str, Array] = {
        name: to_numpy(value) if isinstance(value, torch.Tensor) else value.numpy() for name, value in matched
    }
    cut, until = cut_model(path, given), time.monotonic() + _SECONDS
    if isinstance(cut, str):
        return None
    for place, node in enumerate(cut.model.graph.node):
        if time.monotonic() > until or any(name not in cut.values for name in node.input if name):
            break
        results = cut.evaluated(place)
        if not isinstance(results, str):
            cut.values |= results
    return cut


def _pairs(old: CutModel, new: CutModel) -> Iterator[tuple[int | None, int]]:
    """For each operator of the new model in order: the place of its counterpart, None for none, and that of it."""
    ours, theirs = ([n for n, node in enumerate(each.model.graph.node) if node.op_type not in _NO_OPERATOR]
                    for each in (old, new))  # fmt: skip
    ops = [old.op(n) for n in ours], [new.op(n) for n in theirs]
    for kind, a, _, b, end in SequenceMatcher(None, *ops, autojunk=False).get_opcodes():
        for step in range(end - b):
            yield (ours[a + step] if kind == "equal" else None), theirs[b + step]


def _off(old: CutModel, ours: int, new: CutModel, theirs: int) -> float | None:
    """How far the results of two nodes are apart, of the largest magnitude; None where either is not known, or their
    shapes differ: such nodes are no counterparts."""
    sides = [[each.values.get(name) for name in each.results(place)] for each, place in ((old, ours), (new, theirs))]
    arrays = [(a, b) for a, b in zip(*sides, strict=False) if a is not None and b is not None and a.shape == b.shape]
    numbers = [(a, b) for a, b in arrays if a.dtype.kind in "biufc" and b.dtype.kind in "biufc"]
    return distance([a for a, _ in numbers], [b for _, b in numbers]) if numbers else None
