"""Judges detections: which boxes and scores rounding can move, and which choices of the graph it can turn.

A detection changes in three ways. A score passes the threshold from which it counts. A choice within the graph turns
another way: a comparison of overlaps or scores (suppression), an order of scores. A box or score is simply wrong. The
oracle bounds each output element, and both operands of each choice, in float64 (`rounding_limit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mindgap.aten.functional import functionalize
from mindgap.graph import Array, GraphError, MindgapError, TensorStore
from mindgap.judge.oracle import FEW, Expectation, Oracle, OracleError, decision_slots, rounding_limit
from mindgap_studies.results.predictions import Flip, NearTie
from mindgap_studies.task.boxes import LEAST_SCORE
from mindgap_studies.task_runs.columns import ModelForm
from mindgap_studies.task_runs.compared_detections import ComparedDetections, in_rows
from mindgap_studies.task_runs.graph_choices import Tie, choice_ties, watched_values
from mindgap_studies.task_runs.near_ties import NarrowArithmetic

#: The share of the threshold, or of the largest coordinate of a box, from which a limit is no rounding but a jump.
_JUMPS: Final = 0.1


@dataclass(frozen=True)
class ExactDetections:
    """The outputs of a batch in exact arithmetic, and what rounding can do to them.

    exact: boxes, scores and, where the model gives them, labels, with each operator's result rounded to its dtype;
    wide: without these roundings. limits: of each element of boxes and scores. choices: by place in the batch, the
    nearest choice within the graph, None where it has none. steady: the limits where each choice is as in `exact`;
    empty where no limit is a jump. replays: the same outputs of each replay; empty as `steady`.
    """

    exact: tuple[Array, ...]
    wide: tuple[Array, ...]
    limits: tuple[Array, ...]
    choices: tuple[Tie | None, ...]
    steady: tuple[Array, ...] = ()
    replays: tuple[tuple[Array, ...], ...] = ()

    def decides(self, growth: float = 1.0) -> bool:
        """Returns whether the limits of scores, times `growth`, tell anything: most are far below the threshold."""
        return bool(growth * np.median(self.limits[1]) < _JUMPS * LEAST_SCORE)

    @property
    def jumps(self) -> bool:
        """Whether some limit is so large that the element jumps with a choice."""
        return any(bool(self.beside(self.exact, place).jumps.any()) for place in range(len(self.exact[0])))

    def tie(self, place: int) -> Tie:
        """Returns the nearest tie of a sample: of a score with the threshold, or within the graph."""
        scores, limits = self.exact[1][place], self.limits[1][place]
        wide = self.wide[1][place] - LEAST_SCORE
        margins = scores - LEAST_SCORE
        # The two shadows may lie on either side of the threshold.
        margins = np.where(margins * wide > 0, np.minimum(np.abs(margins), np.abs(wide)), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(limits > 0, margins / limits, np.inf)
        at = np.unravel_index(int(ratios.argmin()), ratios.shape)
        label = int(at[1]) if scores.ndim == 2 else int(self.exact[2][place][at])
        what = f"score of box {at[0]}, label {label}, and {LEAST_SCORE}"
        threshold = Tie(what, label, float(margins[at]), float(limits[at]))
        return min([each for each in (self.choices[place], threshold) if each is not None], key=lambda one: one.ratio)

    def beside(self, outputs: Sequence[Array], place: int, growth: float = 1.0) -> ComparedDetections:
        """Returns the detections that a side gives for a sample beside what they may be. `growth`: of the limits."""
        cuts = [_JUMPS * float(np.abs(self.exact[0][place]).max(initial=0.0)), _JUMPS * LEAST_SCORE]
        limits = [growth * each[place] for each in self.limits]
        steady = [growth * each[place] for each in self.steady or self.limits]
        # Another box may be in the place of one with a coordinate of 0, which has no roundings.
        steady[0] = np.broadcast_to(steady[0].max(-1, keepdims=True), steady[0].shape)
        jumps = [limit > cut for limit, cut in zip(limits, cuts, strict=True)]
        allowed: list[Array] = [
            np.where(jump, np.minimum(still, cut), limit)
            for jump, still, limit, cut in zip(jumps, steady, limits, cuts, strict=True)
        ]
        rows = [in_rows([each[place] for each in one]) for one in (outputs, self.exact, self.wide, *self.replays)]
        labeled = (outputs, self.exact, *self.replays) if self.exact[1].ndim == 2 else ()
        labels = [each[2][place] for each in labeled]
        return ComparedDetections(rows[0], rows[1], rows[2], in_rows(allowed), in_rows(jumps) > 0, rows[3:], labels)

    def verdict(self, flip: Flip, sides: Sequence[DetectionSide], place: int) -> Flip:
        """Judges a flip by what each side gives for the sample: within rounding, or beyond it.

        Where a choice of the graph is within rounding, it may have turned another way, and boxes that it leads to say
        nothing: that is not judged.
        """
        if not self.decides():
            return replace(flip, note="rounding of the graph may move scores by more than a tenth of the threshold")
        beyond = [(side, each) for side in sides if not (each := self.beside(side.outputs, place)).within]
        if not beyond:
            return self._within(flip, place)
        off, compared = [side for side, _ in beyond], [each for _, each in beyond]
        choice = self.choices[place]
        shown = max(range(len(off)), key=lambda number: not compared[number].only_jumps)
        worst = compared[shown].worst()
        note = f"{off[shown].name}: {worst.what}" + (f" is {worst.margin:.2g} off" if worst.label < 0 else "")
        flip = replace(flip, margin=worst.margin, limit=worst.limit)
        growth = max(1.0 if side.narrow is None else side.narrow.growth for side in off)
        if choice is not None and choice.ratio <= 1:
            return replace(flip, note=f"{note}; {_turned(choice)}")
        if any(side.as_file for side in off):
            return replace(flip, note=f"{note}, which ran as a file; whether the file or its graph errs is not known")
        if growth > 1:
            words = "; ".join(dict.fromkeys(side.narrow.words for side in off if side.narrow is not None))
            if not self.decides(growth):
                return replace(flip, note=f"{note}; {words}: how far that moves outputs is not bounded")
            compared = [self.beside(side.outputs, place, growth) for side in off]
            if all(each.within for each in compared):
                return replace(flip, verdict="reduced precision", limit=worst.limit * growth, note=words)
            if choice is not None and choice.ratio <= growth:
                return replace(flip, note=f"{note}; {words}; {_turned(choice)}")
            note, flip = f"{note}; {words}, which does not explain it", replace(flip, limit=worst.limit * growth)
        if all(each.within or each.only_jumps for each in compared):
            return replace(flip, note=f"{note}; rounding can make it jump, and no replay gives this value")
        return replace(flip, verdict="beyond", note=note)

    def _within(self, flip: Flip, place: int) -> Flip:
        """Judges a flip of which both sides are within rounding: that changes objects by a near tie alone."""
        tie = self.tie(place)
        flip = replace(flip, margin=tie.margin, limit=tie.limit)
        if tie.ratio > 1:
            note = f"both sides are within rounding, and no tie is near enough to turn; the nearest: {tie.what}"
            return replace(flip, note=note)
        return replace(
            flip, verdict="rounding", note=f"both sides are within rounding; the nearest tie: {tie.what}"
        )  # fmt: skip


def _turned(choice: Tie) -> str:
    apart = f"{choice.what} compares numbers that are {choice.margin:.2g} apart, within rounding"
    return f"{apart}: it may have turned another way"


@dataclass(frozen=True)
class DetectionSide:
    """What one column gives for a batch. narrow: how its platform computes in fewer bits. as_file: a file ran."""

    name: str
    outputs: Sequence[Array]
    narrow: NarrowArithmetic | None
    as_file: bool


def exact_detections(form: ModelForm, inputs: Sequence[Array], tensors: TensorStore) -> ExactDetections:
    """Evaluates the graph of a detector on a full batch. Raises `MindgapError` where the oracle cannot."""
    given = form.materialised(inputs, tensors)
    try:
        functional = functionalize(form.graph).graph
        results = functional.outputs[:3]
        slots = decision_slots(functional)
        # What choices are made of is watched as outputs are.
        outputs = dict.fromkeys((*functional.outputs, *slots, *watched_values(functional, slots)))
        watched = replace(functional, outputs=tuple(outputs), labels=replace(functional.labels, outputs=()))
        oracle = Oracle(watched, given, keep=frozenset(results))
        oracle.replays.ensure(FEW)
        answered = [oracle.expectation(number) for number in results]
        choices = choice_ties(functional, slots, oracle, form.batch)
        nearest = [
            min((tie for ties in choices if (tie := ties[place]) is not None), key=lambda one: one.ratio, default=None)
            for place in range(form.batch)
        ]
        found = ExactDetections(
            tuple(each.step.double().numpy() for each in answered),
            tuple(each.wide.double().numpy() for each in answered), _limits(answered), tuple(nearest),
        )  # fmt: skip
        if not found.jumps:
            return found
        # Every choice as in exact arithmetic: what is left is how far rounding moves boxes and scores by itself.
        fixed = Oracle(watched, given, decisions={number: oracle.step.wide(number) for number in slots})
        steady = _limits([fixed.expectation(number) for number in results])
    except (OracleError, GraphError) as error:
        raise MindgapError(f"what rounding can do is not known: {error}") from None
    kept = zip(*(oracle.replays.kept[number] for number in results), strict=True)
    shapes = [each.step.shape for each in answered]
    replays = tuple(
        tuple(part.double().numpy() for part in each)
        for each in kept
        if [part.shape for part in each] == shapes
    )  # fmt: skip
    return replace(found, steady=steady, replays=replays)


def _limits(expected: Sequence[Expectation]) -> tuple[Array, ...]:
    """The limits of boxes and scores; infinite where they are not known."""
    return tuple(np.nan_to_num(rounding_limit(each).numpy(), nan=np.inf, posinf=np.inf) for each in expected[:2])


def near_detection(form: str, sample: int, place: int, found: ExactDetections) -> NearTie:
    """Returns the nearest tie of a sample as a study keeps it."""
    tie = found.tie(place)
    return NearTie(form, sample, tie.label, -1, float(tie.margin), float(tie.limit), tie.what)
