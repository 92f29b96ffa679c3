"""The oracle of one graph on one set of inputs: shadows, replays and expectations, computed once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

import psutil
import torch

from mindgap.aten.tensors import input_tensors, to_torch
from mindgap.graph import Graph, operands
from mindgap.graph.compare.verdict import Missing, Weakness
from mindgap.graph.operators import traits
from mindgap.judge.oracle.decisions import (
    Deciders,
    deciders,
    decision_slots,
    extremes,
    implausible,
    may_pick_another,
    rounded_before,
    surely_finite,
)
from mindgap.judge.oracle.evaluation.float64 import Float64Graph, OracleError, OracleMemoryError, cast_source
from mindgap.judge.oracle.evaluation.formats import FORMATS, is_real, rounded, widen
from mindgap.judge.oracle.examination import BULK_RATIO, Examined, Expectation, examine
from mindgap.judge.oracle.float_classes import ANY, class_bits
from mindgap.judge.oracle.replays import Replays
from mindgap.judge.oracle.shadows.result_rounding import Decisions, impose, round_results, without_limits
from mindgap.judge.oracle.shadows.segments import (
    FREE_SHARE,
    HELD,
    MOST_NOISE_BYTES,
    NOISE_BYTES,
    SEGMENT_BYTES,
    needed_bytes,
    noise_bytes,
    segments,
)
from mindgap.judge.oracle.shadows.stepwise import Noise, Stepwise, wide

FEW: Final = 8
MANY: Final = 64


def _free_memory(graph: Graph, parts: Sequence[range], watched: frozenset[int]) -> int:
    """Bytes left. Raises `OracleMemoryError` where they do not suffice."""
    needed, operator = needed_bytes(graph, parts, watched)
    free = psutil.virtual_memory().available
    if needed > free:
        raise OracleMemoryError(
            f"judging it takes about {needed / 2**30:.1f} GiB ({operator / 2**30:.1f} of them for its largest operator "
            f"alone), and {free / 2**30:.1f} are free"
        )
    return free


class Oracle:
    """Shadows, replays and expectations of one functional graph.

    `inputs`: every graph input (numpy, declared dtype). `hard`: inject hard bounds instead of typical ones, as cuts
    are judged. `decisions`: discrete results that a platform took, imposed on shadows and replays alike.
    `segment_bytes`: how much of S is held at a time; `noise_bytes_held`: up to what size the errors that replays inject
    are held for the whole graph (default: `NOISE_BYTES`, or a share of the free memory). Neither changes a result.
    `keep`: watched values of which each replay's is kept (`Replays.kept`).
    Raises `OracleError` where no shadow can be computed, `OracleMemoryError` where memory does not suffice.
    """

    def __init__(
        self, graph: Graph, inputs: Sequence[Any], hard: bool = False, decisions: Decisions | None = None,
        segment_bytes: int = SEGMENT_BYTES, noise_bytes_held: int | None = None,
        keep: frozenset[int] = frozenset(),
    ) -> None:  # fmt: skip
        self.graph = graph
        self._inputs = input_tensors(graph, inputs)
        self._noise: Noise = "hard" if hard else "typical"
        self.imposed: Decisions = decisions or {}
        self._keep = keep
        self._float64 = Float64Graph(graph)
        slots = decision_slots(graph)
        self._decided = frozenset(graph.outputs) & frozenset(slots)
        # Of one number or truth value, and of what the program decided by, all that led to it counts.
        single = {n for n in graph.outputs if (spec := graph.values[n]) is not None and spec.numel == 1}
        single.update(graph.outputs[each.output] for each in graph.labels.decisions)
        self._deciders = {number: deciders(graph, number, slots) for number in single}
        led = self._decided.union(*(each.numbers for each in self._deciders.values()))
        operands_of = {i for n in led for i in operands(graph.nodes[graph.producer[n]])[:2]}
        operands_of |= {found[0] for n in led if (found := rounded_before(graph, n)) is not None}
        self.watched = frozenset(graph.outputs) | led | operands_of
        self.parts = segments(graph, segment_bytes)
        free = _free_memory(graph, self.parts, self.watched)
        self._held_bytes = min(HELD * segment_bytes, free // FREE_SHARE)
        share = min(max(NOISE_BYTES, free // FREE_SHARE), MOST_NOISE_BYTES)
        self._noise_bytes = share if noise_bytes_held is None else noise_bytes_held

    @cached_property
    def step(self) -> Stepwise:
        """The stepwise shadow S."""
        held = self._noise if self._noise_bytes >= noise_bytes(self.graph) else None
        return Stepwise(self._float64, self._inputs, self.parts, self.watched, self.imposed, held, self._held_bytes)

    def release(self) -> None:
        """Frees what can be computed again."""
        self.step.release()

    @property
    def weaknesses(self) -> tuple[Weakness, ...]:
        """The operators judged on weaker evidence so far, by node of `graph`; replays may add to them."""
        run = vars(self).get("replays")
        uncovered = {self.graph.producer[n]: r for n, r in run.uncovered.items()} if isinstance(run, Replays) else {}
        lacking: list[tuple[Missing, dict[int, str]]] = [
            ("bound rule", self.step.measured), ("float64 reference", self._float64.fallbacks), ("replay", uncovered),
        ]  # fmt: skip
        return tuple(sorted(
            Weakness(node, self.graph.nodes[node].op, missing, reason)
            for missing, reasons in lacking
            for node, reason in reasons.items()
        ))  # fmt: skip

    @cached_property
    def wide(self) -> dict[int, Any]:
        """The wide shadow W, for the watched values."""
        return wide(Float64Graph(self.graph, narrow_scalars=True), self._inputs, self.imposed, keep=self.watched)

    @cached_property
    def replays(self) -> Replays:
        """The replays; `ensure` a number of them first."""
        return Replays(self._float64, self._inputs, self.step, self._noise, self.watched, self.imposed, keep=self._keep)

    @cached_property
    def _loose(self) -> Replays:
        """Replays of the wide shadow."""
        return Replays(self._float64, self._inputs, self.step, self._noise, self.watched, self.imposed, wide=self.wide)

    @cached_property
    def narrows(self) -> bool:
        """Some explicit cast gives fewer bits than it takes."""
        return any(
            call.traits.casts and is_real(d) and is_real(s.dtype) and FORMATS[d].u < FORMATS[s.dtype].u
            for call in self._float64.calls
            for d in (cast_source(self.graph, call.node),)
            for s in call.node.outputs[:1]
            if s is not None
        )

    @cached_property
    def jumps(self) -> bool:
        """Some result jumps with a float: a step, or a discrete value that is made of one."""
        return any(
            call.traits.non_smooth == "jumps"
            or (
                any(map(is_real, call.dtypes))
                and any(s is not None and not is_real(s.dtype) for s in call.node.outputs)
            )
            for call in self._float64.calls
        )

    @cached_property
    def _exact(self) -> frozenset[int]:
        """The values that no operator on the way rounds, casts apart."""
        rounding = self.step.typical
        exact = set(range(len(self.graph.inputs)))
        for index, node in enumerate(self.graph.nodes):
            if exact.issuperset(operands(node)):
                exact.update(n for n in self.graph.results(index) if n not in rounding)
        return frozenset(exact)

    @cached_property
    def tainted(self) -> dict[int, torch.Tensor]:
        """Per output: the elements that change when undefined ones are filled with something else."""
        if not self.step.undefined:
            return {}
        masks: dict[int, torch.Tensor] = {}
        for junk in (1.0, -1e3):
            try:
                filled = self._filled(junk)
            except (OracleError, RuntimeError, IndexError):
                # The junk led to an error downstream: nothing there is defined.
                return {n: torch.ones(self.step.values[n].shape, dtype=torch.bool) for n in self.graph.outputs}
            for number in self.graph.outputs:
                clean = self.step.wide(number)
                changed = ~((filled[number] == clean) | (torch.isnan(filled[number]) & torch.isnan(clean)))
                masks[number] = changed | masks.get(number, torch.zeros(clean.shape, dtype=torch.bool))
        for number, mask in self.step.undefined.items():
            if number in masks:
                masks[number] = masks[number] | mask
        return masks

    def _filled(self, junk: float) -> Mapping[int, Any]:
        starts, undefined = self.graph.first_value, self.step.undefined

        def after(index: int, results: list[Any]) -> list[Any]:
            first = starts[index]
            final = list(round_results(self._float64.calls[index], results))
            for slot, y in enumerate(final):
                if first + slot in undefined:
                    fill = torch.full((), junk, dtype=torch.float64).to(y.dtype)
                    final[slot] = torch.where(undefined[first + slot], fill, y)
            return final

        return self._float64.run(self._inputs, after)

    def expectation(self, number: int, count: int = FEW) -> Expectation:
        """What the value with this number may be, from at least `count` replays."""
        self.replays.ensure(count)
        step = self.step.wide(number)
        spec = self.graph.values[number]
        dtype, shape = (spec.dtype, spec.shape) if spec is not None else ("float32", None)
        if not is_real(dtype):
            seen = tuple(self.replays.seen.get(number, ()))
            return Expectation(
                dtype, step, self.wide[number], torch.zeros(()), torch.zeros(()), seen, self.tainted.get(number), shape
            )
        shadow = widen(self.wide[number])
        # Where rounding decides how many elements there are, the wide shadow has others than S.
        shadow = shadow if shadow.shape == step.shape else step
        seen_classes = self.replays.classes.get(number, torch.full(step.shape, ANY, dtype=torch.uint8))
        classes = seen_classes | class_bits(rounded(shadow, dtype)) | class_bits(step)
        hazard = self.step.hazards.get(number)
        if hazard is not None:
            classes = torch.where(hazard, torch.full_like(classes, ANY), classes)
        sigma, tainted, exact = self.replays.sigma(number), self.tainted.get(number), number in self._exact
        return Expectation(dtype, step, shadow, sigma, classes, (), tainted, shape, exact=exact)

    def examine(self, outputs: Sequence[Any], count: int = FEW) -> list[Examined]:
        """A platform's outputs (numpy, in graph order) against what they may be, from `count` replays at least."""
        return [self.examine_value(n, array, count) for n, array in zip(self.graph.outputs, outputs, strict=True)]

    def examine_value(self, number: int, array: Any, count: int = FEW) -> Examined:
        """One output, by its value number."""
        tensor = to_torch(array)
        expected = self.expectation(number, count)
        verdict = self._plausible(number, tensor, examine(expected, tensor))
        if self.narrows and (verdict.kind == "discrepant" or (verdict.median or 0.0) > BULK_RATIO):
            return self._unrounded(number, tensor, expected, verdict, count)
        return verdict

    def _unrounded(
        self, number: int, tensor: torch.Tensor, expected: Expectation, verdict: Examined, count: int
    ) -> Examined:
        """The verdict, where a platform may also have left out the rounding of explicit casts: 16 σ around W.

        S's σ is no measure there: a cast to fewer bits hides the errors before it.
        """
        if not is_real(expected.dtype):
            return verdict
        self._loose.ensure(count)
        around = replace(expected, step=expected.wide, sigma=self._loose.sigma(number))
        other = examine(around, tensor)
        if verdict.bad is None or other.bad is None or other.kind not in ("calm", "discrepant"):
            return verdict
        bad = verdict.bad & other.bad
        medians = [each.median for each in (verdict, other) if each.median is not None]
        return replace(
            verdict,
            kind="discrepant" if bool(bad.any()) else "calm",
            bad=bad,
            worst=min(verdict.worst, other.worst),
            median=min(medians, default=None),
        )

    def carried(self, imposed: Decisions) -> dict[int, torch.Tensor]:
        """S's outputs, in graph order, with the given values (by number) put in place of S's own."""
        starts = self.graph.first_value

        def after(index: int, results: list[Any]) -> list[Any]:
            call = self._float64.calls[index]
            return impose(call, starts[index], round_results(call, results), imposed)

        values = self._float64.run(self._inputs, after)
        return {number: values[number] for number in self.graph.outputs}

    def unlimited(self, limited: Collection[int] = ()) -> dict[int, torch.Tensor]:
        """S's outputs by number, where results keep the precision of their dtypes and have no limits of range, but for
        those of the nodes `limited`."""
        starts = self.graph.first_value

        def after(index: int, results: list[Any]) -> list[Any]:
            call = self._float64.calls[index]
            final = round_results(call, results)
            if index not in limited:
                pairs = zip(results, final, call.node.outputs, strict=True)
                final = [without_limits(exact, y, spec) for exact, y, spec in pairs]
            return impose(call, starts[index], final, self.imposed)

        values = self._float64.run(self._inputs, after)
        return {number: values[number] for number in self.graph.outputs}

    def unsettled(self, number: int) -> bool:
        """Whether rounding may lead an output of one number or truth value to another one, by a decision on the way."""
        self.replays.ensure(FEW)
        by = self._deciders.get(number, Deciders(frozenset()))
        if not any(map(self.may_flip, by.numbers)):
            return False
        ends = self._extremes(number)
        return ends is None or not torch.equal(*ends)

    def may_flip(self, number: int) -> bool:
        """Whether rounding may make another choice of a watched value that decides something."""
        self.replays.ensure(FEW)
        value = self.step.wide(number)
        if any(not torch.equal(value, each) for each in self.replays.seen.get(number, ())):
            return True
        if traits(self.graph.nodes[self.graph.producer[number]].op).decides == "order":
            return may_pick_another(self.graph, number, self.lookup)
        if value.dtype == torch.bool:
            return bool(self._flips(number).any())
        masks = [implausible(self.graph, number, other, self.lookup) for other in (value + 1, value - 1)]
        return any(mask is not None and not bool(mask.all()) for mask in masks)

    def _flips(self, number: int) -> torch.Tensor:
        """The truth values that rounding may flip."""
        value = self.step.wide(number)
        mask = implausible(self.graph, number, ~value, self.lookup)
        flips = torch.zeros(value.shape, dtype=torch.bool) if mask is None else ~mask
        if not self.step.hazards and not self.step.undefined:
            flips = flips & ~surely_finite(self.graph, number, self.lookup)
        for each in self.replays.seen.get(number, ()):
            flips = flips | (each != value)
        return flips

    def _extremes(self, number: int) -> tuple[torch.Tensor, torch.Tensor] | None:
        """The least and the largest that rounding may make of an output by decisions on the way; None where that is
        not known."""
        by, values = self._deciders[number], self.step.values
        if by.signs is None or any(values[each].dtype != torch.bool for each in by.numbers):
            return None
        return extremes(self.graph, number, by, {each: self._flips(each) for each in by.numbers}, values)

    def is_exact(self, number: int) -> bool:
        """Whether no operator on the way to a value rounds, casts apart."""
        return number in self._exact

    def _plausible(self, number: int, got: torch.Tensor, verdict: Examined) -> Examined:
        """A discrete output that no replay gave may still be what rounding allows: ties, near ties, steps."""
        if verdict.kind == "discrepant" and number not in self._decided and self.unsettled(number):
            return self._within_extremes(number, got, verdict)
        if verdict.kind != "discrepant" or number not in self._decided or verdict.bad is None:
            return verdict
        implausible_here = implausible(self.graph, number, widen(got), self.lookup)
        if implausible_here is None:
            return verdict
        bad = verdict.bad & implausible_here
        if bool(bad.any()):
            return replace(verdict, bad=bad)
        return Examined("calm", bad, tainted=verdict.tainted, tied=self._tied(number, got, verdict.bad))

    def _within_extremes(self, number: int, got: torch.Tensor, verdict: Examined) -> Examined:
        """A discrepant output that unstable decisions lead to: calm between its extremes. Where these are not known it
        may be anything, which shows nothing of the operators before it."""
        ends = self._extremes(number)
        if ends is None or verdict.bad is None:
            return Examined("calm", verdict.bad, ill=True, tainted=verdict.tainted)
        bad = verdict.bad & ~((got >= ends[0]) & (got <= ends[1]))
        return replace(verdict, bad=bad) if bool(bad.any()) else Examined("calm", bad, tainted=verdict.tainted)

    def _tied(self, number: int, got: torch.Tensor, differing: torch.Tensor) -> int:
        """How many of these elements are another choice among elements that are equal in S."""
        known = traits(self.graph.nodes[self.graph.producer[number]].op)
        if known.decides not in ("order", "pooling") or known.first_of_equals:
            return 0
        unequal = implausible(self.graph, number, widen(got), lambda n: (self.step.wide(n), torch.zeros(())))
        return 0 if unequal is None else int((differing & ~unequal).sum())

    def lookup(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A value in S with its σ (zero where it was not watched or is no float)."""
        value = self.step.wide(number)
        watched = number in self.replays.squares
        return value, self.replays.sigma(number) if watched else torch.zeros(())
