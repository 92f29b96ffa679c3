"""Decides whether a graph calls operators with operands that PyTorch's public functions accept.

A graph may call an overload of ATen directly, with operands that the public function refuses (a bias of one element for
two channels), or that its documentation excludes (a matrix that is not Hermitian, with `hermitian=True`). What a
platform makes of such a graph is no finding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
import torch

from mindgap.aten.tensors import to_numpy
from mindgap.findings.script.public_calls import Call, content_key, visit_calls
from mindgap.findings.script.public_rules import bound
from mindgap.graph import Arg, Array, Graph, GraphError, Node, Ref, TensorStore, materialise_all
from mindgap.graph.operators.preconditions import Precondition, preconditions

#: Graphs above these sizes are not checked during a reduction. What cuts nodes off them changes no operand.
_MOST_NODES: Final = 32
_MOST_BYTES: Final = 1 << 24
#: A matrix is Hermitian where it equals its conjugate transpose to so many roundings of its largest element.
_ROUNDINGS: Final = 64
#: Values of an argument that count as absent.
_ABSENT: Final = (None, False)


def refusal(graph: Graph, inputs: Sequence[Array]) -> str:
    """Returns why a graph is no valid program: one sentence with the node and the reason.

    Empty where each node is made by a public function that accepts its operands, and the documentation's demands hold.
    """
    try:
        refused = Validity().first_refusal(graph, inputs)
    except GraphError as error:
        return f"Eager PyTorch does not run it: {error}."
    return "" if refused is None else f"Node {refused[0]} ({graph.nodes[refused[0]].op}): {refused[1]}."


class Validity:
    """Checks graphs of one reduction. Nodes whose operands and arguments were seen before are not checked again."""

    def __init__(self, tensors: TensorStore | None = None) -> None:
        self._tensors = tensors
        self._seen: dict[Any, str] = {}

    def refused_operator(self, graph: Graph) -> str | None:
        """Returns the first operator that is called with operands that no public function accepts; empty without one.

        None where that is not known: the graph is large, or does not run.
        """
        bytes_in_all = sum(spec.nbytes for spec in graph.values if spec is not None)
        if len(graph.nodes) > _MOST_NODES or bytes_in_all > _MOST_BYTES:
            return None
        try:
            refused = self.first_refusal(graph, materialise_all(graph, self._tensors))
        except GraphError:
            return None
        return "" if refused is None else graph.nodes[refused[0]].op

    def first_refusal(self, graph: Graph, inputs: Sequence[Array]) -> tuple[int, str] | None:
        """Returns the first node that is refused, and the reason. Raises `GraphError` where the graph does not run.

        The run ends before that node: its kernel may read outside its operands.
        """
        refusals: list[tuple[int, str]] = []

        def visit(call: Call) -> bool:
            key = _call_key(call)
            if key not in self._seen:
                self._seen[key] = broken_precondition(call.node, call.values) or call.refused()
            if self._seen[key]:
                refusals.append((call.index, self._seen[key]))
            return bool(self._seen[key])

        try:
            visit_calls(graph, inputs, lambda _: True, visit)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise GraphError((str(error).splitlines() or [type(error).__name__])[0]) from None
        return refusals[0] if refusals else None


def _call_key(call: Call) -> Any:
    contents = {number: content_key(tensor) for number, tensor in call.values.items()}

    def of(arg: Arg) -> Any:
        if isinstance(arg, Ref):
            return contents.get(arg.index)
        return tuple(map(of, arg)) if isinstance(arg, tuple) else repr(arg)

    node = call.node
    return node.op, tuple(map(of, node.args)), tuple((name, of(arg)) for name, arg in node.kwargs), call.slots_read


def broken_precondition(node: Node, values: Mapping[int, torch.Tensor]) -> str:
    """Returns which demand of the documentation a call breaks; empty without one. `values`: the operands by number."""
    given: dict[str, Any] = {
        name: values.get(arg.index) if isinstance(arg, Ref) else arg for name, arg in bound(node).items()
    }
    for each in preconditions(node.op):
        value = given.get(each.argument)
        if (
            value is None
            or (each.when and not given.get(each.when))
            or (each.unless and given.get(each.unless) not in _ABSENT)
        ):
            continue
        problem = _problem(each, value, given)
        if problem:
            return f"{each.argument} {problem} ({each.source})"
    return ""


def _problem(row: Precondition, value: Any, given: Mapping[str, Any]) -> str:
    """Returns what is wrong with an argument; empty where it meets the demand, and where that is unknown."""
    if isinstance(value, (bool, int, float)):
        value = torch.tensor(float(value), dtype=torch.float64)
    if not isinstance(value, torch.Tensor) or value.numel() == 0:
        return ""
    kind = "float" if value.is_floating_point() else "complex" if value.is_complex() else "int"
    if row.kinds and kind not in row.kinds:
        return ""
    wide = value.to(torch.complex128 if value.is_complex() else torch.float64)
    match row.demand:
        case "interval":
            outside = wide.real[(wide.real < row.low) | (wide.real > row.high)]
            return f"is {outside[0].item():g}, outside [{row.low:g}, {row.high:g}]" if outside.numel() else ""
        case "sorted":
            return "" if wide.dim() == 0 or bool((wide.diff() >= 0).all()) else "is not sorted"
        case "offsets":
            return _offsets(wide, given)
        case "plane":
            return _plane(value, given)
        case "hermitian":
            return "" if _is_hermitian(wide, value.dtype) else "is not Hermitian"
        case "positive definite":
            definite = _is_hermitian(wide, value.dtype) and float(np.linalg.eigvalsh(to_numpy(wide)).min()) > 0
            return "" if definite else "is not Hermitian positive definite"
        case "triangular":
            return "" if torch.equal(wide, wide.tril()) or torch.equal(wide, wide.triu()) else "is not triangular"
        case "pivots":
            rows = given.get("LU_data", given.get("LU"))
            most = rows.shape[-2] if isinstance(rows, torch.Tensor) and rows.dim() > 1 else value.shape[-1]
            return "" if bool(((wide >= 1) & (wide <= most)).all()) else f"is not within 1 and {most}"
        case "labels":
            classes = given["log_probs"].shape[-1]
            wrong = (wide == given.get("blank", 0)) | (wide < 0) | (wide >= classes)
            return "holds the blank, or a class that there is not" if bool(wrong.any()) else ""
        case "at most":
            return _at_most(wide, given.get(row.of), row.of)


def _at_most(value: torch.Tensor, other: Any, name: str) -> str:
    most = torch.as_tensor(other, dtype=torch.float64)
    return f"is larger than {name}" if most.shape == value.shape and bool((value > most).any()) else ""


def _offsets(offsets: torch.Tensor, given: Mapping[str, Any]) -> str:
    indices = given.get("indices")
    if offsets.dim() != 1 or not isinstance(indices, torch.Tensor):
        return ""
    fine = offsets[0] == 0 and bool((offsets.diff() >= 0).all()) and offsets[-1] <= indices.numel()
    return "" if fine else "does not start at 0, falls, or ends behind the indices"


def _plane(indices: torch.Tensor, given: Mapping[str, Any]) -> str:
    size: Any = given.get("output_size")
    if not isinstance(size, tuple):
        return ""
    sizes = [each for each in cast("tuple[object, ...]", size) if isinstance(each, int)]
    if not sizes or indices.dim() < len(sizes):
        return ""
    planes = indices.reshape(-1, indices[(0,) * (indices.dim() - len(sizes))].numel())
    if not bool(((planes >= 0) & (planes < math.prod(sizes))).all()):
        return "points outside the output"
    ordered = planes.sort(-1).values
    twice = bool((ordered[:, 1:] == ordered[:, :-1]).any())
    return "names a place twice, which no pooling of separate windows gives" if twice else ""


def _is_hermitian(wide: torch.Tensor, dtype: torch.dtype) -> bool:
    """Returns whether matrices equal their conjugate transposes up to rounding. True of what is no square matrix."""
    if wide.dim() < 2 or wide.shape[-1] != wide.shape[-2]:
        return True  # eager PyTorch checks that
    if not bool(torch.isfinite(wide.abs()).all()):
        return torch.equal(wide.nan_to_num(), wide.mH.nan_to_num())
    eps = torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0.0
    return bool(((wide - wide.mH).abs() <= _ROUNDINGS * eps * wide.abs().amax()).all())
