"""Processor seconds of processes."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

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


def waited_seconds(pid: int) -> float:
    """Returns for how many seconds the main thread of a process could have run, and others had the processors; 0 where
    the system does not tell (Documentation/scheduler/sched-stats.rst of Linux)."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _own_seconds(pid: int, otherwise: float) -> float:
    """Returns the process's own seconds, to the nanosecond; `otherwise` where the system counts hundredths only."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            # The clock that clock_getcpuclockid(3) gives for a process.
            return time.clock_gettime(~pid << 3 | 2)
    return otherwise


class CpuMeter:
    """Reads the processor seconds of one worker's processes between readings, across replacements of the worker."""

    def __init__(self, pid: Callable[[], int | None]) -> None:
        """`pid`: returns the worker's current process number, None if there is none."""
        self._pid = pid
        self._last = (pid(), _cpu_seconds(pid()))

    def read(self) -> float:
        """Returns the seconds since the last reading. After a replacement it counts the new process only."""
        pid = self._pid()
        now = _cpu_seconds(pid)
        was_pid, was = self._last
        self._last = (pid, now)
        return max(0.0, now - was if pid == was_pid else now)


class AccountMeter:
    """Reads the processor seconds of one platform's workers on a host, which come with their answers."""

    def __init__(self, account: CpuAccount, name: str) -> None:
        self._account, self._name = account, name
        self._last = account.of(name)

    def read(self) -> float:
        """Returns the seconds since the last reading, those of workers that have ended included."""
        was, self._last = self._last, self._account.of(self._name)
        return self._last - was


def _cpu_seconds(pid: int | None) -> float:
    """Returns the seconds of a process, its ended children and its running descendants; 0 without a process."""
    if pid is not None:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            return seconds_of(process, process.children(recursive=True))
    return 0.0
