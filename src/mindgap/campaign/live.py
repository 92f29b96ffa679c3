"""How a campaign is getting on, counted as it goes."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mindgap.diff.rows import Row

#: Rates are those of the last so many seconds.
_WINDOW_S: Final = 120.0


@dataclass(frozen=True)
class Snapshot:
    """`cases` of `planned` have been given to the reference, earlier sessions included. `words` and `statuses`: rows
    of this session by (platform, word). `features`: covered; `new`: by the youngest block."""

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


class Live:
    """The counts. Thread-safe."""

    def __init__(self, planned: int, cases: int = 0) -> None:
        """`cases`: done by earlier sessions."""
        self._started = time.monotonic()
        self._planned, self._cases = planned, cases
        self._words: Counter[tuple[str, str]] = Counter()
        self._statuses: Counter[tuple[str, str]] = Counter()
        self._judging = self._features = self._new = self._block = self._rows = 0
        self._marks: deque[tuple[float, int, int]] = deque([(self._started, cases, 0)])
        self._lock = threading.Lock()

    def case(self) -> None:
        """The reference is done with a case."""
        with self._lock:
            self._cases += 1

    def row(self, row: Row) -> None:
        with self._lock:
            self._rows += 1
            self._words[row.platform, row.word] += 1
            self._statuses[row.platform, row.status] += 1

    def judge(self, change: int) -> None:
        """`change` more rows wait for a judge."""
        with self._lock:
            self._judging += change

    def block(self, number: int, features: int, new: int) -> None:
        """A block begins: so much is covered, so much of it by this block first."""
        with self._lock:
            self._block, self._features, self._new = number, features, new

    def snapshot(self) -> Snapshot:
        """The counts now, and the rates of the last two minutes."""
        now = time.monotonic()
        with self._lock:
            if now - self._marks[-1][0] >= 1.0:
                self._marks.append((now, self._cases, self._rows))
            while len(self._marks) > 1 and now - self._marks[1][0] > _WINDOW_S:
                self._marks.popleft()
            then, cases, rows = self._marks[0]
            passed = max(now - then, 1e-3)
            rate = (self._cases - cases) / passed
            return Snapshot(
                seconds=now - self._started,
                cases=self._cases,
                planned=self._planned,
                rows=self._rows,
                cases_per_second=rate,
                rows_per_second=(self._rows - rows) / passed,
                eta_s=(self._planned - self._cases) / rate if rate > 0 else None,
                words=dict(self._words),
                statuses=dict(self._statuses),
                judging=self._judging,
                features=self._features,
                new=self._new,
                block=self._block,
            )
