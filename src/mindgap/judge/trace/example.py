"""Shows one element that an operator gets wrong: its operands, the result, the right result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.operators import overload
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import Node, Ref, kind_of
from mindgap.graph.compare.culprit import Example
from mindgap.judge.oracle import Examined, LocalExpectation, Oracle, local_expectation
from mindgap.judge.oracle.evaluation.float64 import packet_of
from mindgap.judge.oracle.evaluation.formats import widen
from mindgap.judge.trace.single_operators import Confirmed, kind_of_error
from mindgap.judge.trace.subgraphs import Array

#: Binary operators that are written between their operands.
_INFIX: Final[Mapping[str, str]] = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floor_divide": "//", "remainder": "%", "pow": "**", "gt": ">",
    "ge": ">=", "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "bitwise_and": "&", "bitwise_or": "|",
    "bitwise_xor": "^", "bitwise_left_shift": "<<", "bitwise_right_shift": ">>",
}  # fmt: skip
#: Of these, those whose exact result on integers may lie outside their dtype.
_EXACT: Final[Mapping[str, Callable[[int, int], int]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}


def example(oracle: Oracle, confirmed: Confirmed) -> Example | None:
    """`127 + 1 gave 127; int8 wraps to -128`: the element that is furthest off, of one operator on common operands.

    It is an element of a result that is wrong: other results may differ by rounding. Elementwise operators are shown
    with their operands, others with the position of the element. None for a fused set or another shape, and where the
    values are not at hand.
    """
    if len(confirmed.nodes) != 1 or confirmed.kind == "structural":
        return None
    expected = local_expectation(oracle, confirmed.nodes[0])
    for number, array in confirmed.arrays.items():
        slot = number - expected.first
        position = _worst_position(expected, slot, array) if kind_of_error(expected.examine(slot, array)) else None
        if position is not None:
            return _example(oracle, confirmed.nodes[0], number, array, position)
    return None


def extent(oracle: Oracle, confirmed: Confirmed) -> str:
    """`NaN in 2 of 40 elements, infinity in 1`: classes that should not be there; else `3 of 40 elements`, or none of
    them alone where the median is beyond rounding."""
    total = max((array.size for array in confirmed.arrays.values()), default=0)
    if len(confirmed.nodes) != 1 or not total:
        return f"{confirmed.count} elements"
    if not confirmed.count:
        return f"most of {total} elements, none beyond its limit alone"
    if confirmed.kind != "exceptional":
        return f"{confirmed.count} of {total} elements"
    expected = local_expectation(oracle, confirmed.nodes[0])
    changes: list[str] = []
    for number, array in confirmed.arrays.items():
        verdict, hard = expected.examine(number - expected.first, array), expected.hard[number - expected.first]
        if verdict.kind == "exceptional" and hard is not None:
            changes.append(_classes(widen(to_torch(array)), hard.step))
    return "; ".join(filter(None, changes)) or f"{confirmed.count} of {total} elements"


def _classes(got: torch.Tensor, right: torch.Tensor) -> str:
    """Which elements are of another class than the shadow's."""
    wrong = {
        "NaN": torch.isnan(got) & ~torch.isnan(right),
        "infinity": torch.isinf(got) & ~(got == right),
        "a finite number": torch.isfinite(got) & ~torch.isfinite(right),
    }
    counts = [(name, int(mask.sum())) for name, mask in wrong.items()]
    return ", ".join(f"{name} in {count} of {got.numel()} elements" for name, count in counts if count)


def _worst_position(expected: LocalExpectation, slot: int, array: Array) -> tuple[int, ...] | None:
    """Where the error is largest among the elements that offend; None where the result has the right values."""
    hard, verdict = expected.hard[slot], expected.examine(slot, array)
    if hard is None or tuple(hard.step.shape) != array.shape or not array.size:
        return None
    got = widen(to_torch(array))
    offending = _offending(verdict, got, hard.step)
    if not bool(offending.any()):
        return None
    distance = (got.to(torch.complex128) - hard.step.to(torch.complex128)).abs().nan_to_num(torch.inf)
    flat = int(torch.where(offending, distance, -1.0).flatten().argmax())
    return tuple(int(i) for i in np.unravel_index(flat, array.shape))


def _offending(verdict: Examined, got: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    if verdict.bad is not None and bool(verdict.bad.any()):
        return verdict.bad.expand(got.shape)
    # Wrong in bulk, and no single element is beyond its limit.
    return (got != right) & ~(torch.isnan(got) & torch.isnan(right))


def _example(oracle: Oracle, node: int, number: int, array: Array, position: tuple[int, ...]) -> Example:
    called = oracle.graph.nodes[node]
    right = to_numpy(oracle.step.values[number])[position]
    operands = _operands(oracle, called, array.shape, position)
    if operands is None:
        result = number - oracle.graph.first_value[node]
        name = f"result {result} of {packet_of(called.op)}" if result else packet_of(called.op)
        where = f"element {list(position)} of {name}" if position else name
        return Example(where, _spelled(array[position]), _spelled(right))
    why = _wrapping(called, operands, right, array.dtype)
    return Example(_call(called, operands), _spelled(array[position]), _spelled(right), True, why)


def _operands(oracle: Oracle, node: Node, shape: tuple[int, ...], position: tuple[int, ...]) -> list[Any] | None:
    """The operands of one element, in order; None unless the operator is elementwise and takes tensors and numbers."""
    if torch.Tag.pointwise not in overload(node.op).tags or node.kwargs:
        return None
    tensors: list[Any] = []
    for arg in node.args:
        if isinstance(arg, Ref):
            try:
                tensors.append(np.broadcast_to(to_numpy(oracle.step.values[arg.index]), shape)[position])
            except ValueError:
                return None
        elif isinstance(arg, (bool, int, float, complex)):
            tensors.append(arg)
        else:
            return None
    return tensors


def _call(node: Node, operands: list[Any]) -> str:
    packet, texts = packet_of(node.op), [_spelled(x) for x in operands]
    if packet in _INFIX and len(texts) == 2:
        return f"{texts[0]} {_INFIX[packet]} {texts[1]}"
    return f"{packet}({', '.join(texts)})"


def _wrapping(node: Node, operands: list[Any], right: Any, dtype: np.dtype[Any]) -> str:
    """`int8 wraps to -128` where the exact result lies outside its dtype; else empty."""
    exact = _EXACT.get(packet_of(node.op))
    if exact is not None and len(operands) == 2 and kind_of(str(dtype)) == "int":
        wanted, limits = exact(*map(int, operands)), np.iinfo(dtype)
        if not limits.min <= wanted <= limits.max:
            return f"{dtype} wraps to {_spelled(right)}"
    return ""


def _spelled(value: Any) -> str:
    """The shortest decimal that is this value in its dtype."""
    return str(value)
