"""Measures the processor time of one worker, including the compilers that it starts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import psutil

from mindgap.run.cpu import seconds_of


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


def _cpu_seconds(pid: int | None) -> float:
    """Returns the seconds of a process, its ended children and its running descendants; 0 without a process."""
    if pid is not None:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            return seconds_of(process, process.children(recursive=True))
    return 0.0
