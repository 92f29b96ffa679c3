"""Controls one worker process from its parent: start, requests with time and memory limits, stop.

Everything happens in one loop over the three pipes, none of which may block: a worker that prints
more than a pipe holds, does not read what it is sent, or neither answers nor dies, cannot hold up
its parent past the deadline. `host_process.HostProcess` is a worker on a host.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psutil

from mindgap.platforms.environments.host_worker import oom_kills
from mindgap.run.channel import Array, ChannelClosed, ChannelError, Frame, FrameReader, encode_frame, write_some
from mindgap.run.child_process import ChildProcess, SpawnedProcess, readable, widen
from mindgap.run.cpu import WaitMeter, seconds_of
from mindgap.run.message import OOM_EXIT, WorkerFailed
from mindgap.run.message_cleaning import telling_lines
from mindgap.run.source_files import PACKAGE
from mindgap.run.system import own_bytes

#: How often a busy worker's memory is looked at; its children's, a search through all processes, less often.
TICK_S: Final = 0.05
_TREE_S: Final = 1.0
#: How much of what a worker printed last is kept.
_TAIL: Final = 1 << 13
#: How long a hung worker has to print where it hangs.
_LAST_WORDS_S: Final = 0.3
QUIET_S: Final = 0.03
#: A request that takes less is not watched for other processes that have the processors.
_SHORT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of one request: seconds until the answer, bytes of resident memory (with child processes), processor
    seconds until the answer (without child processes). The deadline leaves out for how long other processes had the
    processors, where that is known. `until`: a moment of `time.monotonic` at which the request must be over, with all
    that its deadline leaves out."""

    deadline_s: float
    memory_bytes: int | None = None
    cpu_s: float | None = None
    until: float | None = None


class WorkerProcess:
    """A running worker. Not thread-safe: one request at a time."""

    #: Whether the worker competes for the processors of this machine.
    _runs_here = True

    def __init__(self, process: ChildProcess, illegal_instruction: str = "") -> None:
        """`illegal_instruction`: what a death by SIGILL means there, where something can be done about it."""
        self._illegal_instruction = illegal_instruction
        self._oom_kills = oom_kills()
        self._process = process
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        for fd in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(fd, False)
        widen(self._stdin, self._stdout)
        self._reader = FrameReader(self._stdout)
        self._tail = bytearray()
        self._stderr_open = True
        self._watched: psutil.Process | None = None
        self._tree_seen = 0.0
        self._children: list[psutil.Process] = []
        self._cpu_total = self._cpu_reported = 0.0
        self.pid = process.pid
        self.stage = "starting"
        self.jobs = 0

    @property
    def alive(self) -> bool:
        return not self._process.reaped and self._process.running()

    @property
    def tail(self) -> str:
        """Returns the last lines that the worker printed, to either stream."""
        return "\n".join(telling_lines(self._tail.decode(errors="replace").splitlines(), self._package)).strip()

    @property
    def _package(self) -> str:
        """The folder of mindgap's code where the process runs."""
        return PACKAGE

    def printed(self) -> str:
        """Returns what the worker printed since the last call, at most its last 8 KiB."""
        self._drain_stderr()
        text = self._tail.decode(errors="replace")
        self._tail.clear()
        return text

    def ask(self, header: Mapping[str, Any], arrays: Sequence[Array], limits: RequestLimits) -> Frame:
        """Sends a request and returns the answer. Raises `WorkerFailed`, after which the process has ended."""
        return self._exchange(encode_frame(header, arrays), limits)

    def listen(self, limits: RequestLimits) -> Frame:
        """Waits for the next frame. Raises `WorkerFailed`, after which the process has ended."""
        return self._exchange([], limits)

    def stop(self) -> None:
        """Kills the process and all that it started, and reaps it. May be called again."""
        if not self._process.reaped:
            self._process.kill_group()
            self._process.kill()
            self._reap()
        self._process.close_pipes()

    def _exchange(self, pending: list[memoryview], limits: RequestLimits) -> Frame:
        started = time.monotonic()
        until = self._begun(pending, started, limits)
        cpu_until = None if limits.cpu_s is None else self.cpu_seconds() + limits.cpu_s
        waits: WaitMeter | None = None
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        if self._stderr_open:
            poll.register(self._stderr, select.POLLIN)
        if pending:
            poll.register(self._stdin, select.POLLOUT)
        next_look = started + TICK_S
        try:
            while True:
                now = time.monotonic()
                if now > until:
                    if waits is not None:
                        waits.look(last=True)
                        end = started + limits.deadline_s + waits.seconds
                        until = end if limits.until is None else min(end, limits.until)
                    if now > until:
                        raise self._timed_out(f"no answer within {limits.deadline_s:g} s")
                if now >= next_look:
                    self._check_limits(limits, cpu_until)
                    if waits is not None:
                        waits.look()
                    elif self._runs_here and now > started + _SHORT_S:
                        waits = WaitMeter(self.pid)
                    next_look = now + TICK_S
                wait_s = min(next_look - now, until - now)
                for fd, _ in poll.poll(max(1, int(wait_s * 1000))):
                    if fd == self._stderr:
                        self._take_stderr(poll)
                    elif fd == self._stdin:
                        pending = self._written(fd, pending)
                        if not pending:
                            poll.unregister(fd)
                    elif (frame := self._pulled()) is not None:
                        if "clock" in frame.header:
                            until = self._deadline(frame, limits)
                        elif "stage" in frame.header:
                            self.stage = str(frame.header["stage"])
                        else:
                            return frame
        except ChannelClosed:
            raise self._died() from None
        except ChannelError as error:
            self._drain_stderr()
            self.stop()
            raise WorkerFailed("crash", f"garbage on the channel: {error}", self.tail) from None
        except BaseException:
            # Interrupted in the middle of an exchange: its next frame would be taken for another answer.
            self.stop()
            raise

    def _begun(self, pending: Sequence[memoryview], now: float, limits: RequestLimits) -> float:
        """Notes that an exchange begins. Returns the moment of its deadline."""
        return now + limits.deadline_s

    def _written(self, fd: int, pending: list[memoryview]) -> list[memoryview]:
        """Writes what the pipe takes. Returns what is left."""
        return write_some(fd, pending)

    def _deadline(self, frame: Frame, limits: RequestLimits) -> float:
        """Returns the moment of the deadline by a frame with a clock, which workers on hosts send."""
        raise ChannelError("a clock, which no worker on this machine sends")

    def _pulled(self) -> Frame | None:
        """Reads what is there. Returns a frame if one is complete."""
        return self._reader.pull()

    def kill(self) -> None:
        """Kills the process from another thread. The thread that waits for an answer then gets `WorkerFailed`."""
        self._process.kill()

    def _check_limits(self, limits: RequestLimits, cpu_until: float | None) -> None:
        """Does the slow checks: death without a closed pipe, memory limit, processor time limit."""
        # A child that inherited the pipe keeps it open; what the worker wrote before it died is still read.
        if not self._process.running() and not readable(self._stdout, 0.0):
            raise ChannelClosed
        if cpu_until is not None and limits.cpu_s is not None and self.cpu_seconds() > cpu_until:
            raise self._timed_out(f"no answer within {limits.cpu_s:g} s of processor time")
        if limits.memory_bytes is not None and (used := self.memory_bytes()) > limits.memory_bytes:
            self._drain_stderr()
            self.stop()
            message = f"out of memory: {used >> 20} MiB resident where {limits.memory_bytes >> 20} MiB are allowed"
            raise WorkerFailed("oom", f"{message}, while {self.stage}", self.tail, stage=self.stage)

    def memory_bytes(self) -> int:
        """Returns the resident bytes of the worker and its child processes (up to 1 s old) that no file backs: mapped
        weights do not count. 0 after its end."""
        try:
            if self._watched is None:
                self._watched = psutil.Process(self.pid)
            used = own_bytes(self.pid)
            now = time.monotonic()
            if now - self._tree_seen > _TREE_S:
                self._tree_seen = now
                self._children = self._watched.children(recursive=True)
            for child in self._children:
                with contextlib.suppress(psutil.Error):
                    used += own_bytes(child.pid)
            return used
        except psutil.Error:
            return 0

    def cpu_seconds(self) -> float:
        """Returns the worker's user and system seconds since its start; 0 after its end."""
        try:
            if self._watched is None:
                self._watched = psutil.Process(self.pid)
            times = self._watched.cpu_times()
            return float(times.user + times.system)
        except psutil.Error:
            return 0.0

    def spent(self) -> float:
        """Returns the processor seconds of the worker and its children since the last call, also after its end."""
        self._read_cpu()
        since, self._cpu_reported = self._cpu_total - self._cpu_reported, self._cpu_total
        return since

    def _read_cpu(self) -> None:
        """Reads the processor time so far. The time of an ended child that was not waited for may be lost."""
        with contextlib.suppress(psutil.Error):
            if self._watched is None:
                self._watched = psutil.Process(self.pid)
            self._cpu_total = max(self._cpu_total, seconds_of(self._watched, self._children))

    def _reap(self) -> int:
        """Waits for the process to end, reads its total processor time, and reaps it. Returns the exit status."""
        self._process.wait()
        self._read_cpu()
        return self._process.reap()

    def _timed_out(self, words: str) -> WorkerFailed:
        """Makes a hung worker print its Python stack, then ends it."""
        with contextlib.suppress(ProcessLookupError, AttributeError):
            os.kill(self.pid, signal.SIGUSR1)
        self._drain_stderr(_LAST_WORDS_S)
        self.stop()
        return WorkerFailed("timeout", f"{words}, while {self.stage}", self.tail, stage=self.stage)

    def _died(self) -> WorkerFailed:
        """Returns the error that describes why the process ended."""
        self._drain_stderr()
        hung_up = self._running_after(1.0)
        self._process.kill_group()
        code = self._reap()
        self._drain_stderr()
        self.stop()
        if hung_up:
            return WorkerFailed("crash", f"closed its channel while {self.stage}", self.tail, stage=self.stage)
        return self._ended(code, code == -signal.SIGKILL and oom_kills() > self._oom_kills)

    def _running_after(self, seconds: float) -> bool:
        """Waits for the process to end. Returns whether it still runs."""
        deadline = time.monotonic() + seconds
        while (running := self._process.running()) and time.monotonic() < deadline:
            time.sleep(0.002)
        return running

    def _ended(self, code: int, oom: bool) -> WorkerFailed:
        """Returns the error of a worker that ended with an exit status, or -N of signal N."""
        if code == OOM_EXIT or oom:
            return WorkerFailed("oom", f"out of memory while {self.stage}", self.tail, stage=self.stage)
        if code >= 0:
            return WorkerFailed("crash", f"exited with status {code} while {self.stage}", self.tail, stage=self.stage)
        outside = -code in (signal.SIGKILL, signal.SIGTERM)
        name = _signal_name(-code)
        if -code == signal.SIGILL:
            name += f" ({self._illegal_instruction or 'an instruction that the processor lacks'})"
        message = f"killed by {name} while {self.stage}"
        return WorkerFailed("crash", message, self.tail, outside=outside, stage=self.stage)

    def _take_stderr(self, poll: select.poll | None = None) -> None:
        try:
            got = os.read(self._stderr, 1 << 16)
        except BlockingIOError:
            return
        if not got:
            self._stderr_open = False
            if poll is not None:
                poll.unregister(self._stderr)
        self._tail += self._without_records(got)
        del self._tail[:-_TAIL]

    def _without_records(self, data: bytes) -> bytes:
        """Returns what the worker printed, of what came on standard error."""
        return data

    def _drain_stderr(self, wait_s: float = 0.0) -> None:
        """Reads standard error until it is quiet for `wait_s`; does not wait for a child that goes on printing."""
        until = time.monotonic() + _LAST_WORDS_S
        while self._stderr_open and time.monotonic() < until and readable(self._stderr, wait_s):
            self._take_stderr()
            wait_s = min(wait_s, QUIET_S)


def spawned(command: Sequence[str], environment: Mapping[str, str], illegal_instruction: str = "") -> WorkerProcess:
    """Starts a worker by its command line. Raises OSError if it cannot be started. `illegal_instruction`: as of
    `WorkerProcess`."""
    return WorkerProcess(SpawnedProcess.start(command, environment), illegal_instruction=illegal_instruction)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
