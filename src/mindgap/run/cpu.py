"""Processor seconds of processes."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import psutil

from mindgap.run.outcome import Purpose


class CpuAccount:
    """Sums processor seconds by purpose and by platform (or judge). Thread-safe."""

    def __init__(self) -> None:
        self._seconds: defaultdict[tuple[Purpose, str], float] = defaultdict(float)
        self._lock = threading.Lock()

    def add(self, purpose: Purpose, name: str, seconds: float) -> None:
        """Adds the `seconds` that the worker of `name` spent."""
        with self._lock:
            self._seconds[purpose, name] += seconds

    def snapshot(self) -> Mapping[tuple[Purpose, str], float]:
        """Returns the sums so far."""
        with self._lock:
            return dict(self._seconds)

    def of(self, name: str) -> float:
        """Returns the sum of the platform or judge `name`, for all purposes."""
        return sum(seconds for (_, each), seconds in self.snapshot().items() if each == name)


def seconds_of(process: psutil.Process, children: Iterable[psutil.Process] = ()) -> float:
    """Returns the processor seconds of a process, of the children that it has waited for, and of `children`.

    User and system time. A process that has ended counts until its parent waits for it; then it gives 0.
    """
    total = 0.0
    for each in (process, *children):
        with contextlib.suppress(psutil.Error):
            times = each.cpu_times()
            total += _own_seconds(each.pid, times.user + times.system) + times.children_user + times.children_system
    return total


class _State(NamedTuple):
    """`spent`, `busy`: processor seconds of a process with its descendants, and of all processes. `waits`: for how long
    each thread of the former has waited, by process and thread. `cores`: on how many processors it may run."""

    time: float
    spent: float
    busy: float
    waits: dict[tuple[int, int], float]
    cores: int


class WaitMeter:
    """Sums for how many seconds a process and its descendants could have run, and other processes had the processors.

    Of each interval between two looks this is how long that thread waited for a processor that waited longest
    (Documentation/scheduler/sched-stats.rst of Linux). It is no more than these processes left of the interval, as
    threads of one program wait for each other too, and no more than the processor seconds that others used. What ends
    before a look is not seen. 0 where the system does not tell.
    """

    def __init__(self, pid: int, every_s: float = 1.0) -> None:
        """Begins to count now."""
        self._pid, self._every_s = pid, every_s
        self._next = time.monotonic() + every_s
        self._before = self._state()
        self.seconds = 0.0

    def look(self, *, last: bool = False) -> None:
        """Adds what was waited since the last look, unless that is less than `every_s` seconds ago. `last`: in any
        case."""
        if time.monotonic() < self._next and not last:
            return
        self._next = time.monotonic() + self._every_s
        before, now = self._before, self._state()
        self._before = now
        if before is None or now is None:
            return
        spent = max(now.spent - before.spent, 0.0)
        longest = max((seconds - before.waits.get(key, 0.0) for key, seconds in now.waits.items()), default=0.0)
        left = now.time - before.time - spent / now.cores
        self.seconds += max(min(longest, left, now.busy - before.busy - spent), 0.0)

    def _state(self) -> _State | None:
        """The state now. None where it is unknown."""
        if sys.platform != "linux":
            return None
        with contextlib.suppress(psutil.Error, OSError):
            process = psutil.Process(self._pid)
            children = process.children(recursive=True)
            waits: dict[tuple[int, int], float] = {}
            for each in (process, *children):
                waits |= _waits_of(each.pid)
            every = psutil.cpu_times()
            # Guests are counted among the users already.
            busy = every.user + every.nice + every.system + every.irq + every.softirq + every.steal
            cores = len(os.sched_getaffinity(self._pid))
            return _State(time.monotonic(), seconds_of(process, children), busy, waits, cores)
        return None


def _waits_of(pid: int) -> dict[tuple[int, int], float]:
    """Returns for how many seconds each thread of a process could have run, and others had the processors."""
    waits: dict[tuple[int, int], float] = {}
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with (
                contextlib.suppress(OSError, ValueError, IndexError),
                open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file,
            ):
                waits[pid, int(thread)] = int(file.read().split()[1]) / 1e9
    return waits


def _own_seconds(pid: int, otherwise: float) -> float:
    """Returns the process's own seconds, to the nanosecond; `otherwise` where the system counts hundredths only."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            # The clock that clock_getcpuclockid(3) gives for a process.
            return time.clock_gettime(~pid << 3 | 2)
    return otherwise


class CpuMeter:
    """Reads the processor seconds of one platform's workers from an account, which each answer adds to."""

    def __init__(self, account: CpuAccount, name: str) -> None:
        self._account, self._name = account, name
        self._last = account.of(name)

    def read(self) -> float:
        """Returns the seconds since the last reading, those of workers that have ended included."""
        was, self._last = self._last, self._account.of(self._name)
        return self._last - was
