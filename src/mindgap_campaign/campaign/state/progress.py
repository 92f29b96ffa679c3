"""Counts the progress of a running campaign: cases, rows, rates, time left."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mindgap.results.rows import Row

#: Rates are those of the last so many seconds.
_WINDOW_S: Final = 120.0


@dataclass(frozen=True)
class ProgressSnapshot:
    """The counts of a session at one moment.

    `cases`: of `planned`, those that the reference has run, earlier sessions included. `words`, `statuses`: rows of
    this session by (platform, word). `eta_s`: seconds until the last row; None if unknown. `judging`: rows that wait
    for a judge. `features`: covered features; `new`: those of the latest block."""

    seconds: float
    cases: int
    planned: int
    rows: int
    cases_per_second: float
    rows_per_second: float
    eta_s: float | None
    words: Mapping[tuple[str, str], int]
    statuses: Mapping[tuple[str, str], int]
    judging: int
    features: int
    new: int
    block: int


@dataclass(frozen=True, slots=True)
class _Mark:
    """The counts at one moment; two marks give a rate."""

    moment: float
    cases: int
    rows: int
    judged: int


class Progress:
    """Counts cases, rows and pairs. Thread-safe.

    Remaining work is counted in pairs of case and platform, because the reference is far ahead of the slowest platform.
    A block that has not begun is assumed to have as many pairs as the others.
    """

    def __init__(self, planned: int, cases: int = 0) -> None:
        """`cases`: the number of cases done by earlier sessions."""
        self._started = time.monotonic()
        self._before = cases
        self._opened_cases = self._opened_pairs = self._finished_pairs = self._judged = 0
        self._planned, self._cases = planned, cases
        self._words: Counter[tuple[str, str]] = Counter()
        self._statuses: Counter[tuple[str, str]] = Counter()
        self._judging = self._features = self._new = self._block = self._rows = 0
        self._marks: deque[_Mark] = deque([_Mark(self._started, cases, 0, 0)])
        self._lock = threading.Lock()

    def case(self) -> None:
        """Counts a case that the reference has run."""
        with self._lock:
            self._cases += 1

    def row(self, row: Row) -> None:
        with self._lock:
            self._rows += 1
            self._words[row.platform, row.word] += 1
            self._statuses[row.platform, row.status] += 1

    def finished(self) -> None:
        """Counts a pair of case and platform that has its row or is left out."""
        with self._lock:
            self._finished_pairs += 1

    def block_finished(
        self, pairs: int, words: Mapping[tuple[str, str], int], statuses: Mapping[tuple[str, str], int]
    ) -> None:
        """Counts the pairs and rows of a whole block."""
        with self._lock:
            self._finished_pairs += pairs
            self._rows += sum(words.values())
            self._words.update(words)
            self._statuses.update(statuses)

    def judge(self, change: int) -> None:
        """Adds `change` to the number of rows that wait for a judge."""
        with self._lock:
            self._judging += change
            self._judged -= min(change, 0)

    def block(self, number: int, cases: int, pairs: int, features: int, new: int) -> None:
        """Counts a block that begins. `features`: all covered features; `new`: those that the block covers first."""
        with self._lock:
            self._block, self._features, self._new = number, features, new
            self._opened_cases += cases
            self._opened_pairs += pairs

    def snapshot(self) -> ProgressSnapshot:
        """Returns the counts now, with rates over the last two minutes."""
        now = time.monotonic()
        with self._lock:
            if now - self._marks[-1].moment >= 1.0:
                self._marks.append(_Mark(now, self._cases, self._rows, self._judged))
            while len(self._marks) > 1 and now - self._marks[1].moment > _WINDOW_S:
                self._marks.popleft()
            then = self._marks[0]
            passed = max(now - then.moment, 1e-3)
            rows_per_second = (self._rows - then.rows) / passed
            return ProgressSnapshot(
                seconds=now - self._started,
                cases=self._cases,
                planned=self._planned,
                rows=self._rows,
                cases_per_second=(self._cases - then.cases) / passed,
                rows_per_second=rows_per_second,
                eta_s=self._eta(rows_per_second, (self._judged - then.judged) / passed),
                words=dict(self._words),
                statuses=dict(self._statuses),
                judging=self._judging,
                features=self._features,
                new=self._new,
                block=self._block,
            )

    def _eta(self, rows_per_second: float, judged_per_second: float) -> float | None:
        """Estimates the seconds until every pair has its row, at the slower of both rates."""
        if not self._opened_cases and self._before < self._planned:
            return None
        later = max(0, self._planned - self._before - self._opened_cases)
        each = self._opened_pairs / self._opened_cases if self._opened_cases else 0.0
        left = self._opened_pairs - self._finished_pairs + later * each
        if left <= 0:
            return 0.0
        if rows_per_second <= 0:
            return None
        waiting = self._judging / judged_per_second if judged_per_second > 0 else 0.0
        return max(left / rows_per_second, waiting)
