"""Tracks the current step of a session, for a terminal or for another process."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

from mindgap_campaign.campaign.state.progress import Progress, ProgressSnapshot

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionStep:
    """One step of a session. `done` of `total` (0: unknown). `seconds`: since it began. `number`: its number.

    `running`: the counts, once cases run.
    """

    name: str
    done: int
    total: int
    seconds: float
    number: int
    running: ProgressSnapshot | None = None

    def line(self) -> str:
        """Formats the step, without the counts of running cases."""
        far = f": {self.done:,} of {self.total:,}" if self.total else ""
        return f"{self.name}{far} ({self.seconds:.0f} s)" if self.seconds >= 1 else f"{self.name}{far}"


class StepTracker:
    """Holds the current step of a session. Thread-safe."""

    def __init__(self, name: str = "starting") -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._live: Progress | None = None
        #: The counts of the step in which cases ran last, also when it is over.
        self.ran: Progress | None = None
        self._set(name, 0, 0)

    def step(self, name: str, total: int = 0) -> None:
        """Begins another step."""
        _log.info("%s", name)
        with self._lock:
            self._number += 1
            self._live = None
            self._set(name, 0, total)

    def tick(self, done: int, total: int) -> None:
        """Sets how much of the step is done."""
        with self._lock:
            self._done, self._total = done, total

    def run(self, progress: Progress) -> None:
        """Begins the step in which cases run, counted by `progress`."""
        with self._lock:
            self._number += 1
            self._set("running", 0, 0)
            self._live = self.ran = progress

    def now(self) -> SessionStep:
        """Returns the step with its counts now."""
        with self._lock:
            progress = self._live
            seconds = time.monotonic() - self._began
            name, done, total, number = self._name, self._done, self._total, self._number
        return SessionStep(name, done, total, seconds, number, None if progress is None else progress.snapshot())

    def _set(self, name: str, done: int, total: int) -> None:
        self._name, self._done, self._total, self._began = name, done, total, time.monotonic()
