"""What each operator may give for the operands that S gave it: the ground of lockstep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from mindgap.aten.tensors import to_torch
from mindgap.oracle.bounds import bounds_of
from mindgap.oracle.classes import ANY, class_bits
from mindgap.oracle.decisions import decision_slots, implausible
from mindgap.oracle.examine import SIGMAS, Examined, Expectation, examine
from mindgap.oracle.float64 import Call, Float64Graph, evaluate, neutral_float64
from mindgap.oracle.oracle import Oracle
from mindgap.oracle.precision import in_range, is_real, rounded, widen
from mindgap.oracle.undefined import undefined_masks


@dataclass(frozen=True)
class LocalExpectation:
    """One node on its operands in S. Per slot: the expectation with hard bounds, and with typical ones."""

    node: int
    first: int
    hard: tuple[Expectation | None, ...]
    typical: tuple[Expectation | None, ...]
    oracle: Oracle

    def examine(self, slot: int, array: Any) -> tuple[Examined, Examined]:
        """One result of a platform, against the hard and the typical bound. Ties of discrete results are calm."""
        got = to_torch(array)
        hard, typical = self.hard[slot], self.typical[slot]
        if hard is None or typical is None:
            return Examined("calm"), Examined("calm")
        verdict = examine(hard, got)
        if verdict.kind == "discrepant" and not is_real(hard.dtype) and verdict.bad is not None:
            verdict = self._without_ties(slot, got, verdict)
        return verdict, examine(typical, got)

    def around(self, slot: int, array: Any) -> LocalExpectation:
        """The same bounds around somebody's result instead of the shadows."""
        centre = to_torch(array)
        bits = class_bits(centre) if centre.is_floating_point() or centre.is_complex() else torch.zeros(())

        def moved(old: Expectation | None) -> Expectation | None:
            if old is None or old.step.shape != centre.shape:
                return old
            return replace(old, step=widen(centre), wide=widen(centre), classes=bits)

        return replace(
            self,
            hard=tuple(moved(e) if s == slot else e for s, e in enumerate(self.hard)),
            typical=tuple(moved(e) if s == slot else e for s, e in enumerate(self.typical)),
        )

    def _without_ties(self, slot: int, got: torch.Tensor, verdict: Examined) -> Examined:
        graph = self.oracle.graph
        if self.first + slot not in decision_slots(graph):
            return verdict

        def certain(number: int) -> tuple[torch.Tensor, torch.Tensor]:
            return self.oracle.step.wide(number), torch.zeros(())

        unexplained = implausible(graph, self.first + slot, widen(got), certain)
        if unexplained is None or verdict.bad is None:
            return verdict
        bad = verdict.bad & unexplained
        return replace(verdict, bad=bad) if bool(bad.any()) else Examined("calm", bad)


def local_expectations(oracle: Oracle, nodes: Sequence[int]) -> Iterator[LocalExpectation]:
    """For each node, in the order given: its exact results on S's operands, with their bounds. One node at a time."""
    graph = oracle.graph
    plain, narrow = Float64Graph(graph), Float64Graph(graph, narrow_scalars=True)
    values = _Widened(oracle)
    for index in nodes:
        call, first = plain.calls[index], graph.first_value[index]
        with neutral_float64():
            args, kwargs = call.bind(values)
            results = evaluate(call, args, kwargs)
            bounds = bounds_of(call, args, kwargs, results)
            other = _with_narrow_scalars(narrow.calls[index], values, results)
            masks = undefined_masks(call, args, kwargs, results)
        pairs = [
            _expect(call, slot, y, wide, bounds[slot], masks.get(slot))
            for slot, (y, wide) in enumerate(zip(results, other, strict=True))
        ]
        yield LocalExpectation(index, first, tuple(p[0] for p in pairs), tuple(p[1] for p in pairs), oracle)


class _Widened(Sequence[Any]):
    """S's values in float64, converted when they are asked for."""

    def __init__(self, oracle: Oracle) -> None:
        self._step = oracle.step

    def __getitem__(self, number: Any) -> Any:
        return self._step.wide(number) if number in self._step.values else None

    def __len__(self) -> int:
        return len(self._step.values)


def _with_narrow_scalars(call: Call, values: Sequence[Any], results: Sequence[Any]) -> Sequence[Any]:
    """The same call where the scalars of a comparison are rounded; the results themselves where nothing differs."""
    if all(not isinstance(y, torch.Tensor) or y.is_floating_point() for y in results):
        return results
    args, kwargs = call.bind(values)
    return evaluate(call, args, kwargs)


def _expect(
    call: Call, slot: int, y: Any, other: Any, bound: Any, undefined: torch.Tensor | None
) -> tuple[Expectation | None, Expectation | None]:
    spec = call.node.outputs[slot]
    if spec is None or not isinstance(y, torch.Tensor):
        return None, None
    if not is_real(spec.dtype):
        plain = Expectation(spec.dtype, y, other, torch.zeros(()), torch.zeros(()), (), undefined)
        return plain, plain
    step, zero = rounded(y, spec.dtype), torch.zeros(y.shape, dtype=torch.float64)
    hard = bound.hard if bound is not None else zero
    typical = bound.typical if bound is not None else zero
    classes = class_bits(step) | class_bits(in_range(y, spec.dtype))
    if bound is not None:
        for sign in (-1, 1):
            classes = classes | class_bits(rounded(torch.where(hard > 0, y + sign * SIGMAS * hard, y), spec.dtype))
        if bound.hazard is not None:
            classes = torch.where(bound.hazard.expand(classes.shape), torch.full_like(classes, ANY), classes)
    return (
        Expectation(spec.dtype, step, y, hard, classes, (), undefined),
        Expectation(spec.dtype, step, y, typical, classes, (), undefined),
    )
