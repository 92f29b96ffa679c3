"""Client of the process that reads a dataset. What users' code and decoders do ends that process alone."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Array, MindgapError
from mindgap.run.channel import Frame
from mindgap.run.message import WorkerFailed
from mindgap.run.process import RequestLimits
from mindgap.run.worker_client import WorkerClient, WorkerStart
from mindgap.source_worker.client import users_line
from mindgap_studies.results.predictions import Task, Truth
from mindgap_studies.task_runs.images import InputForm, Pixels

if TYPE_CHECKING:
    from typing import Self

_START_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """What is known of a dataset before it is read. count: None where only reading tells. images: its inputs are made
    of images."""

    task: Task
    count: int | None
    classes: tuple[str, ...]
    images: bool = False


@dataclass(frozen=True, slots=True)
class Examples:
    """Some examples in a row. inputs: of each of the model's inputs [examples, …], of those that could be read.

    problems: number and reason of those that could not. ended: there is none after them.
    """

    truths: tuple[Truth, ...]
    inputs: tuple[Array, ...]
    problems: tuple[tuple[int, str], ...]
    ended: bool


class DatasetClient:
    """Reads one dataset. Use as a context manager: leaving it ends the process."""

    def __init__(
        self, dataset: str, forms: Sequence[InputForm], pixels: Pixels, deadline_s: float, classes: Sequence[str] = ()
    ) -> None:
        """`classes`: the model's, in its order. Raises `MindgapError` where the dataset cannot be opened."""
        self.dataset = dataset
        self._deadline_s = deadline_s
        start = WorkerStart("mindgap_studies.task_runs.dataset_worker:dataset_service", dict(os.environ), forks=True)
        self._client = WorkerClient(start, {}, RequestLimits(_START_S))
        self._asked: dict[str, Any] = {
            "kind": "open", "dataset": dataset, "forms": [[form.name, form.shape, form.dtype] for form in forms],
            "mean": pixels.mean, "std": pixels.std, "own": pixels.own and asdict(pixels.own), "classes": list(classes),
        }  # fmt: skip
        #: How many examples of a stream the process has read since it began one.
        self._passed = 0
        try:
            header = self._ask(self._asked).header
        except BaseException:
            self._client.close()
            raise
        self.facts = DatasetFacts(header["task"], header["count"], tuple(header["classes"]), header["images"])

    def read(self, start: int, count: int) -> Examples:
        """Reads examples from a number on. Raises `MindgapError` where the dataset itself fails."""
        if self._client.process is None or not self._client.process.alive:
            self._ask(self._asked)
            self._passed = 0
        # A stream is read from where it is, or from its begin: every `count` examples before `start` have a deadline.
        passed = self._passed if self._passed <= start else 0
        before = (start - passed) / count if self.facts.count is None else 0
        frame = self._ask({"kind": "read", "start": start, "count": count}, self._deadline_s * (1 + before))
        self._passed = start + count
        facts: list[dict[str, Any]] = frame.header["facts"]
        return Examples(
            tuple(Truth(one["number"], tuple(one["labels"]), tuple(one["boxes"])) for one in facts if "labels" in one),
            tuple(frame.arrays),
            tuple((one["number"], one["problem"]) for one in facts if "problem" in one),
            frame.header["ended"],
        )

    def _ask(self, header: Mapping[str, Any], deadline_s: float | None = None) -> Frame:
        limits = RequestLimits(deadline_s or self._deadline_s)
        try:
            frame = self._client.ask(header, (), limits, "reading the dataset")
        except WorkerFailed as failed:
            place = users_line(failed.tail)
            raise MindgapError(f"dataset {self.dataset}: {failed.message}{f' ({place})' if place else ''}") from None
        if frame.header["kind"] != "failed":
            return frame
        if frame.header["broken"]:
            raise RuntimeError(frame.header["broken"])
        reason = str(frame.header["reason"])
        raise MindgapError(reason if self.dataset in reason else f"dataset {self.dataset}: {reason}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
