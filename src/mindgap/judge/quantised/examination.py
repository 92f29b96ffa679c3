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
from mindgap.judge.oracle import Expectation, Oracle, OracleError
from mindgap.judge.oracle.evaluation.formats import widen
from mindgap.judge.quantised.reach import dividing_scale, reach
from mindgap.judge.quantised.values import QuantisedValue, quantised_values
from mindgap.judge.quantised.wrong_rules import named_rule, other_encoding
from mindgap.platforms.model_formats import DEFINED, QuantisationRule

Tensor = torch.Tensor
Kind = Literal["right", "reduced_precision", "discrepant", "undecided"]

#: Half the spacing of float16 numbers, relative to them.
_HALF: Final = 2.0**-11
#: How many times larger a rounding to float16 is than one to float32.
_COARSER: Final = 2.0**13
#: Elements that are off by float16 are off in both directions: of so many, more than one in so many.
_SIGNS: Final = 20
_MINORITY: Final = 16
#: Of the integers of a type, the share that may be right of one element: where more are, values at random pass in that
#: share of cases, and a kernel with errors of several steps is taken for a right one. Rounding in float32 alone reaches
#: less than a step of 8 bits; so wide a reach means that it decides a position or a comparison.
_SHARE: Final = 1 / 8


@dataclass(frozen=True, slots=True)
class QuantisedExamination:
    """What was found of one value: of quantised integers, or of an output.

    number, node: of the value, and of the node that gives it (for integers, the one that rounds).
    kind: `right`; `reduced_precision`, where rounding to float16 may lead there; `discrepant`; `undecided`.
    bad: mask of the elements that are not right. elements: how many there are.
    farthest: the largest distance from the right integer, in steps (0 for floats).
    beyond: by how much of a step the exact quotient is further from an integer than rounding to nearest allows, at
    most (for floats, the largest error).
    rule: the other rule that gives every element, in words; empty where none is known.
    position, got, right, exact: the worst element, what it is, what it should be, and the exact quotient with the zero
    point.
    form: dtype and shape that it has and should have, in words; empty where they are right.
    by_factor: how many elements are right only for a factor of 31 bits and its shift (`reach.Reach.integer`).
    why: of an undecided one, in words.
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
    form: str = ""
    by_factor: int = 0
    why: str = ""

    @property
    def count(self) -> int:
        """How many elements are not right."""
        return int(self.bad.sum())


def examine_quantised(
    graph: Graph, inputs: Sequence[Array], integers: Mapping[int, Array], outputs: Sequence[Array],
    narrow: bool = False, imposed: Mapping[int, Array] | None = None, rule: QuantisationRule = DEFINED,
) -> list[QuantisedExamination]:  # fmt: skip
    """Returns one examination for each quantised value in `integers` or among the outputs, in order, then those of the
    other values in `integers`, which are moved or chosen without rounding, and those of the other outputs.

    `graph`: functional. `integers`: what a platform gave, by number of the value; `outputs`: of the same run, in the
    graph's order. `narrow`: whether the platform was measured to compute float32 in fewer bits;
    `reduced_precision` is found of no other. `imposed`: integers that take their place in what follows. Raises
    `OracleError`, also for another number of outputs;
    `OracleMemoryError` where memory does not suffice.
    """
    if len(outputs) != len(graph.outputs):
        raise OracleError(f"it gives {len(outputs)} outputs, and its translated graph {len(graph.outputs)}")
    quantised = quantised_values(graph)
    returned = dict(zip(graph.outputs, outputs, strict=True))
    all_integers = {each.number: returned[each.number] for each in quantised if each.number in returned} | dict(
        integers
    )
    values = [value for value in quantised if value.number in all_integers]
    rounded_ones = {value.number for value in values}
    moved = [number for number in all_integers if number not in rounded_ones and number not in returned]
    others = [number for number in returned if number not in rounded_ones]
    again, copies = _computed_again(graph, moved)
    watched = (*(value.operand for value in values), *copies.values(), *others)
    given = {number: to_torch(all_integers[number]) for number in (*rounded_ones, *moved)}
    fitting = {number: array for number, array in given.items() if not _other_form(graph, number, array)}
    fitting |= {number: to_torch(array) for number, array in (imposed or {}).items()}
    oracle = Oracle(replace(again, outputs=watched, labels=Labels()), inputs, decisions=fitting)
    examined = [_examined(oracle, value, given[value.number], narrow, rule) for value in values]
    for number in moved:
        one = _examine_by_oracle(oracle, copies[number], all_integers[number], narrow)
        examined.append(replace(one, number=number, node=graph.producer[number]))
    for number in others:
        examine = _examine_float if returned[number].dtype.kind == "f" else _examine_by_oracle
        examined.append(examine(oracle, number, returned[number], narrow))
    return examined


def _computed_again(graph: Graph, numbers: Sequence[int]) -> tuple[Graph, dict[int, int]]:
    """Returns the graph with a copy of the nodes that give these values behind the others, and the numbers of the
    copies: a value that is imposed on what follows is not computed where it is imposed."""
    nodes, copies, count = list(graph.nodes), dict[int, int](), len(graph.values)
    for number in numbers:
        index = graph.producer[number]
        nodes.append(graph.nodes[index])
        copies[number] = count + number - graph.first_value[index]
        count += len(graph.nodes[index].outputs)
    return replace(graph, nodes=tuple(nodes), labels=Labels()), copies


def _other_form(graph: Graph, number: int, given: Tensor) -> str:
    """The dtype and shape of integers and those of the graph, in words, where they differ."""
    spec = graph.values[number]
    got = f"{str(given.dtype).removeprefix('torch.')}{list(given.shape)}"
    right = got if spec is None else f"{spec.dtype}{list(spec.shape)}"
    return "" if got == right else f"{got} where {right} is right"


def _zero_point(oracle: Oracle, value: QuantisedValue) -> Tensor:
    zero = oracle.step.wide(value.zero.index) if isinstance(value.zero, Ref) else value.zero
    return torch.as_tensor(zero, dtype=torch.float64)


def _examined(
    oracle: Oracle, value: QuantisedValue, given: Tensor, narrow: bool, format_rule: QuantisationRule
) -> QuantisedExamination:
    expected = oracle.expectation(value.operand)
    x, zero, got = expected.wide, _zero_point(oracle, value), widen(given).to(torch.float64)
    form = _other_form(oracle.graph, value.number, given)
    if not form and got.shape != x.shape:
        form = f"{list(got.shape)} where {list(x.shape)} is right"
    if form:
        everywhere = torch.ones(got.shape, dtype=torch.bool)
        return QuantisedExamination(value.number, value.node, "discrepant", everywhere, got.numel(), form=form)
    allowed = reach(oracle, value, expected, format_rule)
    # What NaN becomes is not defined, and what is infinite without doubt is cut off.
    undefined, x = x.isnan(), torch.where(x.isnan(), got - zero, x)

    def integers(steps: Tensor) -> Tensor:
        return torch.clamp(torch.round(steps) + zero, value.low, value.high)

    def outside(distance: Tensor) -> Tensor:
        finite = torch.where(torch.isfinite(x), torch.nan_to_num(distance, nan=torch.inf), torch.zeros_like(x))
        return ~((got >= integers(x - finite)) & (got <= integers(x + finite))) & ~undefined

    within = allowed.floats + allowed.integer
    bad = outside(within)
    if not bool(bad.any()):
        if open_ones := _open_elements(value, x, zero, within, undefined):
            why = (
                f"rounding leaves more than 1/{1 / _SHARE:.0f} of the integers of its type open at {open_ones} of "
                f"{got.numel()} elements"
            )
            return QuantisedExamination(value.number, value.node, "undecided", bad, got.numel(), why=why)
        by_factor = int(outside(allowed.floats).sum())
        return QuantisedExamination(value.number, value.node, "right", bad, got.numel(), by_factor=by_factor)
    within = torch.where(torch.isfinite(x), torch.nan_to_num(within, nan=torch.inf), torch.zeros_like(x))
    right = integers(x)
    cut_off = torch.minimum(torch.maximum(x + zero, torch.full_like(x, value.low)), torch.full_like(x, value.high))
    beyond = torch.where(bad, ((got - cut_off).abs() - 0.5).clamp_min(0.0), torch.zeros_like(x))
    limit = _float16_reach(value, expected)
    rule = named_rule(value, x, zero, got, within, bad)
    if not rule and not bool((beyond[bad] > 0).any()):
        rule = "where the quotient is exactly between two integers the odd one was taken, not the even one"
    few = narrow and not rule and bool((beyond <= limit).all())
    if few and bool((limit > 0.5).any()):
        # A zero point or a bias that is off hides below such a limit, and leads in one direction.
        few = not _one_sided(bad, got - cut_off)
    if not rule and not few and (scale := dividing_scale(oracle, value)) is not None:
        rule = other_encoding(value, x, zero, got, scale, limit)
    worst = int(torch.where(bad, (got - right).abs() + beyond, -torch.ones_like(x)).flatten().argmax())
    position = _position(worst, x)
    return QuantisedExamination(
        value.number, value.node, "reduced_precision" if few else "discrepant", bad, got.numel(),
        int((got - right).abs().max()), float(beyond.max()), rule, position, float(got.flatten()[worst]),
        float(right.flatten()[worst]), float((x + zero).flatten()[worst]),
    )  # fmt: skip


def _open_elements(value: QuantisedValue, x: Tensor, zero: Tensor, within: Tensor, undefined: Tensor) -> int:
    """How many elements may be so many integers that they are not judged (`_SHARE`). Two neighbours are a tie."""
    low, high = ((torch.round(each) + zero).clamp(value.low, value.high) for each in (x - within, x + within))
    wide = (high - low > max(_SHARE * (value.high - value.low), 1.0)) | within.isnan() | within.isinf()
    return int((wide & torch.isfinite(x) & ~undefined).sum())


def _one_sided(bad: Tensor, off: Tensor) -> bool:
    """Whether nearly all errors have one sign, in the whole or in some channel: dimension 1 of images (4 and 5
    dimensions), the last one otherwise."""
    if not bad.dim():
        return False
    channel = 1 if bad.dim() >= 4 else bad.dim() - 1
    up, down = ((bad & side).movedim(channel, 0).flatten(1).sum(1) for side in (off > 0, off < 0))
    few, all_ = torch.minimum(up, down), up + down
    by_channel = (all_ >= _SIGNS) & (few * _MINORITY <= all_)
    whole = min(int(up.sum()), int(down.sum())) * _MINORITY <= int(all_.sum()) >= _SIGNS
    return whole or bool(by_channel.any())


def _float16_reach(value: QuantisedValue, expected: Expectation) -> Tensor:
    """How far beyond half a step float16 may lead: two roundings, of an operand and of the result.

    Two standard deviations of the graph's errors there, or two roundings of the largest quotient; at most two of the
    whole range. That is a quarter of a step for 8 bits, less than truncation or another zero point are off.
    """
    largest = _largest(expected.wide)
    size = torch.clamp_min(torch.nan_to_num(2 * _COARSER * expected.sigma), 2 * _HALF * largest)
    return torch.clamp_max(size, 2 * _HALF * (value.high - value.low)).expand(expected.wide.shape)


def _largest(x: Tensor) -> float:
    """The largest finite magnitude; 0 where there is none."""
    finite = x[torch.isfinite(x)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _position(flat: int, x: Tensor) -> tuple[int, ...]:
    return tuple(int(each) for each in torch.unravel_index(torch.tensor(flat), x.shape))


def _examine_float(oracle: Oracle, number: int, array: Array, narrow: bool) -> QuantisedExamination:
    """A float output, computed from the integers that the platform gave before it."""
    examination = _examine_by_oracle(oracle, number, array, narrow)
    if examination.kind != "discrepant" or examination.form:
        return examination
    expected, got = oracle.expectation(number), widen(to_torch(array))
    error = torch.where(examination.bad, (got - expected.wide).abs(), torch.zeros_like(expected.wide))
    error = torch.where(error.isnan(), torch.full_like(error, torch.inf), error)
    largest = _largest(expected.wide)
    sigma = torch.nan_to_num(expected.sigma, nan=0.0, posinf=0.0)
    limit = torch.clamp_min(_COARSER * sigma, 2 * _HALF * largest)
    few = narrow and bool((torch.isfinite(error) & (error <= limit)).all())
    worst = int(error.flatten().argmax())
    position = _position(worst, got)
    right = float(expected.wide.flatten()[worst])
    return replace(
        examination, kind="reduced_precision" if few else "discrepant", beyond=float(error.max()), position=position,
        got=float(got.flatten()[worst]), right=right, exact=right,
    )  # fmt: skip


def _examine_by_oracle(oracle: Oracle, number: int, array: Array, _: bool) -> QuantisedExamination:
    """An output by the judge's own rule: floats within rounding; integers and truth values that a choice within
    rounding gives."""
    node, given = oracle.graph.producer[number], to_torch(array)
    examined = oracle.examine_value(number, array)
    bad = torch.zeros(given.shape, dtype=torch.bool) if examined.bad is None else examined.bad
    examination = QuantisedExamination(number, node, "right", bad, given.numel())
    if examined.silent:
        return replace(
            examination, kind="undecided", why="the shape of an output depends on values that rounding decides"
        )
    if examined.kind == "calm":
        return replace(examination, bad=torch.zeros_like(bad))
    if examined.kind == "structural":
        spec = oracle.graph.values[number]
        right = "" if spec is None else f" where {spec.dtype}{list(spec.shape)} is right"
        form = f"{array.dtype}{list(array.shape)}{right}"
        return replace(examination, kind="discrepant", bad=torch.ones_like(bad), form=form)
    if given.is_floating_point():
        return replace(examination, kind="discrepant")
    worst, right = int(bad.flatten().to(torch.int8).argmax()), oracle.step.wide(number)
    position = _position(worst, given)
    expected = float(right.flatten()[worst]) if right.shape == given.shape else 0.0
    got = float(given.flatten()[worst])
    return replace(examination, kind="discrepant", position=position, got=got, right=expected, exact=expected)
