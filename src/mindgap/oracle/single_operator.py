"""Expectations of single operators on the operands that the stepwise shadow gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from mindgap.aten.tensors import to_torch
from mindgap.oracle.decisions import decision_slots, implausible
from mindgap.oracle.evaluation.float64 import bind_call, evaluate, neutral_float64
from mindgap.oracle.evaluation.formats import FORMATS, in_range, is_real, rounded, widen
from mindgap.oracle.examination import SIGMAS, Examined, Expectation, examine
from mindgap.oracle.float_classes import ANY, class_bits
from mindgap.oracle.oracle import Oracle


@dataclass(frozen=True)
class LocalExpectation:
    """One node on its operands in S. Per slot: the expectation with hard bounds, and the typical ones.

    Slots that hold no tensor are None.
    """

    node: int
    first: int
    hard: tuple[Expectation | None, ...]
    typical: tuple[torch.Tensor, ...]
    oracle: Oracle

    def examine(self, slot: int, array: Any) -> Examined:
        """One result of a platform: limits from the hard bound, the median in typical σ. Ties are calm."""
        got, hard = to_torch(array), self.hard[slot]
        if hard is None:
            return Examined("calm")
        verdict = examine(hard, got, self.typical[slot])
        if verdict.kind == "discrepant" and not is_real(hard.dtype) and verdict.bad is not None:
            return self._without_ties(slot, got, verdict, verdict.bad)
        return verdict

    def around(self, slot: int, array: Any) -> LocalExpectation:
        """The same bounds around somebody's result instead of the shadows."""
        centre, old = to_torch(array), self.hard[slot]
        if old is None or old.step.shape != centre.shape:
            return self
        bits = class_bits(centre) if centre.is_floating_point() or centre.is_complex() else torch.zeros(())
        moved = replace(old, step=widen(centre), wide=widen(centre), classes=bits)
        return replace(self, hard=tuple(moved if s == slot else e for s, e in enumerate(self.hard)))

    def _without_ties(self, slot: int, got: torch.Tensor, verdict: Examined, bad: torch.Tensor) -> Examined:
        graph = self.oracle.graph
        if self.first + slot not in decision_slots(graph, (graph.producer[self.first],)):
            return verdict

        def certain(number: int) -> tuple[torch.Tensor, torch.Tensor]:
            return self.oracle.step.wide(number), torch.zeros(())

        unexplained = implausible(graph, self.first + slot, widen(got), certain)
        if unexplained is None:
            return verdict
        bad = bad & unexplained
        return replace(verdict, bad=bad) if bool(bad.any()) else Examined("calm", bad)


def local_expectation(oracle: Oracle, node: int) -> LocalExpectation:
    """The node's exact results on S's operands, with their bounds."""
    slots = oracle.graph.results(node)
    typical = tuple(oracle.step.typical.get(n, torch.zeros(())).to(torch.float64) for n in slots)
    return LocalExpectation(node, slots.start, tuple(_expect(oracle, node, n) for n in slots), typical, oracle)


def _expect(oracle: Oracle, node: int, number: int) -> Expectation | None:
    spec, step = oracle.graph.values[number], oracle.step
    if spec is None or number not in step.values:
        return None
    value, exact, undefined = step.wide(number), step.exact(number), step.undefined.get(number)
    if not is_real(spec.dtype):
        other = _with_narrow_scalars(oracle, node, number) if undefined is None else value
        return Expectation(spec.dtype, value, other, torch.zeros(()), torch.zeros(()), (), undefined, spec.shape)
    classes = class_bits(value) | class_bits(in_range(exact, spec.dtype))
    hard = step.hard[number].to(torch.float64) if number in step.hard else torch.zeros(value.shape, dtype=torch.float64)
    if number in step.hard and float(value.abs().max() if value.numel() else 0.0) > FORMATS[spec.dtype].largest / 4:
        for sign in (-1, 1):
            classes = classes | class_bits(
                rounded(torch.where(hard > 0, exact + sign * SIGMAS * hard, exact), spec.dtype)
            )
    if number in step.hazards:
        classes = torch.where(step.hazards[number].expand(classes.shape), torch.full_like(classes, ANY), classes)
    exactly = number not in step.hard
    return Expectation(spec.dtype, value, exact, hard, classes, (), undefined, spec.shape, exact=exactly)


def _with_narrow_scalars(oracle: Oracle, node: int, number: int) -> torch.Tensor:
    """A comparison whose scalar was rounded to the narrow dtype that it is compared with; else what S has."""
    call = bind_call(oracle.graph, oracle.graph.nodes[node], narrow_scalars=True)
    if call.traits.decides != "comparison" or not any(d in FORMATS and FORMATS[d].narrow for d in call.dtypes):
        return oracle.step.wide(number)
    with neutral_float64():
        args, kwargs = call.bind(WideValues(oracle))
        return evaluate(call, args, kwargs)[0]


class WideValues(Sequence[Any]):
    """S's values in float64, converted when they are asked for."""

    def __init__(self, oracle: Oracle) -> None:
        self._step = oracle.step

    def __getitem__(self, number: Any) -> Any:
        return self._step.wide(number) if number in self._step.values else None

    def __len__(self) -> int:
        return len(self._step.values)
