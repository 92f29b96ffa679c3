"""Finds the samples that change their answer, decides whether rounding explains it, and where it begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from mindgap.graph import Array, MindgapError, TensorStore
from mindgap.platforms.name import parse
from mindgap.results.predictions import Column, Flip, FlipVerdict, Prediction, TaskResult
from mindgap.workflows.task.columns import Form, filled
from mindgap.workflows.task.images import picture_of
from mindgap.workflows.task.near_ties import ExactOutputs, exact_outputs, near_tie
from mindgap.workflows.task.origin import form_origin, operator_origin
from mindgap.workflows.task.running import TaskRun

#: Samples that flip and are shown as pictures.
_PICTURES: Final = 48
#: What is said of a form whose limits cover usual margins: its roundings are steps, or it amplifies them.
_UNDECIDED: Final = (
    "rounding of its graph may move outputs by more than the usual margin: nearly every sample counts as in danger, "
    "and flips between platforms are not judged (mindgap diff looks at each operator)"
)
#: Batches of all forms that the oracle looks at for flips.
_JUDGED: Final = 256


def flips_of(found: TaskResult, column: Column) -> Iterator[Flip]:
    """Yields the samples (of a text, the positions) whose best label is not the reference's, without a verdict.

    A detection flips where the objects that score 0.5 or more are not the reference's.
    """
    for sample, mine in found.predictions[column].items():
        theirs, truth = found.predictions[found.reference][sample], found.truths[sample]
        if found.task == "detection":
            if not _same_objects(mine, theirs):
                yield Flip(column.name, sample, 0, -1, -1, -1, "unjudged", shows=_objects(theirs, mine))
            continue
        count = len(truth.labels) if found.task == "language" else 1
        for position in range(count):
            if mine.labels[position] != theirs.labels[position]:
                yield Flip(
                    column.name, sample, position, truth.labels[position], theirs.labels[position],
                    mine.labels[position], "unjudged",
                )  # fmt: skip


def _same_objects(mine: Prediction, theirs: Prediction) -> bool:
    from mindgap.graph.compare.boxes import same_objects

    return same_objects((mine.boxes, mine.labels, mine.scores), (theirs.boxes, theirs.labels, theirs.scores))


def _objects(before: Prediction, after: Prediction) -> str:
    def words(one: Prediction) -> str:
        labels = sorted(label for label, score in zip(one.labels, one.scores, strict=True) if score >= 0.5)
        return " ".join(map(str, labels)) or "nothing"

    ours, theirs = words(after), words(before)
    return f"shows {ours}; the reference {theirs}" if ours != theirs else f"other boxes of {ours}"


@dataclass
class FlipSearch:
    """Judges the flips of a run. The samples are read again, in the batches in which they ran."""

    run: TaskRun
    found: TaskResult
    tensors: TensorStore
    #: The batch that was read last: its first number, its inputs, the place of each sample.
    _read: tuple[int, tuple[Array, ...], dict[int, int]] | None = None
    _exact: dict[tuple[str, int], ExactOutputs] = field(default_factory=dict[tuple[str, int], ExactOutputs])
    _silent: set[str] = field(default_factory=set[str])

    def search(self) -> None:
        """Fills in flips, near ties and pictures of the result."""
        found, settings = self.found, self.run.settings
        live = [c for c in found.columns if c not in found.failures and c != found.reference]
        flips = {column: [*flips_of(found, column)] for column in live}
        for column in live:
            judged = [self._judged(column, flip) for flip in flips[column]]
            found.flips += self._with_origins(column, judged, settings.origins)
            self.run.tell(len(found.truths), len(found.truths), f"flips of {column.name}")
        self._look_for_near_ties()
        for sample in list(dict.fromkeys(flip.sample for flip in found.flips))[:_PICTURES]:
            found.pictures[sample] = picture_of(self._inputs(sample)[0][self._place(sample)])

    def _judged(self, column: Column, flip: Flip) -> Flip:
        """Whether rounding of the form's own graph explains it, in comparison with the same form on the reference."""
        found = self.found
        if found.task == "detection":
            return replace(flip, verdict="other form" if column.form else "unjudged")
        before = flip.before
        if column.form:
            home = Column(column.form, found.reference.platform)
            there = found.predictions.get(home, {}).get(flip.sample)
            if there is None or home == column or column.way != "graph" or there.labels[flip.position] == flip.after:
                return replace(flip, verdict="other form")
            before = there.labels[flip.position]
        exact = self._exact_of(self.run.forms[column.form], flip.sample)
        if exact is None:
            return flip
        place = (self._place(flip.sample), *([flip.position] if found.task == "language" else []))
        margin, limit = exact.between(place, before, flip.after)
        verdict: FlipVerdict = "rounding" if margin <= limit else "beyond"
        return replace(flip, verdict=verdict, margin=margin, limit=limit)

    def _with_origins(self, column: Column, flips: Sequence[Flip], most: int) -> list[Flip]:
        found = list(flips)
        # What rounding does not explain is looked at first.
        order = sorted(range(len(found)), key=lambda place: found[place].verdict == "rounding")
        for place in order[:most]:
            try:
                origin, note = self._origin(column, found[place])
            except MindgapError as error:
                origin, note = "", f"where it begins is not known: {error}"
            found[place] = replace(found[place], origin=origin, note=note)
        return found

    def _origin(self, column: Column, flip: Flip) -> tuple[str, str]:
        reference, run = parse(self.found.reference.platform), self.run
        inputs = self._inputs(flip.sample)
        form, execute, deadline_s = run.forms[column.form], run.pool.run, run.settings.deadline_s
        if flip.verdict == "other form":
            return form_origin(run.forms[""], form, inputs, reference, execute, deadline_s)
        return operator_origin(form, inputs, parse(column.platform), reference, execute, deadline_s)

    def _look_for_near_ties(self) -> None:
        found, near = self.found, self.run.settings.near
        if found.task == "detection" or not near:
            return
        for form in self.run.forms.values():
            held = found.predictions.get(Column(form.name, found.reference.platform), {})
            smallest = sorted(held, key=lambda sample: held[sample].margin)[:near]
            ties = [near_tie(form.name, sample, place, exact) for sample, place, exact in self._near(form, smallest)]
            found.near_ties += ties
            if ties and len(smallest) < len(held) and all(tie.in_danger for tie in ties[-max(1, len(ties) // 8) :]):
                found.note(
                    f"{form.name or 'the model'}: the last of the {len(smallest)} samples of smallest margin are in "
                    "danger too: there may be more (--near N looks at more)"
                )

    def _near(self, form: Form, samples: Sequence[int]) -> Iterator[tuple[int, int, ExactOutputs]]:
        """Evaluates samples in batches of their own: what rounding can do does not depend on company."""
        for start in range(0, len(samples), form.batch):
            part = samples[start : start + form.batch]
            rows = [[array[self._place(sample)] for array in self._inputs(sample)] for sample in part]
            inputs = filled([np.stack(arrays) for arrays in zip(*rows, strict=True)], form.batch)
            try:
                exact = exact_outputs(form, inputs, self.tensors)
            except MindgapError as error:
                self.found.note(f"{form.name or 'the model'}: samples in danger are not known: {error}")
                return
            for place, sample in enumerate(part):
                yield sample, place, exact
            self._decides(form, exact)

    def _exact_of(self, form: Form, sample: int) -> ExactOutputs | None:
        key = (form.name, self._start(sample))
        if key not in self._exact:
            if form.name in self._silent or len(self._exact) >= _JUDGED:
                return None
            try:
                self._exact[key] = exact_outputs(form, self._inputs(sample), self.tensors)
            except MindgapError as error:
                self._silent.add(form.name)
                self.found.note(f"{form.name or 'the model'}: flips are not judged: {error}")
                return None
        return self._exact[key] if self._decides(form, self._exact[key]) else None

    def _decides(self, form: Form, exact: ExactOutputs) -> bool:
        """Whether the limits of a form tell anything. Notes it where they do not."""
        held = self.found.predictions.get(Column(form.name, self.found.reference.platform), {})
        decides = bool(held) and exact.decides(float(np.median([one.margin for one in held.values()])))
        if not decides:
            self.found.note(f"{form.name or 'the model'}: {_UNDECIDED}")
        return decides

    def _start(self, sample: int) -> int:
        batch = self.run.forms[""].batch
        return sample // batch * batch

    def _inputs(self, sample: int) -> tuple[Array, ...]:
        """The batch in which a sample ran."""
        start = self._start(sample)
        if self._read is None or self._read[0] != start:
            limit = self.run.settings.samples
            count = self.run.forms[""].batch if limit is None else min(self.run.forms[""].batch, limit - start)
            examples = self.run.client.read(start, count)
            places = {truth.sample: place for place, truth in enumerate(examples.truths)}
            self._read = start, filled(examples.inputs, self.run.forms[""].batch), places
        return self._read[1]

    def _place(self, sample: int) -> int:
        """The place of a sample in its batch."""
        self._inputs(sample)
        assert self._read is not None
        return self._read[2][sample]
