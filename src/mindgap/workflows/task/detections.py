"""Judges detections: which boxes and scores rounding can move, and which choices of the graph it can turn.

A detection changes in three ways. A score passes the threshold from which it counts. A choice within the graph turns
another way: a comparison of overlaps or scores (suppression), an order of scores. A box or score is simply wrong. The
oracle bounds each output element, and both operands of each choice, in float64 (`rounding_limit`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from mindgap.aten.functional import functionalize
from mindgap.graph import Array, Graph, GraphError, MindgapError, Ref, TensorStore, materialise_all, operands
from mindgap.graph.compare.digest import widened
from mindgap.graph.operators import traits
from mindgap.judge.oracle import FEW, Oracle, OracleError, decision_slots, rounding_limit
from mindgap.judge.oracle.evaluation.formats import is_real
from mindgap.results.predictions import Flip, NearTie
from mindgap.workflows.task.columns import ModelForm
from mindgap.workflows.task.near_ties import NarrowArithmetic

#: The score from which a detection counts as an object (`graph.compare.boxes.same_objects`).
LEAST_SCORE: Final = 0.5
#: The share of the threshold, or of the largest coordinate of a box, from which a limit is no rounding but a jump.
_JUMPS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Tie:
    """Two numbers that rounding may bring into another order. what: they are, in words. label: of the detection, -1
    where it is a choice within the graph. margin: how far they are apart; limit: how far rounding can move them."""

    what: str
    label: int
    margin: float
    limit: float

    @property
    def ratio(self) -> float:
        """1 or less where rounding can turn it."""
        return self.margin / self.limit if self.limit > 0 else np.inf


@dataclass(frozen=True)
class ExactDetections:
    """The outputs of a batch in exact arithmetic, and what rounding can do to them.

    exact: boxes, scores and, where the model gives them, labels, with each operator's result rounded to its dtype;
    wide: without these roundings. limits: of each element of boxes and scores. choices: by place in the batch, the
    nearest choice within the graph, None where it has none.
    """

    exact: tuple[Array, ...]
    wide: tuple[Array, ...]
    limits: tuple[Array, ...]
    choices: tuple[Tie | None, ...]

    @property
    def decides(self) -> bool:
        """Whether the limits of scores tell anything: most are far below the threshold."""
        return bool(np.median(self.limits[1]) < _JUMPS * LEAST_SCORE)

    def tie(self, place: int) -> Tie:
        """Returns the nearest tie of a sample: of a score with the threshold, or within the graph."""
        scores, limits = self.exact[1][place], self.limits[1][place]
        margins = np.abs(scores - LEAST_SCORE)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(limits > 0, margins / limits, np.inf)
        at = np.unravel_index(int(ratios.argmin()), ratios.shape)
        label = int(at[1]) if scores.ndim == 2 else int(self.exact[2][place][at])
        threshold = Tie(f"score of box {at[0]}, label {label}, and {LEAST_SCORE}", label, margins[at], limits[at])
        return min([each for each in (self.choices[place], threshold) if each is not None], key=lambda one: one.ratio)

    def worst(self, outputs: Sequence[Array], place: int, growth: float = 1.0) -> Tie:
        """Returns the element of boxes and scores that is furthest off what it may be, relative to its limit."""
        found: list[tuple[float, Tie]] = []
        for part, name in enumerate(("box", "score")):
            got = widened(outputs[part][place]).astype(np.float64)
            exact, wide, allowed = self.exact[part][place], self.wide[part][place], self._allowed(part, place, growth)
            apart = np.nan_to_num(np.minimum(np.abs(got - exact), np.abs(got - wide)), nan=np.inf)
            ratios = apart / np.maximum(allowed, np.finfo(np.float64).tiny)
            at = np.unravel_index(int(ratios.argmax()), ratios.shape)
            found.append((ratios[at], Tie(f"{name} {at[0]}", -1, float(apart[at]), float(allowed[at]))))
        return max(found, key=lambda one: one[0])[1]

    def _allowed(self, part: int, place: int, growth: float) -> Array:
        """The limits of boxes (0) or scores (1) of a sample. What jumps with a choice has one that covers any value:
        it is cut, so that the choice has to explain it."""
        largest = float(np.abs(self.exact[0][place]).max(initial=0.0)) if part == 0 else LEAST_SCORE
        return np.minimum(growth * self.limits[part][place], _JUMPS * largest)

    def within(self, outputs: Sequence[Array], place: int, growth: float = 1.0) -> bool:
        """Returns whether boxes and scores are those of exact arithmetic within rounding, in any order of boxes."""
        worst = self.worst(outputs, place, growth)
        if worst.margin <= worst.limit and (
            len(outputs) < 3 or np.array_equal(outputs[2][place], self.exact[2][place])
        ):
            return True
        return len(outputs) > 2 and self._reordered(outputs, place, growth)

    def _reordered(self, outputs: Sequence[Array], place: int, growth: float) -> bool:
        """Whether each detection has a partner with the same label, its box and score within that one's limits."""
        boxes, scores, labels = (np.asarray(widened(each[place]), np.float64) for each in outputs[:3])
        exact, limits = [each[place] for each in self.exact], [self._allowed(part, place, growth) for part in (0, 1)]
        fits = labels[:, None] == exact[2][None]
        fits &= np.abs(scores[:, None] - exact[1][None]) <= limits[1][None]
        fits &= (np.abs(boxes[:, None] - exact[0][None]) <= limits[0][None]).all(-1)
        free = np.ones(len(labels), np.bool_)
        for row in fits:
            if not (row & free).any():
                return False
            free[int((row & free).argmax())] = False
        return True

    def verdict(self, flip: Flip, sides: Sequence[DetectionSide], place: int) -> Flip:
        """Judges a flip by what each side gives for the sample: within rounding, or beyond it.

        Where a choice of the graph is within rounding, it may have turned another way, and boxes that it leads to say
        nothing: that is not judged.
        """
        if not self.decides:
            return replace(flip, note="rounding of the graph may move scores by more than a tenth of the threshold")
        off = [side for side in sides if not self.within(side.outputs, place)]
        choice = self.choices[place]
        if not off:
            tie = self.tie(place)
            note = f"both sides are within rounding; the nearest tie: {tie.what}"
            return replace(flip, verdict="rounding", margin=tie.margin, limit=tie.limit, note=note)
        worst = self.worst(off[0].outputs, place)
        note = f"{off[0].name}: {worst.what} is {worst.margin:.2g} off"
        flip = replace(flip, margin=worst.margin, limit=worst.limit)
        growth = max(1.0 if side.narrow is None else side.narrow.growth for side in off)
        if choice is not None and choice.ratio <= 1:
            return replace(flip, note=f"{note}; {_turned(choice)}")
        if any(side.as_file for side in off):
            return replace(flip, note=f"{note}, which ran as a file; whether the file or its graph errs is not known")
        if growth > 1:
            words = "; ".join(dict.fromkeys(side.narrow.words for side in off if side.narrow is not None))
            if not bool(growth * np.median(self.limits[1]) < _JUMPS * LEAST_SCORE):
                return replace(flip, note=f"{note}; {words}: how far that moves outputs is not bounded")
            if all(self.within(side.outputs, place, growth) for side in off):
                return replace(flip, verdict="reduced precision", limit=worst.limit * growth, note=words)
            if choice is not None and choice.ratio <= growth:
                return replace(flip, note=f"{note}; {words}; {_turned(choice)}")
            note, flip = f"{note}; {words}, which does not explain it", replace(flip, limit=worst.limit * growth)
        return replace(flip, verdict="beyond", note=note)


def _turned(choice: Tie) -> str:
    """Says that a choice may have turned."""
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
    given = materialise_all(form.graph, tensors)
    for number, array in form.given(inputs).items():
        given[number] = array
    try:
        functional = functionalize(form.graph).graph
        slots = decision_slots(functional)
        # What choices are made of is watched as outputs are.
        beside = dict.fromkeys(each for index in slots.values() for each in operands(functional.nodes[index]))
        outputs = dict.fromkeys((*functional.outputs, *beside, *slots))
        oracle = Oracle(
            replace(functional, outputs=tuple(outputs), labels=replace(functional.labels, outputs=())), given
        )
        oracle.replays.ensure(FEW)
        answered = [oracle.expectation(number) for number in functional.outputs[:3]]
        choices = list(_choices(functional, slots, oracle, form.batch))
    except (OracleError, GraphError) as error:
        raise MindgapError(f"what rounding can do is not known: {error}") from None
    limits = [np.nan_to_num(rounding_limit(each).numpy(), nan=np.inf, posinf=np.inf) for each in answered[:2]]
    nearest = [
        min((tie for ties in choices if (tie := ties[place]) is not None), key=lambda one: one.ratio, default=None)
        for place in range(form.batch)
    ]
    return ExactDetections(
        tuple(each.step.double().numpy() for each in answered), tuple(each.wide.double().numpy() for each in answered),
        tuple(limits), tuple(nearest),
    )  # fmt: skip


def _choices(graph: Graph, slots: dict[int, int], oracle: Oracle, batch: int) -> Iterator[list[Tie | None]]:
    """Yields for each choice of the graph the nearest tie of each place in the batch."""
    for number, index in slots.items():
        node = graph.nodes[index]
        named = graph.labels.nodes[index] if graph.labels.nodes else ""
        what = f"{node.op}{f' ({named})' if named else ''}"
        known = traits(node.op)
        if known.decides == "comparison":
            (a, reach_a), (b, reach_b) = (_operand(graph, oracle, each) for each in node.args[:2])
            margins, limits = (a - b).abs(), reach_a + reach_b
            # Equal ones are one value, as of the largest in a window; the next one shows how near it is.
            margins = torch.where(margins == 0, torch.inf, margins)
        elif known.decides == "order" and isinstance(node.args[0], Ref):
            x, reach = _operand(graph, oracle, node.args[0])
            ordered, order = x.sort(-1)
            reach = reach.expand(x.shape).gather(-1, order)
            margins = ordered[..., 1:] - ordered[..., :-1]
            margins, limits = torch.where(margins == 0, torch.inf, margins), reach[..., 1:] + reach[..., :-1]
        else:
            value = oracle.step.wide(number)
            turned = [each != value for each in oracle.replays.seen.get(number, ()) if each.shape == value.shape]
            margins = torch.ones(value.shape) if not turned else 1.0 - torch.stack(turned).any(0).double()
            limits = torch.full(value.shape, 0.5)
        yield _nearest(what, margins, limits, batch)


def _operand(graph: Graph, oracle: Oracle, argument: object) -> tuple[torch.Tensor, torch.Tensor]:
    """A value and how far rounding can move it."""
    if not isinstance(argument, Ref):
        return torch.tensor(float(argument), dtype=torch.float64), torch.zeros((), dtype=torch.float64)  # type: ignore[arg-type]
    spec = graph.values[argument.index]
    if spec is None or not is_real(spec.dtype):
        return oracle.step.wide(argument.index).double(), torch.zeros((), dtype=torch.float64)
    expected = oracle.expectation(argument.index)
    return expected.step, torch.nan_to_num(rounding_limit(expected), nan=torch.inf)


def _nearest(what: str, margins: torch.Tensor, limits: torch.Tensor, batch: int) -> list[Tie | None]:
    """The nearest tie of each place. Elements of a place lie together, whatever the shape behind it."""
    limits = limits.expand(margins.shape)
    if not margins.numel():
        return [None] * batch
    rows = batch if margins.dim() and margins.shape[0] % batch == 0 else 1
    margins, limits = margins.reshape(rows, -1), limits.reshape(rows, -1)
    ratios = torch.where(limits > 0, margins / limits, torch.inf)
    at = ratios.argmin(-1, keepdim=True)
    nearest = zip(margins.gather(1, at).numpy()[:, 0], limits.gather(1, at).numpy()[:, 0], strict=True)
    ties: list[Tie | None] = [Tie(what, -1, float(margin), float(limit)) for margin, limit in nearest]
    return ties if rows == batch else ties * batch


def near_detection(form: str, sample: int, place: int, found: ExactDetections) -> NearTie:
    """Returns the nearest tie of a sample as a study keeps it."""
    tie = found.tie(place)
    return NearTie(form, sample, tie.label, -1, float(tie.margin), float(tie.limit), tie.what)
