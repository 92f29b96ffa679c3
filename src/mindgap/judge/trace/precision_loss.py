"""Recognises two ways to lose precision at one operator: a number rounded to float32, and sums kept in 16 bits.

Both are recognised by their result, on right operands. So their text has `as if`: another computation may give
the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from mindgap.aten.operators import overload
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.aten.torch_private.overloads import schema_of
from mindgap.judge.oracle import LocalExpectation, Oracle, OracleError, OracleMemoryError, local_expectation
from mindgap.judge.oracle.bounds.rules import Bound, bounds_of, has_rule
from mindgap.judge.oracle.evaluation.float64 import BoundCall, bind_call, evaluate, neutral_float64
from mindgap.judge.oracle.evaluation.formats import FORMATS, is_real, widen
from mindgap.judge.oracle.examination import BULK_RATIO
from mindgap.judge.oracle.single_operator import WideValues
from mindgap.judge.trace.subgraphs import Array

#: Sums in 16 bits: errors are twice the bound of one operator at most, and root mean square errors less than this share
#: of the values (as for `reduced_precision`).
_MOST_BOUNDS: Final = 2.0
_MOST_RELATIVE: Final = 2.0**-5
#: Half of the elements are off by this share of the largest error of one rounding. Sums that are rounded once are off
#: by 0.24 to 0.40 of it, sums of nine products in float16 by 0.7.
_LEAST_SHARE: Final = 0.5
#: Fewer elements than that show no share.
_LEAST_ELEMENTS: Final = 4


def precision_loss(oracle: Oracle, node: int, arrays: Mapping[int, Array]) -> str:
    """How an operator's results, by value number, lost precision: a phrase for the detail; empty where it is not known.

    The results differ from the exact ones beyond rounding, in elements that are finite on both sides.
    """
    graph = oracle.graph
    declared = {spec.dtype for n in arrays if (spec := graph.values[n]) is not None}
    if not declared or not all(is_real(dtype) for dtype in declared):
        return ""
    if declared <= {"float64", "complex128"}:
        return _rounded_numbers(oracle, node, arrays)
    return _narrow_sums(oracle, node, arrays) if all(FORMATS[dtype].narrow for dtype in declared) else ""


@dataclass(frozen=True, slots=True)
class _Number:
    """A number among an operator's arguments that float32 does not hold. `name`: of the schema. `position`: in the
    positional arguments, None where it is a keyword."""

    name: str
    position: int | None
    value: float

    @property
    def single(self) -> float:
        """The nearest number that float32 holds."""
        return float(torch.tensor(self.value, dtype=torch.float64).to(torch.float32))


def _rounded_numbers(oracle: Oracle, node: int, arrays: Mapping[int, Array]) -> str:
    """Names the fewest numbers that, rounded to float32, explain every result; empty where none do.

    ONNX holds the attributes of its operators in float32, also of operators on float64.
    """
    call = bind_call(oracle.graph, oracle.graph.nodes[node])
    expected = local_expectation(oracle, node)
    with neutral_float64():
        args, kwargs = call.bind(WideValues(oracle))

        def explain(some: list[_Number]) -> bool:
            try:
                return bool(some) and _explained(expected, evaluate(call, *_with_singles(args, kwargs, some)), arrays)
            except OracleMemoryError:
                raise
            except OracleError:
                return False

        numbers = _numbers(call, args, kwargs)
        none: list[_Number] = []
        narrow = next((some for some in (numbers, *([each] for each in numbers)) if explain(some)), none)
        for each in list(narrow):
            fewer = [other for other in narrow if other is not each]
            narrow = fewer if explain(fewer) else narrow
    names = " and ".join(each.name for each in narrow)
    became = ", ".join(f"{each.value!r} became {each.single!r}" for each in narrow)
    return f"as if {names} were rounded to float32, as attributes in ONNX are ({became})" if narrow else ""


def _numbers(call: BoundCall, args: list[Any], kwargs: Mapping[str, Any]) -> list[_Number]:
    """The numbers among the arguments, and those that the schema puts in for missing ones."""
    numbers: list[_Number] = []
    for position, argument in enumerate(schema_of(overload(call.node.op)).arguments):
        given = position < len(args) and not argument.kwarg_only
        value = args[position] if given else kwargs.get(argument.name, argument.default_value)
        if isinstance(value, float):
            number = _Number(argument.name, position if given else None, value)
            if number.single != value and value == value:
                numbers.append(number)
    return numbers


def _with_singles(args: list[Any], kwargs: Mapping[str, Any], numbers: list[_Number]) -> tuple[list[Any], Any]:
    """The arguments with these numbers rounded to float32."""
    by_position = {each.position: each.single for each in numbers if each.position is not None}
    named = {each.name: each.single for each in numbers if each.position is None}
    return [by_position.get(position, arg) for position, arg in enumerate(args)], {**kwargs, **named}


def _explained(expected: LocalExpectation, results: list[Any], arrays: Mapping[int, Array]) -> bool:
    """Every result of the platform is within its bounds around these."""
    for number, array in arrays.items():
        slot = number - expected.first
        if not isinstance(results[slot], torch.Tensor) or results[slot].shape != to_torch(array).shape:
            return False
        if not _calm(expected.around(slot, to_numpy(results[slot])), slot, array):
            return False
    return True


def _calm(expected: LocalExpectation, slot: int, array: Array) -> bool:
    """Neither an element nor the result in bulk is beyond its bounds."""
    verdict = expected.examine(slot, array)
    return verdict.kind == "calm" and (verdict.median is None or verdict.median <= BULK_RATIO)


def _narrow_sums(oracle: Oracle, node: int, arrays: Mapping[int, Array]) -> str:
    """Says that sums were kept in the declared dtype of 16 bits, where this explains every result; else nothing.

    Results are then within the operator's bound with roundings of that size, and most of them are off by more than the
    one rounding of a sum that was kept in float32.
    """
    call = bind_call(oracle.graph, oracle.graph.nodes[node])
    if not has_rule(call.packet) or call.moves or torch.Tag.pointwise in overload(call.node.op).tags:
        return ""
    expected = local_expectation(oracle, node)
    with neutral_float64():
        args, kwargs = call.bind(WideValues(oracle))
        try:
            results = evaluate(call, args, kwargs)
        except OracleMemoryError:
            raise
        except OracleError:
            return ""
        bounds = bounds_of(call, args, kwargs, results, kept_narrow=True)
    narrow = False
    for slot, got, right in _slots(expected, results, arrays):
        bound, hard = bounds.slots[slot], expected.hard[slot]
        if bound is None or hard is None:
            return ""
        if _calm(expected, slot, arrays[expected.first + slot]):
            continue
        if not _as_narrow_sums(got, right, bound, FORMATS[hard.dtype].u):
            return ""
        narrow = True
    dtype = next(spec.dtype for spec in call.node.outputs if spec is not None)
    return f"as if sums were accumulated in {dtype}" if narrow else ""


def _slots(
    expected: LocalExpectation, results: list[Any], arrays: Mapping[int, Array]
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Each slot with the platform's result and the exact one."""
    for number, array in arrays.items():
        slot = number - expected.first
        if isinstance(results[slot], torch.Tensor):
            yield slot, widen(to_torch(array)), results[slot]


def _as_narrow_sums(got: torch.Tensor, right: torch.Tensor, bound: Bound, u: float) -> bool:
    if got.shape != right.shape or got.numel() < _LEAST_ELEMENTS:
        return False
    finite = torch.isfinite(got) & torch.isfinite(right)
    if not bool(finite.all()):
        return False
    error, size = (got - right).abs(), right.abs()
    within = bool((error <= _MOST_BOUNDS * (bound.hard + u * size)).all())
    small = float(error.square().mean().sqrt()) < _MOST_RELATIVE * float(size.square().mean().sqrt())
    return within and small and float(error.median()) > _LEAST_SHARE * u * float(size.median())
