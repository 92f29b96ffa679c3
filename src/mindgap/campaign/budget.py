"""Processor time of workers, the compilers that they start included, and how much of it a block may take."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import psutil


def cpu_seconds(pid: int | None) -> float:
    """Of a process, of its children that have ended, and of its descendants that run; 0 where there is none."""
    if pid is None:
        return 0.0
    total = 0.0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += sum(each.cpu_times()[:4])
    return total


class Meter:
    """What one worker's processes take from one reading to the next, whether it is replaced in between or not."""

    def __init__(self, pid: Callable[[], int | None]) -> None:
        self._pid = pid
        self._last = (pid(), cpu_seconds(pid()))

    def read(self) -> float:
        """Seconds since the last reading. A new process counts from its start; what the old one took last is lost."""
        pid = self._pid()
        now = cpu_seconds(pid)
        was_pid, was = self._last
        self._last = (pid, now)
        return max(0.0, now - was if pid == was_pid else now)


class Budget:
    """Processor seconds for a whole campaign, spread evenly over its blocks; what one leaves, later ones have."""

    def __init__(self, seconds: float, blocks: int, spent: float = 0.0) -> None:
        self._seconds, self._blocks, self.spent = seconds, max(blocks, 1), spent

    def left(self, position: int) -> float:
        """What the block at `position` (from 0) among all may still take."""
        return self._seconds * min(position + 1, self._blocks) / self._blocks - self.spent
