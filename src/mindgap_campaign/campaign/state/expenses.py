"""Accounts for the processor seconds of a campaign by purpose, besides the operating system's count."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import psutil

from mindgap.results.store import Store
from mindgap.run.cpu import CpuAccount, seconds_of

_T = TypeVar("_T")

#: The purposes of this process, besides those of worker processes (`mindgap.run.outcome.Purpose`).
PREPARING: Final = "preparing"
DRAWING: Final = "drawing variants"
DRIVER: Final = "driver"
#: The row that holds the operating system's figure.
SYSTEM: Final = "operating system"
_ROWS: Final = """
SELECT purpose, platform, sum(seconds) AS seconds FROM expenses WHERE run = ? GROUP BY ALL ORDER BY seconds DESC
"""


@dataclass(frozen=True)
class CpuSpent:
    """Processor seconds of all sessions of a campaign that recorded them.

    `purposes`: seconds by purpose: `preparing` (making the pool of regions), `asking` (the support survey), `starting`
    (workers and judges), `running`, `judging` (judges and their jobs), `drawing variants`, `driver` (scheduling,
    recording). `platforms`: seconds of workers and judges, by purpose and platform. `system`: the operating system's
    count for all processes.
    """

    purposes: Mapping[str, float] = field(default_factory=dict[str, float])
    platforms: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    system: float = 0.0

    @property
    def unaccounted(self) -> float:
        """Returns the seconds that the operating system counts and no purpose explains."""
        return self.system - sum(self.purposes.values())


class Expenses:
    """Counts the processor seconds of one session. Thread-safe."""

    def __init__(self, *, whole_process: bool = False) -> None:
        """`whole_process`: count from the start of this process, imports included, not from now."""
        self.session = f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {os.getpid()}"
        self._own, self._all = (0.0, 0.0) if whole_process else (time.process_time(), system_seconds())
        self._parts: defaultdict[str, float] = defaultdict(float)
        self._other_processes = 0.0
        self._lock = threading.Lock()

    @contextmanager
    def preparing(self) -> Generator[None]:
        """Charges the processor time of this process and of ended child processes. One thread at a time."""
        own, ended = time.process_time(), _ended_children()
        try:
            yield
        finally:
            mine = time.process_time() - own
            with self._lock:
                self._parts[PREPARING] += mine + _ended_children() - ended
                self._other_processes += mine

    def drawing(self, draw: Callable[[], _T]) -> _T:
        """Calls `draw` and charges the processor time of this thread."""
        before = time.thread_time()
        try:
            return draw()
        finally:
            taken = time.thread_time() - before
            with self._lock:
                self._parts[DRAWING] += taken
                self._other_processes += taken

    def rows(self, run: str, account: CpuAccount) -> list[dict[str, Any]]:
        """Returns rows of the table `expenses` for the session so far. `account`: that of its workers."""
        with self._lock:
            parts = {(purpose, ""): seconds for purpose, seconds in self._parts.items()}
            parts[DRIVER, ""] = time.process_time() - self._own - self._other_processes
        parts[SYSTEM, ""] = system_seconds() - self._all
        parts |= {(str(purpose), name): seconds for (purpose, name), seconds in account.snapshot().items()}
        return [
            {"run": run, "session": self.session, "purpose": purpose, "platform": name, "seconds": seconds}
            for (purpose, name), seconds in parts.items()
        ]


def system_seconds() -> float:
    """Returns the kernel's count of processor seconds of this process and its descendants, ended ones included.

    Not counted: a process that ended after its parent.
    """
    me = psutil.Process()
    return time.process_time() + _ended_children() + sum(seconds_of(child) for child in me.children(recursive=True))


def spent(store: Store, run: str) -> CpuSpent:
    """Adds up the expenses of all sessions of a run."""
    purposes: defaultdict[str, float] = defaultdict(float)
    platforms: dict[str, dict[str, float]] = {}
    system = 0.0
    for row in store.rows(_ROWS, [run]):
        if row["purpose"] == SYSTEM:
            system += row["seconds"]
            continue
        purposes[row["purpose"]] += row["seconds"]
        if row["platform"]:
            platforms.setdefault(row["purpose"], {})[row["platform"]] = row["seconds"]
    return CpuSpent(dict(sorted(purposes.items(), key=lambda each: -each[1])), platforms, system)


def lines_of(found: CpuSpent) -> list[str]:
    """Formats the expenses as lines; none if no session recorded any."""
    if not found.system:
        return []
    parts = ", ".join(f"{seconds:,.1f} {purpose}" for purpose, seconds in found.purposes.items())
    share = found.unaccounted / found.system
    lines = [
        f"CPU seconds: {parts}; {found.system:,.1f} in all by the operating system ({share:.0%} of it unaccounted)"
    ]
    for purpose, platforms in found.platforms.items():
        listed = ", ".join(f"{seconds:,.1f} {name}" for name, seconds in platforms.items())
        lines.append(f"  {purpose}: {listed}")
    return lines


def _ended_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
