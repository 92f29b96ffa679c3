"""Examines the integers that a platform gives for the quantised values of a graph, element by element.

Each value is computed in float64 from the integers that the platform itself gave before it, so that a step that was
taken earlier is no fault of what follows. Of the exact quotient `x` (in steps, without the zero point) every integer
between `round(x - e)` and `round(x + e)` is right, half to even, moved by the zero point and cut off at the limits
(ONNX, `QuantizeLinear`). `reach.py` derives `e`. docs/quantised.md has the sources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import torch

from mindgap.aten.tensors import to_torch
from mindgap.graph import Array, Graph, Labels, Ref
from mindgap.judge.oracle import Expectation, Oracle
from mindgap.judge.oracle.evaluation.formats import widen
from mindgap.judge.quantised.reach import dividing_scale, reach
from mindgap.judge.quantised.values import QuantisedValue, quantised_values
from mindgap.judge.quantised.wrong_rules import named_rule, other_encoding

Tensor = torch.Tensor
Kind = Literal["right", "reduced_precision", "discrepant"]

#: Half the spacing of float16 numbers, relative to them.
_HALF: Final = 2.0**-11
#: How many times larger a rounding to float16 is than one to float32.
_COARSER: Final = 2.0**13


@dataclass(frozen=True, slots=True)
class QuantisedExamination:
    """What was found of one value: of quantised integers, or of a float output.

    number, node: of the value, and of the node that gives it (for integers, the one that rounds).
    kind: `right`; `reduced_precision`, where rounding to float16 may lead there; `discrepant`.
    bad: mask of the elements that are not right. elements: how many there are.
    farthest: the largest distance from the right integer, in steps (0 for floats).
    beyond: by how much of a step the exact quotient is further from an integer than rounding to nearest allows, at
    most (for floats, the largest error).
    rule: the other rule that gives every element, in words; empty where none is known.
    position, got, right, exact: the worst element, what it is, what it should be, and the exact quotient with the zero
    point.
    """

    number: int
    node: int
    kind: Kind
    bad: Tensor
    elements: int
    farthest: int = 0
    beyond: float = 0.0
    rule: str = ""
    position: tuple[int, ...] = ()
    got: float = 0.0
    right: float = 0.0
    exact: float = 0.0

    @property
    def count(self) -> int:
        """How many elements are not right."""
        return int(self.bad.sum())


def examine_quantised(
    graph: Graph, inputs: Sequence[Array], integers: Mapping[int, Array], outputs: Sequence[Array]
) -> list[QuantisedExamination]:
    """Returns one examination for each quantised value in `integers`, in order, then those of the float outputs.

    `graph`: functional. `integers`: what a platform gave, by number of the value (`QuantisedValue.number`); `outputs`:
    of the same run, in the graph's order. Raises `OracleError`; `OracleMemoryError` where memory does not suffice.
    """
    values = [value for value in quantised_values(graph) if value.number in integers]
    floats = [
        (number, array) for number, array in zip(graph.outputs, outputs, strict=True)
        if array.dtype.kind == "f" and number not in integers
    ]  # fmt: skip
    watched = (*(value.operand for value in values), *(number for number, _ in floats))
    given = {value.number: to_torch(integers[value.number]) for value in values}
    oracle = Oracle(replace(graph, outputs=watched, labels=Labels()), inputs, decisions=given)
    found = [_examined(oracle, value, widen(given[value.number])) for value in values]
    return found + [_of_floats(oracle, number, array) for number, array in floats]


def _zero_point(oracle: Oracle, value: QuantisedValue) -> Tensor:
    zero = oracle.step.wide(value.zero.index) if isinstance(value.zero, Ref) else value.zero
    return torch.as_tensor(zero, dtype=torch.float64)


def _examined(oracle: Oracle, value: QuantisedValue, given: Tensor) -> QuantisedExamination:
    expected = oracle.expectation(value.operand)
    x, zero, got = expected.wide, _zero_point(oracle, value), given.to(torch.float64)
    if got.shape != x.shape:
        everywhere = torch.ones(got.shape, dtype=torch.bool)
        return QuantisedExamination(value.number, value.node, "discrepant", everywhere, got.numel())
    within = reach(oracle, value, expected)
    # What NaN becomes is not defined, and what is infinite without doubt is cut off.
    x = torch.where(x.isnan(), got - zero, x)
    within = torch.where(torch.isfinite(x), torch.nan_to_num(within, nan=torch.inf), torch.zeros_like(x))

    def integers(steps: Tensor) -> Tensor:
        return torch.clamp(torch.round(steps) + zero, value.low, value.high)

    bad = ~((got >= integers(x - within)) & (got <= integers(x + within)))
    if not bool(bad.any()):
        return QuantisedExamination(value.number, value.node, "right", bad, got.numel())
    right = integers(x)
    cut_off = torch.minimum(torch.maximum(x + zero, torch.full_like(x, value.low)), torch.full_like(x, value.high))
    beyond = torch.where(bad, ((got - cut_off).abs() - 0.5).clamp_min(0.0), torch.zeros_like(x))
    limit = _of_float16(value, expected)
    rule = named_rule(value, x, zero, got, within)
    if not rule and not bool((beyond[bad] > 0).any()):
        rule = "where the quotient is exactly between two integers the odd one was taken, not the even one"
    few = not rule and bool((beyond <= limit).all())
    if not rule and not few and (scale := dividing_scale(oracle, value)) is not None:
        rule = other_encoding(value, x, zero, got, scale, limit)
    worst = int(torch.where(bad, (got - right).abs() + beyond, -torch.ones_like(x)).flatten().argmax())
    position = tuple(int(each) for each in torch.unravel_index(torch.tensor(worst), x.shape))
    return QuantisedExamination(
        value.number, value.node, "reduced_precision" if few else "discrepant", bad, got.numel(),
        int((got - right).abs().max()), float(beyond.max()), rule, position, float(got.flatten()[worst]),
        float(right.flatten()[worst]), float((x + zero).flatten()[worst]),
    )  # fmt: skip


def _of_float16(value: QuantisedValue, expected: Expectation) -> Tensor:
    """How far beyond half a step float16 may lead: two roundings, of an operand and of the result.

    Two standard deviations of the graph's errors there, or two roundings of the largest quotient; at most two of the
    whole range. That is a quarter of a step for 8 bits, less than truncation or another zero point are off.
    """
    finite = expected.wide[torch.isfinite(expected.wide)]
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    size = torch.clamp_min(torch.nan_to_num(2 * _COARSER * expected.sigma), 2 * _HALF * largest)
    return torch.clamp_max(size, 2 * _HALF * (value.high - value.low)).expand(expected.wide.shape)


def _of_floats(oracle: Oracle, number: int, array: Array) -> QuantisedExamination:
    """A float output, computed from the integers that the platform gave before it."""
    node, given = oracle.graph.producer[number], to_torch(array)
    examined = oracle.examine_value(number, array)
    expected = oracle.expectation(number)
    bad = torch.zeros(given.shape, dtype=torch.bool) if examined.bad is None else examined.bad
    if examined.kind == "calm":
        return QuantisedExamination(number, node, "right", torch.zeros_like(bad), given.numel())
    if examined.kind == "structural" or given.shape != expected.wide.shape:
        return QuantisedExamination(number, node, "discrepant", torch.ones_like(bad), given.numel())
    error = (widen(given) - expected.wide).abs()
    error = torch.where(error.isnan(), torch.full_like(error, torch.inf), error)
    largest = float(expected.wide.abs().max())
    limit = torch.clamp_min(_COARSER * expected.sigma, 2 * _HALF * largest)
    few = bool((error <= limit).all())
    worst = int(error.flatten().argmax())
    position = tuple(int(each) for each in torch.unravel_index(torch.tensor(worst), given.shape))
    right = float(expected.wide.flatten()[worst])
    return QuantisedExamination(
        number, node, "reduced_precision" if few else "discrepant", bad, given.numel(), 0, float(error.max()), "",
        position, float(given.flatten()[worst]), right, right,
    )  # fmt: skip
