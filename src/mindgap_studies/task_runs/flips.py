"""Finds the samples that change their answer, decides whether rounding explains it, and where it begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from mindgap.graph import Array, MindgapError, TensorStore
from mindgap.own_path.user_program import UserProgram
from mindgap.platforms.name import parse
from mindgap_studies.results.predictions import NOT_FINITE, ComparedForm, Flip, Prediction, TaskResult, Truth
from mindgap_studies.task.boxes import LEAST_SCORE, same_objects
from mindgap_studies.task_runs.columns import ModelForm, filled
from mindgap_studies.task_runs.detections import (
    DetectionSide,
    ExactDetections,
    exact_detections,
    near_detection,
)
from mindgap_studies.task_runs.file_origin import file_origin
from mindgap_studies.task_runs.images import picture_of
from mindgap_studies.task_runs.near_ties import ExactOutputs, exact_outputs, narrow_arithmetic, near_tie
from mindgap_studies.task_runs.origin import form_origin, operator_origin
from mindgap_studies.task_runs.outputs import predictions_of
from mindgap_studies.task_runs.running import TaskRun, moved, read_digest

#: Samples that flip and are shown as pictures.
_PICTURES: Final = 48
#: What is said of a form whose limits cover usual margins: its roundings are steps, or it amplifies them.
_UNDECIDED: Final = (
    "rounding of its graph may move outputs by more than the usual margin: nearly every sample counts as in danger, "
    "and flips between platforms are not judged (mindgap diff looks at each operator)"
)
#: What is said of a batch that is other than when it ran.
_CHANGED: Final = (
    "other samples came when it was read again: it shuffles or augments; seed it, to give the same each time"
)
#: What is said of a column whose detections are others when the batch runs again.
_ANOTHER: Final = "it gives another answer each time: run again, it gives other detections than those that flipped"
#: Batches of all forms that the oracle looks at for flips.
_JUDGED: Final = 256


def flips_of(result: TaskResult, column: ComparedForm) -> Iterator[Flip]:
    """Yields the samples (of a text, the positions) whose best label is not the reference's, without a verdict.

    A detection flips where the objects that score 0.5 or more are not the reference's.
    """
    for sample, mine in result.predictions[column].items():
        theirs, truth = result.predictions[result.reference][sample], result.truths[sample]
        if result.task == "detection":
            if mine.finite != theirs.finite or not same_objects(mine, theirs):
                yield Flip(column.name, sample, 0, -1, -1, -1, "unjudged", shows=_objects(theirs, mine))
            continue
        count = len(truth.labels) if result.task == "language" else 1
        for position in range(count):
            if mine.labels[position] != theirs.labels[position]:
                yield Flip(
                    column.name, sample, position, truth.labels[position], theirs.labels[position],
                    mine.labels[position], "unjudged",
                )  # fmt: skip


def _objects(before: Prediction, after: Prediction) -> str:
    def words(one: Prediction) -> str:
        if not one.finite:
            return "NaN or infinities"
        labels = sorted(label for label, score in zip(one.labels, one.scores, strict=True) if score >= LEAST_SCORE)
        return " ".join(map(str, labels)) or "nothing"

    ours, theirs = words(after), words(before)
    return f"shows {ours}; the reference {theirs}" if ours != theirs else f"other boxes of {ours}"


def _not_finite(flip: Flip, wrong: bool) -> Flip:
    """Judges NaN or infinities on one side. wrong: on the column's, and the same graph has none on the reference."""
    if wrong:
        return replace(flip, verdict="beyond", note="the outputs are not finite; the reference's are")
    return replace(flip, note="the outputs are finite on one side alone; which of them errs is not known")


#: What the oracle says of a batch.
_Exact = ExactOutputs | ExactDetections


def _nearness(one: Prediction) -> float:
    """The margin; of a detection, how near a score is to the threshold from which it counts."""
    return min((abs(score - LEAST_SCORE) for score in one.scores), default=LEAST_SCORE) if one.scores else one.margin


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch that was read again: its inputs, filled up, and the place of each sample."""

    inputs: tuple[Array, ...]
    places: dict[int, int]


@dataclass
class FlipSearch:
    """Judges the flips of a run. The samples are read again, in the batches in which they ran and in their order."""

    run: TaskRun
    found: TaskResult
    tensors: TensorStore
    #: The batch that was read last, by its first number.
    _read: tuple[int, _Batch] | None = None
    #: Why batches cannot be read again, by their first number.
    _lost: dict[int, str] = field(default_factory=dict[int, str])
    #: The outputs that were evaluated last, by form and batch: one batch may have gigabytes. None: they tell nothing.
    _exact: tuple[tuple[str, int], _Exact | None] | None = None
    _judged_batches: int = 0
    _silent: set[str] = field(default_factory=set[str])

    def search(self) -> None:
        """Fills in flips, near ties and pictures of the result."""
        result = self.found
        live = [c for c in result.columns if c not in result.failures and c != result.reference]
        for column in live:
            if narrow := narrow_arithmetic(self.run.pool.describe(parse(column.platform)), self.run.forms[column.form]):
                result.precision[column] = narrow.computed
                result.note(f"{column.name}: {narrow.words}")
        flips = [(column, flip) for column in live for flip in flips_of(result, column)]
        judged: dict[int, Flip] = {}
        # By batch, then by form: each is read and evaluated once.
        for place in sorted(range(len(flips)), key=lambda n: (self._start(flips[n][1].sample), flips[n][0].form)):
            judged[place] = self._judged(*flips[place])
        self._look_for_origins([column for column, _ in flips], judged)
        result.flips += [judged[place] for place in range(len(flips))]
        for column in result.columns:
            if count := result.not_finite(column):
                result.note(f"{column.name}: outputs of {count} samples have NaN or infinities; they count as wrong")
        self._look_for_near_ties()
        self._take_pictures()

    def _judged(self, column: ComparedForm, flip: Flip) -> Flip:
        """Whether rounding of the form's own graph explains it, in comparison with the same form on the reference."""
        result, home = self.found, self.found.on_reference(column.form)
        before, graphs = flip.before, column.way == home.way == "graph"
        if column.form:
            there = result.predictions[home].get(flip.sample)
            if there is None:
                return replace(flip, note=f"{home.name} did not run: whether the form itself gives it is not known")
            if home == column or self._same_answer(there, column, flip):
                return replace(flip, verdict="other form")
            if result.task != "detection":
                before = there.labels[flip.position]
        if result.task == "detection":
            mine = result.predictions[column][flip.sample].finite
            right = result.predictions[home][flip.sample].finite
        else:
            mine, right = flip.after != NOT_FINITE, before != NOT_FINITE
        if not (mine and right):
            return _not_finite(flip, right and graphs)
        try:
            batch = self._again(flip.sample)
        except MindgapError as error:
            return replace(flip, note=str(error))
        exact = self._exact_of(self.run.forms[column.form], self._start(flip.sample), batch)
        if exact is None:
            return flip
        if isinstance(exact, ExactDetections):
            return self._judged_detection(column, home, flip, exact, batch)
        place = (batch.places[flip.sample], *([flip.position] if result.task == "language" else []))
        margin, limit = exact.between(place, before, flip.after)
        if margin > limit and not graphs:
            note = "the file that ran and the form's graph differ beyond rounding; which of them errs is not known"
            return replace(flip, margin=margin, limit=limit, note=note)
        if margin <= limit:
            return replace(flip, verdict="rounding", margin=margin, limit=limit)
        return self._beyond(column, replace(flip, margin=margin, limit=limit), exact)

    def _judged_detection(
        self, column: ComparedForm, home: ComparedForm, flip: Flip, exact: ExactDetections, batch: _Batch
    ) -> Flip:
        """Runs both sides again on the batch: outputs are not kept. They tell something of the flip only where they
        give the detections that flipped."""
        run, place, truth = self.run, batch.places[flip.sample], self.found.truths[flip.sample]
        sides: list[DetectionSide] = []
        for each in (column, home):
            try:
                outputs = run.runner(each).outputs(batch.inputs)
            except MindgapError as error:
                return replace(flip, note=f"it did not run again: {error}")
            (again,) = predictions_of("detection", outputs, outputs, [truth], place)
            before = self.found.predictions[each][flip.sample]
            if (again.labels, again.boxes, again.scores) != (before.labels, before.boxes, before.scores):
                return replace(flip, note=f"{each.name}: {_ANOTHER}")
            narrow = narrow_arithmetic(run.pool.describe(parse(each.platform)), run.forms[each.form])
            sides.append(DetectionSide(each.name, outputs, narrow, each.way != "graph"))
        return exact.verdict(flip, sides, place)

    def _beyond(self, column: ComparedForm, flip: Flip, exact: ExactOutputs) -> Flip:
        """A flip that rounding of the declared dtypes does not explain: that of fewer bits may, where the platform is
        known to compute in these."""
        narrow = narrow_arithmetic(self.run.pool.describe(parse(column.platform)), self.run.forms[column.form])
        if narrow is None:
            return replace(flip, verdict="beyond")
        limit = flip.limit * narrow.growth
        if not exact.decides(self._usual_margin(column.form), narrow.growth):
            return replace(flip, note=f"{narrow.words}: how far that moves outputs is not bounded")
        if flip.margin > limit:
            return replace(flip, verdict="beyond", limit=limit, note=f"{narrow.words}, which does not explain it")
        return replace(flip, verdict="reduced precision", limit=limit, note=narrow.words)

    def _same_answer(self, there: Prediction, column: ComparedForm, flip: Flip) -> bool:
        """Whether the form gives on the reference what it gives on the column."""
        if self.found.task == "detection":
            mine = self.found.predictions[column][flip.sample]
            return mine.finite == there.finite and same_objects(mine, there)
        return there.labels[flip.position] == flip.after

    def _look_for_origins(self, columns: Sequence[ComparedForm], flips: dict[int, Flip]) -> None:
        """Fills in where the first flips of each column begin. What rounding does not explain is looked at first."""
        chosen: list[int] = []
        for column in dict.fromkeys(columns):
            mine = [place for place, each in enumerate(columns) if each == column]
            mine.sort(key=lambda place: flips[place].verdict == "rounding")
            chosen += mine[: self.run.settings.origins]
        for place in sorted(chosen, key=lambda place: flips[place].sample):
            flip = flips[place]
            self.run.tell(len(self.found.truths), len(self.found.truths), f"flips of {columns[place].name}")
            try:
                origin, note = self._origin(columns[place], flip)
            except MindgapError as error:
                origin, note = "", f"where it begins is not known: {error}"
            notes = [flip.note, note] if flip.note not in note else [note]
            flips[place] = replace(flip, origin=origin, note="; ".join(filter(None, notes)))

    def _origin(self, column: ComparedForm, flip: Flip) -> tuple[str, str]:
        reference, run, platform = parse(self.found.reference.platform), self.run, parse(column.platform)
        inputs = self._again(flip.sample).inputs
        form, execute, deadline_s = run.forms[column.form], run.pool.run, run.settings.deadline_s
        if flip.verdict == "other form":
            return form_origin(run.forms[""], form, inputs, reference, execute, deadline_s)
        if column.way != "graph":
            return file_origin(UserProgram(run.files, form.source), [*form.given(inputs).values()], platform)
        return operator_origin(form, inputs, platform, reference, execute, deadline_s)

    def _take_pictures(self) -> None:
        samples = list(dict.fromkeys(flip.sample for flip in self.found.flips))[:_PICTURES]
        for sample in sorted(samples):
            try:
                batch = self._again(sample)
            except MindgapError:
                continue  # the note is there
            self.found.pictures[sample] = picture_of(batch.inputs[0][batch.places[sample]])

    def _look_for_near_ties(self) -> None:
        result, near = self.found, self.run.settings.near
        if not near:
            return
        for form in self.run.forms.values():
            held = {n: one for n, one in result.predictions[result.on_reference(form.name)].items() if one.finite}
            smallest = sorted(held, key=lambda sample: _nearness(held[sample]))[:near]
            # Evaluated in the order of the dataset: one that is streamed begins again at each step back.
            by_sample = {
                sample: (
                    near_detection(form.name, sample, place, exact)
                    if isinstance(exact, ExactDetections)
                    else near_tie(form.name, sample, place, exact)
                )
                for sample, place, exact in self._near(form, sorted(smallest))
            }
            ties = [by_sample[sample] for sample in smallest if sample in by_sample]
            result.near_ties += ties
            if ties and len(smallest) < len(held) and all(tie.in_danger for tie in ties[-max(1, len(ties) // 8) :]):
                result.note(
                    f"{form.name or 'the model'}: the last of the {len(smallest)} samples of smallest margin are in "
                    "danger too: there may be more (--near N looks at more)"
                )

    def _near(self, form: ModelForm, samples: Sequence[int]) -> Iterator[tuple[int, int, _Exact]]:
        """Evaluates samples in batches of their own: what rounding can do does not depend on company."""
        held: list[tuple[int, list[Array]]] = []
        for number, sample in enumerate(samples, 1):
            try:
                batch = self._again(sample)
                held.append((sample, [array[batch.places[sample]] for array in batch.inputs]))
            except MindgapError:
                pass  # the note is there
            if not held or (len(held) < form.batch and number < len(samples)):
                continue
            inputs = filled(
                [np.stack(arrays) for arrays in zip(*(arrays for _, arrays in held), strict=True)], form.batch
            )
            try:
                exact = self._evaluate(form, inputs)
            except MindgapError as error:
                self.found.note(f"{form.name or 'the model'}: samples in danger are not known: {error}")
                return
            for place, (one, _) in enumerate(held):
                yield one, place, exact
            self._decides(form, exact)
            held = []

    def _exact_of(self, form: ModelForm, start: int, batch: _Batch) -> _Exact | None:
        key = (form.name, start)
        if self._exact is None or self._exact[0] != key:
            self._exact = key, self._evaluated(form, batch)
        return self._exact[1]

    def _evaluated(self, form: ModelForm, batch: _Batch) -> _Exact | None:
        name = form.name or "the model"
        if form.name in self._silent:
            return None
        if self._judged_batches >= _JUDGED:
            self.found.note(f"flips are judged in {_JUDGED} batches, those of all forms together; others are unjudged")
            return None
        self._judged_batches += 1
        try:
            exact = self._evaluate(form, batch.inputs)
        except MindgapError as error:
            self._silent.add(form.name)
            self.found.note(f"{name}: flips are not judged: {error}")
            return None
        return exact if self._decides(form, exact) else None

    def _evaluate(self, form: ModelForm, inputs: Sequence[Array]) -> _Exact:
        evaluate = exact_detections if self.found.task == "detection" else exact_outputs
        return evaluate(form, inputs, self.tensors)

    def _decides(self, form: ModelForm, exact: _Exact) -> bool:
        """Whether the limits of a form tell anything. Notes it where they do not."""
        if isinstance(exact, ExactDetections):
            return True  # each flip says it
        decides = exact.decides(self._usual_margin(form.name))
        if not decides:
            self.found.note(f"{form.name or 'the model'}: {_UNDECIDED}")
        return decides

    def _usual_margin(self, form: str) -> float:
        """The median margin of a form on the reference; 0 where there is none."""
        held = self.found.predictions[self.found.on_reference(form)].values()
        return float(np.median([one.margin for one in held if one.finite] or [0.0]))

    def _start(self, sample: int) -> int:
        batch = self.run.forms[""].batch
        return sample // batch * batch

    def _again(self, sample: int) -> _Batch:
        start = self._start(sample)
        if self._read is None or self._read[0] != start:
            if start not in self._lost:
                try:
                    self._read = start, self._read_batch(start)
                except MindgapError as error:
                    self._lost[start] = str(error)
                    self.found.note(f"flips are not judged where the dataset cannot be read again: {error}")
            if start in self._lost:
                raise MindgapError(self._lost[start])
        assert self._read is not None
        return self._read[1]

    def _read_batch(self, start: int) -> _Batch:
        size, limit = self.run.forms[""].batch, self.run.settings.samples
        examples = self.run.client.read(start, size if limit is None else min(size, limit - start))
        truths = {truth.sample: truth for truth in examples.truths}
        ran = [sample for sample in range(start, start + size) if sample in self.found.truths]
        same = all(truths.get(sample) == self.found.truths[sample] for sample in ran)
        batch = _Batch(filled(examples.inputs, size), {sample: place for place, sample in enumerate(truths)})
        if same and start in self.run.digests:
            same = self.run.digests[start] == read_digest(examples)
        elif same:
            same = self._runs_as_before(batch, [truths[sample] for sample in ran])
        if not same:
            raise MindgapError(f"dataset {self.found.dataset}: {_CHANGED}")
        return batch

    def _runs_as_before(self, batch: _Batch, truths: Sequence[Truth]) -> bool:
        """Whether the reference gives on a batch what the store has of it: that has no digest of the inputs."""
        result = self.found
        outputs = self.run.runner(result.reference).outputs(batch.inputs)
        return not any(moved(result, outputs, truth, batch.places[truth.sample]) for truth in truths)
