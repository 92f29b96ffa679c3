"""Runs a task study: every column over the dataset, batch by batch; then the samples whose labels flip.

A batch holds the samples of a range of numbers, so that a run that was cut, or has one platform more, repeats the same
batches. Columns that the store has of a batch do not run again, save the reference. The rows of a batch are in the
store before the next begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import xxhash

from mindgap.graph import Array, MindgapError
from mindgap.own_path.client import OwnPathClient
from mindgap.run.pool import WorkerPool
from mindgap_studies.results.predictions import ComparedForm, Prediction, Task, TaskResult, Truth
from mindgap_studies.task_runs.columns import ColumnFailed, ColumnRunner, ModelForm, filled
from mindgap_studies.task_runs.dataset_client import DatasetClient, Examples
from mindgap_studies.task_runs.outputs import are_probabilities, like_probabilities, predictions_of
from mindgap_studies.task_runs.task_store import TaskStore


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """`samples`: at most so many, None for all. `near`: how many samples of smallest margin the oracle looks at in each
    form. `origins`: for how many flips of each column the operator is looked for."""

    samples: int | None = None
    near: int = 64
    origins: int = 1
    deadline_s: float = 300.0


#: How far the loss of a sample may move, of 1 + loss, where the reference runs it again: rounding moves it less.
_SAME: Final = 1e-2

Progress = Callable[[int, int | None, str], None]


def read_digest(examples: Examples) -> str:
    """Returns a digest of what a dataset gave: the truths and the bytes of the inputs."""
    hasher = xxhash.xxh3_128(repr(examples.truths).encode())
    for array in examples.inputs:
        hasher.update(f"{array.dtype} {array.shape}".encode())
        hasher.update(array.tobytes())
    return hasher.hexdigest()


@dataclass
class TaskRun:
    """Runs columns over a dataset. `forms`: by name, the model itself ("") first."""

    forms: Mapping[str, ModelForm]
    columns: Sequence[ComparedForm]
    client: DatasetClient
    pool: WorkerPool
    files: OwnPathClient
    kept: TaskStore
    settings: TaskSettings
    tell: Progress
    model: str
    #: Of the batches that this run has read, by their first number.
    digests: dict[int, str] = field(default_factory=dict[int, str])

    def run(self) -> TaskResult:
        """Runs everything. Raises `MindgapError` where the reference does not run, or no sample is left."""
        started = time.perf_counter()
        facts = self.client.facts
        result = TaskResult(self.model, self.client.dataset, facts.task, facts.classes, tuple(self.columns))
        for form in self.forms.values():
            form.check(facts.task, None if not form.name else self.forms[""])
        result.predictions = {column: self.kept.predictions(column) for column in self.columns}
        truths, problems = self.kept.truths()
        batch, start = self.forms[""].batch, 0
        limit = self.settings.samples if self.settings.samples is not None else facts.count
        while limit is None or start < limit:
            count = batch if limit is None else min(batch, limit - start)
            if self._known(result, truths, problems, start, count):
                samples = range(start, start + count)
                result.truths |= {sample: truths[sample] for sample in samples if sample in truths}
                result.problems |= {sample: problems[sample] for sample in samples if sample not in truths}
                result.taken_over += count
            elif self._batch(result, start, count, truths):
                break
            start += count
            self.tell(start, limit, "")
        if not result.truths:
            raise MindgapError(
                f"dataset {result.dataset}: no sample is left: {next(iter(result.problems.values()), 'it is empty')}"
            )
        self._trim(result)
        result.seconds = time.perf_counter() - started
        return result

    def _known(
        self, result: TaskResult, truths: Mapping[int, Truth], problems: Mapping[int, str], start: int, count: int
    ) -> bool:
        """Whether the store has all of a batch."""
        live = [column for column in self.columns if column not in result.failures]
        return all(
            n in problems or (n in truths and all(n in result.predictions[column] for column in live))
            for n in range(start, start + count)
        )

    def runner(self, column: ComparedForm) -> ColumnRunner:
        """Returns what runs a column."""
        return ColumnRunner(self.forms[column.form], column, self.pool, self.files, self.settings.deadline_s)

    def _batch(self, result: TaskResult, start: int, count: int, known: Mapping[int, Truth]) -> bool:
        """Runs the columns that the store does not have of one batch. Returns whether the dataset ends with it."""
        read = self.client.read(start, count)
        self.digests[start] = read_digest(read)
        for truth in read.truths:
            if known.get(truth.sample, truth) != truth:
                raise _changed(result, truth.sample)
        problems = dict(read.problems)
        made: dict[ComparedForm, list[Prediction]] = {}
        good: list[Truth] = []
        if read.truths:
            inputs = filled(read.inputs, self.forms[""].batch)
            try:
                reference = self.runner(result.reference).outputs(inputs)
            except ColumnFailed as error:
                raise MindgapError(f"the reference does not run: {error}") from None
            good = self._in_range(result.task, read.truths, reference, problems)
            places = {truth.sample: place for place, truth in enumerate(read.truths)}
            for truth in good:
                if moved(result, reference, truth, places[truth.sample]):
                    raise _changed(result, truth.sample)
            shares = result.task != "detection" and are_probabilities(reference[0].astype(np.float64))
            if shares:
                result.note("the outputs are probabilities: each row sums to 1; margins are of probabilities")
            for column in self.columns:
                missing = [truth for truth in good if truth.sample not in result.predictions[column]]
                if column in result.failures or not missing:
                    continue
                try:
                    outputs = reference if column == result.reference else self.runner(column).outputs(inputs)
                    made[column] = []
                    for truth in missing:
                        made[column] += predictions_of(result.task, outputs, reference, [truth], places[truth.sample])
                    if column == result.reference:
                        good = _finite(made, good, problems, column)
                    elif column.form and result.task != "detection":
                        _note_scale(result, column, outputs[0], shares)
                except MindgapError as error:
                    if column == result.reference:
                        raise
                    result.failures[column] = str(error)
        result.problems |= problems
        result.truths |= {truth.sample: truth for truth in good}
        for column, predictions in made.items():
            result.predictions[column] |= {one.sample: one for one in predictions}
        self.kept.keep([truth for truth in good if truth.sample not in known], problems, made)
        return read.ended

    def _in_range(
        self, task: Task, truths: Sequence[Truth], outputs: Sequence[Array], problems: dict[int, str]
    ) -> list[Truth]:
        """The samples whose labels the model has. Others are problems."""
        classes = outputs[0].shape[-1] if task != "detection" else None
        if task == "detection" and outputs[1].ndim == 3:
            classes = outputs[1].shape[-1]
        positions = outputs[0].shape[1] if task == "language" else None
        good: list[Truth] = []
        for truth in truths:
            if positions is not None and len(truth.labels) != positions:
                problems[truth.sample] = f"it has {len(truth.labels)} labels, and the model {positions} positions"
                continue
            wrong = [label for label in truth.labels if label < 0 or (classes is not None and label >= classes)]
            if wrong:
                has = f"the model has {classes or 'no negative'} classes"
                problems[truth.sample] = f"label {wrong[0]} is out of range: {has}"
            else:
                good.append(truth)
        return good

    def _trim(self, result: TaskResult) -> None:
        """Leaves predictions of the samples of this run alone, of columns that ran to the end."""
        for column in self.columns:
            if column in result.failures:
                result.predictions[column] = {}
            result.predictions[column] = {
                sample: one for sample, one in sorted(result.predictions[column].items()) if sample in result.truths
            }


def moved(result: TaskResult, outputs: Sequence[Array], truth: Truth, place: int) -> bool:
    """Returns whether the reference's outputs are not those of the store for a sample: its inputs are others.

    A detection has no loss to compare.
    """
    before = result.predictions[result.reference].get(truth.sample)
    if before is None or result.task == "detection":
        return False
    (now,) = predictions_of(result.task, outputs, outputs, [truth], place)
    return abs(now.loss - before.loss) > _SAME * (1 + abs(before.loss))


def _changed(result: TaskResult, sample: int) -> MindgapError:
    return MindgapError(
        f"dataset {result.dataset}: sample {sample} is another than in the store, from a session before: the dataset "
        "changes from reading to reading; seed it, and give --store another directory"
    )


def _finite(
    made: dict[ComparedForm, list[Prediction]], truths: Sequence[Truth], problems: dict[int, str], column: ComparedForm
) -> list[Truth]:
    """Leaves out samples for which the reference gives NaN or infinities: nothing can be compared with it."""
    bad = {one.sample for one in made[column] if not one.finite}
    problems |= dict.fromkeys(sorted(bad), "the reference's outputs are not finite (NaN or infinities)")
    made[column] = [one for one in made[column] if one.sample not in bad]
    return [truth for truth in truths if truth.sample not in bad]


def _note_scale(result: TaskResult, column: ComparedForm, logits: Array, shares: bool) -> None:
    """Notes a form that gives logits where the model gives probabilities, or the other way round."""
    mine = like_probabilities(logits.astype(np.float64), shares)
    if mine != shares:
        names = ("logits", "probabilities")
        result.note(
            f"{column.form}: it gives {names[mine]}, and the model {names[shares]}: their margins and deviations are "
            "not on one scale"
        )
