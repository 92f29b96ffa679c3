"""Tracks one block of cases through the platforms, and detects when blocks bring nothing new."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mindgap.campaign.cases.case import Case, Shard
from mindgap.campaign.schedule.selection import BlockSelection, together
from mindgap.campaign.state.resume_state import FinishedPair

#: How many failures of a platform with one signature and one named operator are followed, in each block.
_FOLLOWED: Final = 3


class OpenBlock:
    """Counts the open pairs of a block and collects its findings. Thread-safe."""

    def __init__(
        self,
        number: int,
        position: int,
        cases: list[Case],
        selection: BlockSelection,
        resume_state: Mapping[str, Mapping[str, FinishedPair]],
    ) -> None:
        """`position`: how many blocks of this shard come before it. `resume_state`: the pairs that have their rows."""
        self.number, self.position, self.selection = number, position, selection
        self.cases = len(cases)
        self._past = resume_state
        self._started = time.monotonic()
        #: Of cases and platforms that get them.
        self.pairs = sum(len(order) for order in selection.orders.values())
        self._pairs = self.pairs
        self._takers: dict[int, list[str]] = {}
        for platform, order in selection.orders.items():
            for case in order:
                self._takers.setdefault(case.index, []).append(platform)
        self._followed: Counter[tuple[str, str, str]] = Counter()
        self._found: set[str] = set()
        self._left: Counter[str] = Counter()
        self._lock = threading.Lock()

    def order(self, supplied: Iterable[Case]) -> list[Case]:
        """The cases that any platform gets, in the order in which most of them run."""
        return together(case for case in supplied if case.index in self._takers)

    def takers(self, case: Case) -> list[str]:
        """The platforms that get the case."""
        return self._takers[case.index]

    def known(self, case: Case, platform: str) -> FinishedPair | None:
        """What an earlier session made of the pair, if it did."""
        return self._past.get(case.name, {}).get(platform)

    def follows(self, platform: str, signature: str, op: str | None) -> bool:
        """Whether this failure, the next of its platform in order, is one of the few that are followed.

        `op`: the operator that the platform names itself. Failures with one signature are told apart by it.
        """
        kind = platform, signature, op or ""
        with self._lock:
            self._followed[kind] += 1
            return self._followed[kind] <= _FOLLOWED

    def finish(self, finding: str = "") -> bool:
        """One pair has its row; whether it was the block's last."""
        with self._lock:
            if finding:
                self._found.add(finding)
            self._pairs -= 1
            return self._pairs == 0

    def leave(self, platform: str) -> bool:
        """One pair is left out because the budget is spent; whether it was the block's last."""
        with self._lock:
            self._left[platform] += 1
        return self.finish()

    @property
    def empty(self) -> bool:
        return self._pairs == 0

    @property
    def found(self) -> list[str]:
        with self._lock:
            return sorted(self._found)

    def row(self, shard: Shard, *, finished: bool) -> dict[str, Any]:
        """The block's row in the store."""
        refused = sorted(self.selection.refused.items())
        with self._lock:
            return {
                "block": self.number,
                "shard": str(shard),
                "cases": self.cases,
                "features": self.selection.features,
                "given": dict(self.selection.given),
                "left_out": dict(self._left),
                "refused": [{"platform": p, "reason": reason, "count": count} for (p, reason), count in refused],
                "found": sorted(self._found),
                "seconds": time.monotonic() - self._started if finished else None,
            }


class Saturation:
    """How many blocks in a row brought nothing new: no feature, no signature of a failure, no culprit.

    Blocks are looked at in the order of their numbers, whichever ends first.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = iter(numbers)
        self._next = next(self._numbers, None)
        self._waiting: dict[int, tuple[bool, Iterable[str]]] = {}
        self._known: set[str] = set()
        self.idle = 0

    def add(self, number: int, features: Iterable[str], found: Iterable[str]) -> None:
        """A finished block."""
        self._waiting[number] = (any(True for _ in features), list(found))
        while self._next in self._waiting:
            covered, keys = self._waiting.pop(self._next)
            new = covered or not self._known.issuperset(keys)
            self._known.update(keys)
            self.idle = 0 if new else self.idle + 1
            self._next = next(self._numbers, None)
