"""Collects models, rows and refusals as they become known, and reports progress."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Sequence
from typing import Final

from mindgap.graph.compare.reason import Reason
from mindgap.judge.pipeline.comparison import GraphComparison
from mindgap.platforms.name import PlatformName
from mindgap.results.advice import advised
from mindgap.results.argument_sets import joined
from mindgap.results.reason_words import sentence
from mindgap.results.rows import Model, Refused, Report, Row
from mindgap.workflows.diff.subject import OnProgress, ProgressEvent, Stage, Subject

#: What is being done is reported no more often.
_TOLD_EVERY_S: Final = 0.2


class Collected:
    """What is known so far, by position of the subject. Thread-safe. Takes nothing after `close`."""

    def __init__(self, platforms: Sequence[PlatformName], progress: OnProgress | None) -> None:
        self._platforms = list(platforms)
        self._progress = progress
        self._done = self._total = 0
        self._groups: dict[str, str] = {}
        self._names: list[str] = []
        self._models: dict[int, Model] = {}
        self._refused: dict[int, Refused] = {}
        self._rows: dict[tuple[int, int], Row] = {}
        self._comparisons: dict[int, GraphComparison] = {}
        self._closed = False
        self._told = 0.0
        self._lock = threading.Lock()

    def expect(self, subjects: Sequence[Subject]) -> None:
        """Sets the subjects, each of which gives a row per platform."""
        self._total = len(subjects) * len(self._platforms)
        self._names = [each.name for each in subjects]
        self._groups = {each.name: each.group for each in subjects if each.group}

    def close(self) -> None:
        """Takes nothing more: the workers are about to be killed, and what follows from that is no result."""
        with self._lock:
            self._closed = True

    @property
    def closed(self) -> bool:
        """Whether nothing more is taken."""
        return self._closed

    def model(self, position: int, model: Model, reference: PlatformName) -> None:
        """Takes a model that the reference ran."""
        with self._lock:
            if not self._closed:
                self._models[position] = model
        self.tick("ran", model.name, reference)

    def began(self, position: int, comparison: GraphComparison) -> None:
        """Takes a comparison whose platforms run, for what is known of them if it is interrupted."""
        with self._lock:
            self._comparisons[position] = comparison

    def row(self, position: int, row: Row) -> bool:
        """Takes a row. Returns False if it came after `close`."""
        with self._lock:
            if self._closed:
                return False
            self._rows[position, self._platforms.index(row.platform)] = row
            waiting = [name for number, name in enumerate(self._platforms) if (position, number) not in self._rows]
        self.tick("judged", row.model, row.platform, row, 1, f"; waiting for {', '.join(waiting)}" if waiting else "")
        return True

    def refused(self, position: int, refused: Refused, rows: int) -> None:
        """Takes a subject that gave no graph. `rows`: how many it lacks."""
        with self._lock:
            if not self._closed:
                self._refused[position] = refused
        self.tick("refused", refused.source, "", None, rows)

    def tick(
        self, stage: Stage, model: str, platform: str, row: Row | None = None, finished: int = 0, text: str = ""
    ) -> None:
        """Reports one step; `finished`: how many rows it finishes."""
        with self._lock:
            self._done += finished
            if self._progress is not None and not self._closed:
                self._progress(ProgressEvent(stage, model, platform, self._done, self._total, row, text))

    def report_activity(self, model: str, platform: str, text: str) -> None:
        """Reports what is being done, unless that was reported a moment ago."""
        now = time.monotonic()
        if now - self._told >= _TOLD_EVERY_S:
            self._told = now
            self.tick("doing", model, platform, text=text)

    def interrupted(self, why: Reason) -> None:
        """After `close`: adds rows of what is known of platforms of comparisons that began, and refuses the subjects
        whose comparison had not begun."""
        with self._lock:
            for position, name in enumerate(self._names):
                if position not in self._models and position not in self._refused:
                    self._refused[position] = Refused(name, f"not run: {sentence(why)} before the reference had run it")
            for position, comparison in self._comparisons.items():
                for number, platform in enumerate(self._platforms):
                    if position in self._models and (position, number) not in self._rows:
                        self._rows[position, number] = advised(comparison.row_so_far(platform, why))

    def report(self, empty: Report, seconds: float) -> Report:
        """Returns the report with everything collected, in the order of subjects, then of platforms."""
        with self._lock:
            report = dataclasses.replace(
                empty,
                models=tuple(self._models[key] for key in sorted(self._models)),
                rows=tuple(self._rows[key] for key in sorted(self._rows)),
                refused=tuple(self._refused[key] for key in sorted(self._refused)),
                seconds=seconds,
            )
            return joined(report, self._groups) if self._groups else report
