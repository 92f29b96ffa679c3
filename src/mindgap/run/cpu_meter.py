"""Measures the processor time of one worker, including the compilers that it starts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import psutil

from mindgap.run.cpu import seconds_of


class CpuMeter:
    """Reads the processor seconds of one worker's processes between readings, across replacements of the worker."""

    def __init__(self, pid: Callable[[], int | None]) -> None:
        """`pid` gives the worker's process number at the moment, None where there is none."""
        self._pid = pid
        self._last = (pid(), _cpu_seconds(pid()))

    def read(self) -> float:
        """Seconds since the last reading. A new process counts from its start; the last seconds of the old one are
        lost."""
        pid = self._pid()
        now = _cpu_seconds(pid)
        was_pid, was = self._last
        self._last = (pid, now)
        return max(0.0, now - was if pid == was_pid else now)


def _cpu_seconds(pid: int | None) -> float:
    """Of a process, its children that have ended, and its running descendants; 0 where there is no process."""
    if pid is not None:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            return seconds_of(process, process.children(recursive=True))
    return 0.0
