"""Tracks one block of cases through the platforms, and detects when blocks bring nothing new."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mindgap.platforms.name import PlatformName
from mindgap.run.outcome import Outcome
from mindgap_campaign.campaign.cases.case import Case, Shard
from mindgap_campaign.campaign.schedule.selection import BlockSelection, together
from mindgap_campaign.campaign.state.resume_state import FinishedPair

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
        before: Mapping[str, Any] | None = None,
        references: Mapping[str, Outcome] | None = None,
    ) -> None:
        """`position`: the number of blocks of this shard before it. `resume_state`: pairs that have their rows.
        `before`: the row of a block that was finished before platforms were added. `references`: what the reference
        gave then, by case.
        """
        self._before, self.references = before, references or {}
        self.number, self.position, self.selection = number, position, selection
        self.cases = len(cases)
        self._resume_state = resume_state
        self._started = time.monotonic()
        #: The number of pairs of a case and a platform that runs it.
        self.pairs = sum(len(order) for order in selection.orders.values())
        self._pairs = self.pairs
        self._platforms_of: dict[int, list[PlatformName]] = {}
        for platform, order in selection.orders.items():
            for case in order:
                self._platforms_of.setdefault(case.index, []).append(platform)
        self._followed: Counter[tuple[str, str, str]] = Counter()
        self._found: set[str] = set()
        self._left: Counter[PlatformName] = Counter()
        self._lock = threading.Lock()

    def order(self, cases: Iterable[Case]) -> list[Case]:
        """Returns the cases that some platform runs, cases of one base together."""
        return together(case for case in cases if case.index in self._platforms_of)

    def platforms_of(self, case: Case) -> list[PlatformName]:
        """Returns the platforms that run the case."""
        return self._platforms_of[case.index]

    def known(self, case: Case, platform: PlatformName) -> FinishedPair | None:
        """Returns the pair's result from an earlier session; None if it has none."""
        return self._resume_state.get(case.name, {}).get(platform)

    def follows(self, platform: PlatformName, signature: str, op: str | None) -> bool:
        """Counts a failure of a platform, and returns whether it is among the first few of its kind, which are
        followed.

        `op`: the operator that the platform named. It distinguishes failures with one signature.
        """
        kind = platform, signature, op or ""
        with self._lock:
            self._followed[kind] += 1
            return self._followed[kind] <= _FOLLOWED

    def finish(self, finding: str = "") -> bool:
        """Counts one pair as done. Returns whether it was the block's last."""
        with self._lock:
            if finding:
                self._found.add(finding)
            self._pairs -= 1
            return self._pairs == 0

    def leave(self, platform: PlatformName) -> bool:
        """Counts one pair as left out because the budget is spent. Returns whether it was the block's last."""
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
        """Returns the block's row for the store."""
        refused = sorted(self.selection.refused.items())
        with self._lock:
            row = {
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
        return row if self._before is None else _joined(self._before, row)


def _joined(before: Mapping[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Returns the row of a block with that of its earlier platforms. What the cases cover was new only then."""
    return {
        **row,
        "features": before["features"],
        "given": {**(before["given"] or {}), **row["given"]},
        "left_out": {**(before["left_out"] or {}), **row["left_out"]},
        "refused": [*(before["refused"] or ()), *row["refused"]],
        "found": sorted({*(before["found"] or ()), *row["found"]}),
        "seconds": before["seconds"] + (row["seconds"] or 0.0),
    }


class Saturation:
    """Counts consecutive blocks without a new feature, failure signature or culprit (`idle`).

    Blocks count in the order of their numbers, not in the order in which they end.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = iter(numbers)
        self._next = next(self._numbers, None)
        self._waiting: dict[int, tuple[bool, Iterable[str]]] = {}
        self._known: set[str] = set()
        self.idle = 0

    def add(self, number: int, features: Iterable[str], found: Iterable[str]) -> None:
        """Adds a finished block."""
        self._waiting[number] = (any(True for _ in features), list(found))
        while self._next in self._waiting:
            covered, keys = self._waiting.pop(self._next)
            new = covered or not self._known.issuperset(keys)
            self._known.update(keys)
            self.idle = 0 if new else self.idle + 1
            self._next = next(self._numbers, None)
