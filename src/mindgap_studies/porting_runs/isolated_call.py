"""Runs a function in a forked process with limits: time, memory, size of files; an empty directory; no input.

The process that forks has imported a framework and used nothing of it, so that a child starts in milliseconds, and has
a runtime of its own. `run.process.WorkerProcess` watches the child as it watches a worker.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NoReturn

from mindgap.run.channel import send_frame
from mindgap.run.child_process import SpawnedProcess
from mindgap.run.message import WorkerFailed
from mindgap.run.process import RequestLimits, WorkerProcess
from mindgap.run.system import die_with

#: A child may not write larger files.
_FILE_BYTES: Final = 64 << 20

Tell = Callable[[Mapping[str, Any]], None]
Fault = Literal["", "crash", "time-out", "memory"]
_FAULTS: Final[Mapping[str, Fault]] = {"timeout": "time-out", "oom": "memory"}


@dataclass(frozen=True, slots=True)
class CallLimits:
    """`deadline_s`: wall-clock seconds. `memory_bytes`: resident bytes that no file backs."""

    deadline_s: float = 60.0
    memory_bytes: int = 4 << 30


@dataclass
class Ended:
    """How a child ended. `told`: what it reported, in order. `fault`: empty where it came to its end. `message`: one
    line about the fault."""

    told: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    fault: Fault = ""
    message: str = ""


def run_isolated(function: Callable[[Tell], None], limits: CallLimits) -> Ended:
    """Runs `function` in a child. It reports by calling its argument with what JSON can hold.

    The child has a temporary directory of its own as working directory, nothing on standard input, and is the leader of
    a process group that is killed as a whole at the end.
    """
    folder = tempfile.mkdtemp(prefix="mindgap-call-")
    worker = WorkerProcess(_ForkedProcess(function, folder))
    worker.stage = "running"
    ended = Ended()
    until = time.monotonic() + limits.deadline_s
    try:
        while (said := worker.listen(RequestLimits(until - time.monotonic(), limits.memory_bytes)).header) != _END:
            ended.told.append(said)
    except WorkerFailed as failed:
        ended.fault = _FAULTS.get(failed.fault, "crash")
        last = f": {failed.tail.splitlines()[-1].strip()}" if ended.fault == "crash" and failed.tail else ""
        ended.message = failed.message + last
        if ended.fault == "time-out":
            ended.message = f"no answer within {limits.deadline_s:g} s"
    finally:
        worker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return ended


#: The last report of a child that came to its end.
_END: Final = {"kind": "end"}


class _ForkedProcess(SpawnedProcess):
    """A forked child with pipes to this process."""

    def __init__(self, function: Callable[[Tell], None], folder: str) -> None:
        self.stdout, told = os.pipe()
        self.stderr, printed = os.pipe()
        self.stdin = os.open(os.devnull, os.O_WRONLY)
        self._status: int | None = None
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            for fd in (self.stdin, self.stdout, self.stderr):
                os.close(fd)
            _run_child(function, told, printed, folder, parent)
        os.close(told)
        os.close(printed)

    @property
    def reaped(self) -> bool:
        return self._status is not None

    def kill(self) -> None:
        if not self.reaped:
            os.kill(self.pid, signal.SIGKILL)

    def reap(self) -> int:
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status

    def close_pipes(self) -> None:
        for fd in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                os.close(fd)

    def hang_up(self) -> None:
        """Has nothing to close: the child reads nothing."""


def _run_child(function: Callable[[Tell], None], told: int, printed: int, folder: str, parent: int) -> NoReturn:
    status = 1
    try:
        os.setsid()
        die_with(parent)
        os.chdir(folder)
        for number, fd in enumerate((os.open(os.devnull, os.O_RDONLY), printed, printed)):
            os.dup2(fd, number)
        resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        function(lambda data: send_frame(told, dict(data), ()))
        send_frame(told, _END, ())
        status = 0
    except BaseException as error:  # what a function does wrong is data: the parent sees that there was no end
        with contextlib.suppress(OSError):
            os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="replace"))
    finally:
        os._exit(status)
