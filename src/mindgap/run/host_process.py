"""Controls one worker process on a host, through the connection to it.

The deadline counts from when the worker has the request until it sends the answer: how long bytes travel is no fact of
a platform. A host without a sign of life is lost, which is no fact of a platform either. Memory is limited there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Final, Literal

from mindgap.platforms.environments.host_connection import HANGING_UP_S, HostLink, are_seconds, patience_s, silence
from mindgap.platforms.environments.host_worker import BEAT_S
from mindgap.run.channel import ChannelError, Frame
from mindgap.run.child_process import ChildProcess, readable
from mindgap.run.message import WorkerFailed
from mindgap.run.process import QUIET_S, RequestLimits, WorkerProcess

#: How long a host may take to tell how a process there ended.
_TELLING_S: Final = 3.0


class HostProcess(WorkerProcess):
    """A running worker on a host. `process`: of the connection. `link`: what came through it."""

    _runs_here = False

    def __init__(self, process: ChildProcess, link: HostLink) -> None:
        super().__init__(process)
        self.link = link
        #: What the exchange waits for.
        self.phase: Literal["sending", "computing", "answering"] = "computing"
        self._latest = math.inf

    @property
    def _package(self) -> str:
        return str(self.link.greeting.get("package", ""))

    def stop(self) -> None:
        """Ends the connection. What runs on the host has a second to tidy up. May be called again."""
        if not self._process.reaped:
            self._process.hang_up()
            self._running_after(HANGING_UP_S)
        super().stop()

    def memory_bytes(self) -> int:
        """Returns 0: the worker's memory is read where it runs."""
        return 0

    def _begun(self, pending: Sequence[memoryview], now: float, limits: RequestLimits) -> float:
        # What a host has not got yet it cannot answer: clocks tell when the deadline begins and ends.
        size = sum(map(len, pending))
        self.link.heard = self.link.moved = now
        self.link.sent, self.link.in_flight = self.link.sent + size, size
        self.phase = "sending" if pending else "computing"
        self._latest = math.inf if limits.until is None else limits.until
        return self._latest if pending else min(now + limits.deadline_s, self._latest)

    def _written(self, fd: int, pending: list[memoryview]) -> list[memoryview]:
        rest = super()._written(fd, pending)
        if rest is not pending:
            self.link.moved = time.monotonic()
        return rest

    def _deadline(self, frame: Frame, limits: RequestLimits) -> float:
        """Notes that the host has the request, or that its answer leaves."""
        self.link.in_flight = 0
        self.phase = "computing" if frame.header["clock"] == "start" else "answering"
        return min(time.monotonic() + limits.deadline_s if self.phase == "computing" else math.inf, self._latest)

    def _pulled(self) -> Frame | None:
        before = self._reader.received
        frame = super()._pulled()
        self.link.alive(self._reader.received - before)
        self.link.moved = self.link.heard
        if frame is not None and "cpu" in frame.header:
            if not are_seconds(frame.header["cpu"]):
                raise ChannelError("processor seconds that are no number")
            self._cpu_total = max(self._cpu_total, frame.header["cpu"])
        return frame

    def _check_limits(self, limits: RequestLimits, cpu_until: float | None) -> None:
        if self.link.silent:
            raise self._lost(silence())
        if self.phase != "computing" and self.link.stalled(limits.deadline_s):
            seconds = patience_s(limits.deadline_s)
            if self.phase == "sending":  # without the request, the worker showed nothing
                raise self._lost(f"the worker there has read nothing for {seconds:g} s")
            raise self._timed_out(f"nothing came of an answer for {seconds:g} s")
        super()._check_limits(limits, cpu_until)

    def _read_cpu(self) -> None:
        """A host sends its worker's processor time with each answer, and when it has ended."""
        self._cpu_total = max(self._cpu_total, (self.link.ended or {}).get("cpu", 0.0))

    def _timed_out(self, words: str) -> WorkerFailed:
        self._process.hang_up()
        if not self._has_reported_end() and time.monotonic() - self.link.heard > 3 * BEAT_S:
            return self._lost(silence())
        self.stop()
        return WorkerFailed("timeout", f"{words}, while {self.stage}", self.tail, stage=self.stage)

    def _died(self) -> WorkerFailed:
        """Returns the error that describes why the worker ended, or that its connection was lost."""
        self._has_reported_end()
        if self.link.ended is None:
            last = self.tail.splitlines()[-1:] or ["nothing says why"]
            return self._lost(f"the connection was lost: {last[0]}")
        self.stop()
        return self._ended(self.link.ended["status"], self.link.ended["oom"])

    def _has_reported_end(self) -> bool:
        """Waits for the host to tell how the process there ended. Returns whether it did."""
        until = time.monotonic() + _TELLING_S
        while self._stderr_open and self.link.ended is None and time.monotonic() < until:
            if readable(self._stderr, QUIET_S):
                self._take_stderr()
        return self.link.ended is not None

    def _lost(self, why: str) -> WorkerFailed:
        self.stop()
        message = f"host {self.link.host.name}: {why}, while {self.stage}"
        return WorkerFailed("crash", message, self.tail, lost=True, stage=self.stage)

    def _without_records(self, data: bytes) -> bytes:
        self.link.alive(len(data))
        return self.link.without_records(data)
