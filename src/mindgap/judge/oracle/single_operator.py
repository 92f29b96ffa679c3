"""Expectations of single operators on the operands that the stepwise shadow gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch

from mindgap.aten.tensors import TORCH_DTYPES, to_torch
from mindgap.graph import TensorSpec
from mindgap.judge.oracle.bounds import bounds_of
from mindgap.judge.oracle.decisions import decision_slots, implausible
from mindgap.judge.oracle.evaluation.float64 import bind_call, evaluate, neutral_float64
from mindgap.judge.oracle.evaluation.formats import FORMATS, in_range, is_real, rounded, widen
from mindgap.judge.oracle.evaluation.scalar_rounding import ScalarOperand, roundings, scalar_operands, with_roundings
from mindgap.judge.oracle.evaluation.unordered import in_any_order, in_order_of
from mindgap.judge.oracle.examination import BULK_RATIO, SIGMAS, Examined, Expectation, examine
from mindgap.judge.oracle.float_classes import ANY, class_bits
from mindgap.judge.oracle.oracle import Oracle
from mindgap.judge.oracle.shadows.result_rounding import round_results
from mindgap.judge.oracle.shadows.undefined import could_be_written


@dataclass(frozen=True)
class LocalExpectation:
    """One node on its operands in S. Per slot: the expectation with hard bounds, and the typical ones.

    Slots that hold no tensor are None. `scalars`: scalar operands that a correct implementation may round first.
    """

    node: int
    first: int
    hard: tuple[Expectation | None, ...]
    typical: tuple[torch.Tensor, ...]
    oracle: Oracle
    scalars: tuple[ScalarOperand, ...] = ()

    def examine(self, slot: int, array: Any) -> Examined:
        """One result of a platform: limits from the hard bound, the median in typical σ. Ties are calm.

        Where scalars may be rounded first, an element within the limits of any rounding of them is calm. An element
        that is written more than once must be one of the values written.
        """
        got = to_torch(array)
        examined = self._examine(slot, got)
        if self.scalars and _suspicious(examined):
            examined = self._otherwise_rounded(slot, got, examined)
        return self._without_writable(slot, got, examined)

    def _examine(self, slot: int, got: torch.Tensor) -> Examined:
        hard = self.hard[slot]
        if hard is None:
            return Examined("calm")
        node = self.oracle.graph.nodes[self.node]
        if slot == 0 and in_any_order(node):
            got = in_order_of(node, got, hard.step)
        verdict = examine(hard, got, self.typical[slot])
        if verdict.kind == "discrepant" and not is_real(hard.dtype) and verdict.bad is not None:
            return self._without_ties(slot, got, verdict, verdict.bad)
        return verdict

    def _otherwise_rounded(self, slot: int, got: torch.Tensor, examined: Examined) -> Examined:
        """The examination with scalars rounded in each way in turn; an element is bad where it is bad in all."""
        for dtypes in islice(roundings(self.scalars), 1, None):
            rounded_first = _with_scalars(self.oracle, self.node, self.scalars, dtypes)
            if rounded_first is None:
                continue
            examined = _either(examined, rounded_first._examine(slot, got), dtypes)
            if not _suspicious(examined):
                break
        return examined

    def _impossible(self, slot: int, got: torch.Tensor) -> torch.Tensor | None:
        """The elements that are written more than once and hold none of the values written; None without any."""
        call, hard = bind_call(self.oracle.graph, self.oracle.graph.nodes[self.node]), self.hard[slot]
        if slot or hard is None or hard.tainted is None or call.traits.undefined_where != "index written twice":
            return None
        if got.shape != hard.step.shape:
            return None
        with neutral_float64():
            args, kwargs = call.bind(WideValues(self.oracle))
            writable = could_be_written(call, args, kwargs, widen(got))
        mask = None if writable is None else hard.tainted & ~writable
        return mask if mask is not None and bool(mask.any()) else None

    def _without_writable(self, slot: int, got: torch.Tensor, found: Examined) -> Examined:
        mask = self._impossible(slot, got) if found.tainted else None
        if mask is None:
            return found
        bad = mask if found.bad is None else found.bad | mask
        return replace(found, kind="discrepant", bad=bad, worst=float("inf"), tainted=found.tainted - int(mask.sum()))

    def around(self, slot: int, array: Any) -> LocalExpectation:
        """The same bounds around somebody's result instead of the shadows."""
        centre, old = to_torch(array), self.hard[slot]
        if old is None or old.step.shape != centre.shape:
            return self
        bits = class_bits(centre) if centre.is_floating_point() or centre.is_complex() else torch.zeros(())
        moved = replace(old, step=widen(centre), wide=widen(centre), classes=bits)
        return replace(self, hard=tuple(moved if s == slot else e for s, e in enumerate(self.hard)), scalars=())

    def _without_ties(self, slot: int, got: torch.Tensor, verdict: Examined, bad: torch.Tensor) -> Examined:
        graph = self.oracle.graph
        if self.first + slot not in decision_slots(graph, (graph.producer[self.first],)):
            return verdict

        def certain(number: int) -> tuple[torch.Tensor, torch.Tensor]:
            own = number == self.first + slot and number in self.oracle.imposed
            value = _own_result(self.oracle, self.node, number) if own else self.oracle.step.wide(number)
            return value, torch.zeros(())

        unexplained = implausible(graph, self.first + slot, widen(got), certain)
        if unexplained is None:
            return verdict
        bad = bad & unexplained
        return replace(verdict, bad=bad) if bool(bad.any()) else Examined("calm", bad)


def _suspicious(one: Examined) -> bool:
    return one.kind in ("discrepant", "exceptional") or (one.kind == "calm" and (one.median or 0.0) > BULK_RATIO)


def _either(one: Examined, other: Examined, dtypes: tuple[str, ...]) -> Examined:
    """Calm in an element where either examination is. `dtypes`: of the scalars in the other one."""
    if other.kind == "structural" or one.bad is None or other.bad is None:
        better = _suspicious(one) and other.kind == "calm" and not _suspicious(other)
        return replace(other, scalars_rounded=dtypes) if better else one
    bad = one.bad & other.bad
    wrong = bool(bad.any())
    medians = [each.median for each in (one, other) if each.median is not None]
    return replace(
        one,
        kind=one.kind if wrong else "calm",
        bad=bad,
        worst=one.worst if wrong else min(one.worst, other.worst),
        median=min(medians, default=None),
        single=one.single and wrong,
        scalars_rounded=dtypes if int(bad.sum()) < one.count or _suspicious(one) else one.scalars_rounded,
    )


def local_expectation(oracle: Oracle, node: int) -> LocalExpectation:
    """The node's exact results on S's operands, with their bounds."""
    slots = oracle.graph.results(node)
    scalars = scalar_operands(oracle.graph, oracle.graph.nodes[node])
    if scalars and not oracle.step.undefined.keys() & set(slots):
        as_given = _with_scalars(oracle, node, scalars, ("",) * len(scalars))
        if as_given is not None:
            return replace(as_given, scalars=scalars)
    typical = tuple(_typical(oracle, n) for n in slots)
    return LocalExpectation(node, slots.start, tuple(_expect(oracle, node, n) for n in slots), typical, oracle)


def _typical(oracle: Oracle, number: int) -> torch.Tensor:
    typical, spec = oracle.step.typical.get(number), oracle.graph.values[number]
    if typical is None or spec is None:
        return torch.zeros((), dtype=torch.float64)
    return with_one_rounding(typical.to(torch.float64), oracle.step.exact(number), spec.dtype)


def _with_scalars(
    oracle: Oracle, node: int, scalars: tuple[ScalarOperand, ...], dtypes: tuple[str, ...]
) -> LocalExpectation | None:
    """The expectation with scalar operands rounded to these dtypes; None where the results have another shape then."""
    graph = oracle.graph
    slots, call = graph.results(node), bind_call(graph, graph.nodes[node])
    with neutral_float64():
        args, kwargs = with_roundings(scalars, dtypes, *call.bind(WideValues(oracle)))
        results = evaluate(call, args, kwargs)
        bounds = bounds_of(call, args, kwargs, results, scalars_kept=True).slots
        finals = round_results(call, results)
    hard: list[Expectation | None] = []
    typical: list[torch.Tensor] = []
    for number, exact, final, bound in zip(slots, results, finals, bounds, strict=True):
        spec = graph.values[number]
        if bound is None or spec is None or not isinstance(exact, torch.Tensor):
            typical.append(torch.zeros(()))
        else:
            typical.append(with_one_rounding(bound.typical, exact, spec.dtype))
        if spec is None or not isinstance(final, torch.Tensor):
            hard.append(None)
            continue
        if final.shape != oracle.step.values[number].shape:
            return None
        value = widen(final.to(TORCH_DTYPES[spec.dtype]))
        if not is_real(spec.dtype):
            none = torch.zeros(())
            hard.append(Expectation(spec.dtype, value, value, none, none, (), None, spec.shape))
            continue
        size, hazard = (None, None) if bound is None else (bound.hard, bound.hazard)
        if bound is not None and bound.strict is not None:
            size = bound.hard.masked_fill(bound.strict, 0.0)
        hard.append(_around_value(spec, value, value if call.moves else exact, size, hazard, None))
    return LocalExpectation(node, slots.start, tuple(hard), tuple(typical), oracle)


def _expect(oracle: Oracle, node: int, number: int) -> Expectation | None:
    spec, step = oracle.graph.values[number], oracle.step
    if spec is None or number not in step.values:
        return None
    value, exact, undefined = step.wide(number), step.exact(number), step.undefined.get(number)
    if not is_real(spec.dtype):
        if number in oracle.imposed:
            value = _own_result(oracle, node, number)
        return Expectation(spec.dtype, value, value, torch.zeros(()), torch.zeros(()), (), undefined, spec.shape)
    return _around_value(spec, value, exact, hard_alone(oracle, number), step.hazards.get(number), undefined)


def _own_result(oracle: Oracle, node: int, number: int) -> torch.Tensor:
    """What an operator gives on its operands in S, where another value is imposed on what follows."""
    graph = oracle.graph
    call = bind_call(graph, graph.nodes[node])
    with neutral_float64():
        results = round_results(call, evaluate(call, *call.bind(WideValues(oracle))))
    return widen(results[number - graph.first_value[node]])


def hard_alone(oracle: Oracle, number: int) -> torch.Tensor | None:
    """The hard bound of an operator by itself: zero where every implementation is exact. None where nothing rounds."""
    step = oracle.step
    if number not in step.hard:
        return None
    hard = step.hard[number].to(torch.float64)
    return hard.masked_fill(step.strict[number], 0.0) if number in step.strict else hard


def _around_value(
    spec: TensorSpec, value: torch.Tensor, exact: torch.Tensor, hard: torch.Tensor | None,
    hazard: torch.Tensor | None, undefined: torch.Tensor | None,
) -> Expectation:  # fmt: skip
    """The expectation of a float result: `exact`, and rounded to its dtype. `hard`: None where nothing rounds."""
    classes = class_bits(value) | class_bits(in_range(exact, spec.dtype))
    size = torch.zeros(value.shape, dtype=torch.float64) if hard is None else with_one_rounding(hard, exact, spec.dtype)
    if hard is not None and float(value.abs().max() if value.numel() else 0.0) > FORMATS[spec.dtype].largest / 4:
        for sign in (-1, 1):
            classes = classes | class_bits(
                rounded(torch.where(size > 0, exact + sign * SIGMAS * size, exact), spec.dtype)
            )
    if hazard is not None:
        classes = torch.where(hazard.expand(classes.shape), torch.full_like(classes, ANY), classes)
    return Expectation(spec.dtype, value, exact, size, classes, (), undefined, spec.shape, exact=hard is None)


def with_one_rounding(bound: torch.Tensor, value: torch.Tensor, dtype: str) -> torch.Tensor:
    """A bound of an operator by itself, which may round once where the exact result needs no rounding."""
    return torch.maximum(bound, FORMATS[dtype].u * torch.nan_to_num(value.abs(), posinf=0.0))


class WideValues(Sequence[Any]):
    """S's values in float64, converted when they are needed."""

    def __init__(self, oracle: Oracle) -> None:
        self._step = oracle.step

    def __getitem__(self, number: Any) -> Any:
        return self._step.wide(number) if number in self._step.values else None

    def __len__(self) -> int:
        return len(self._step.values)
