"""Client of one worker process: starts it on demand, sends requests, replaces it after a failure, accounts its time.

`WorkerSupervisor` adds what platforms need: back-off, platforms that are given up, graphs that the worker keeps.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from mindgap.platforms.environments import Environment, Host, HostProblem
from mindgap.platforms.environments.host_connection import HostConnection, Order, module_there
from mindgap.platforms.environments.host_worker import MEMORY, PARENT, PROTOCOL
from mindgap.run import forking
from mindgap.run.channel import Array, Frame
from mindgap.run.child_process import SpawnedProcess
from mindgap.run.cpu import CpuAccount
from mindgap.run.host_process import HostProcess
from mindgap.run.message import WorkerFailed
from mindgap.run.outcome import Purpose
from mindgap.run.process import RequestLimits, WorkerProcess, spawned

T = TypeVar("T")

#: The module that every worker process runs.
SERVER: Final = "mindgap.run.server"
#: A request that is sent gets this many seconds, however little time is left for it.
LEAST_S: Final = 0.05
#: Decides whether a request that ended its process is sent once more, to a new one. `fresh`: it was the first request.
Retry = Callable[[WorkerFailed, bool], bool]


def never(failed: WorkerFailed, fresh: bool) -> bool:
    """Sends no request twice."""
    return False


def if_doubtful(failed: WorkerFailed, fresh: bool) -> bool:
    """Tries again where earlier requests may have damaged the process, or it was killed from outside. Not after a
    timeout: a second try would cost the deadline again."""
    return failed.fault != "timeout" and (failed.outside or failed.lost or not fresh)


class Lock(Protocol):
    """What serialises the requests of a client that several threads use."""

    def acquire(self, *, timeout: float) -> bool: ...

    def release(self) -> None: ...


class CannotOpen(WorkerFailed):
    """The worker could not be started, or reports why its service cannot be opened. `permanent`: another try cannot
    succeed. `ours`: the message is complete, and written for users. `wrong_use`: of a name, option or value."""

    def __init__(self, message: str, *, permanent: bool, ours: bool = True, wrong_use: bool = False) -> None:
        super().__init__("crash", message)
        self.permanent, self.ours, self.wrong_use = permanent, ours, wrong_use


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """How a worker process is started.

    `service`: the function that opens its service (`mindgap.run.server`). `variables`: its environment variables, by
    default those of this process as they are now; on a host, those that are set there besides its own. `where`: the
    environment or host in which it runs, None for mindgap's own.
    `forks`: it may come from the fork server. `starter`: a thread that outlives the caller's, with which the process
    would die.
    """

    service: str
    variables: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    where: Environment | Host | None = None
    forks: bool = False
    starter: ThreadPoolExecutor | None = None

    def process(
        self, options: Mapping[str, Any], limits: RequestLimits, cancelled: Callable[[], bool]
    ) -> WorkerProcess:
        """Starts it. Raises OSError if that fails, and `HostProblem`."""
        if isinstance(self.where, Host):
            options_given = [self.service, "--parent", PARENT, "--options", json.dumps(dict(options)), "--remote"]
            command = module_there(SERVER, *options_given, "--memory-limit", MEMORY)
            made = HostConnection(self.where, Order(command, self.variables), limits.deadline_s, cancelled)
            return HostProcess(SpawnedProcess(made.process), made.link)
        arguments = [self.service, "--parent", str(os.getpid()), "--options", json.dumps(dict(options))]
        if limits.memory_bytes is not None:
            arguments += ["--memory-limit", str(limits.memory_bytes)]
        if self.forks and self.where is None:
            forked = forking.forked(SERVER, arguments, self.variables, limits.deadline_s, cancelled)
            if forked is not None:
                return WorkerProcess(forked)
        command = [sys.executable, "-P", "-m", SERVER] if self.where is None else self.where.command(SERVER)
        illegal = "" if self.where is None else self.where.illegal_instruction
        if self.starter is None:
            return spawned([*command, *arguments], self.variables, illegal)
        return self.starter.submit(spawned, [*command, *arguments], self.variables, illegal).result()


class WorkerClient:
    """One worker process, replaced by the next request after it died. Not thread-safe, except for `kill`."""

    def __init__(
        self, start: WorkerStart, options: Mapping[str, Any], limits: RequestLimits, account: CpuAccount | None = None,
        name: str = "", purpose: Purpose = "running",
    ) -> None:  # fmt: skip
        """`options`: of the service, as JSON. `limits`: until it is ready; it ends itself at `limits.memory_bytes`.

        `account`: charged for the processor time of `name`, as a rule for `purpose`.
        """
        if start.forks and start.where is None:
            forking.begin()
        self._start = start
        self._purpose: Purpose = purpose
        self._account, self._name = account or CpuAccount(), name
        #: Of processes that start from now on.
        self.options, self.limits = dict(options), limits
        #: The process that runs now.
        self.process: WorkerProcess | None = None
        #: What the latest process sent when it was ready.
        self.about: Mapping[str, Any] = {}
        #: Processor seconds without those of starting; the caller sets it back.
        self.spent = 0.0
        self.closing = False

    @property
    def pid(self) -> int | None:
        """The id of the running process, None without one."""
        worker = self.process
        return None if worker is None else worker.pid

    def started(self, until: float | None = None) -> WorkerProcess:
        """Returns the running process, or starts one. Raises `WorkerFailed`, of the kind `CannotOpen` where the process
        itself has the reason. `until`: a moment of `time.monotonic` at which it must be ready, for any `limits`."""
        if self.process is not None and self.process.alive:
            return self.process
        self.close()
        seconds = self.limits.deadline_s
        until = time.monotonic() + seconds if until is None else min(until, time.monotonic() + seconds)
        try:
            self.about = self._opened(until)
        except WorkerFailed:
            self.close("starting")
            raise
        self.charge("starting")
        assert self.process is not None
        return self.process

    def _opened(self, until: float) -> Mapping[str, Any]:
        memory = self.limits.memory_bytes
        try:
            within = RequestLimits(until - time.monotonic(), memory)
            self.process = self._start.process(self.options, within, lambda: self.closing)
        except OSError as error:
            raise CannotOpen(f"the worker cannot be started: {error}", permanent=True) from error
        except HostProblem as error:
            raise WorkerFailed("crash", str(error), lost=True) from error
        header = self.process.listen(RequestLimits(max(until - time.monotonic(), LEAST_S), memory)).header
        if header.get("kind") == "failed":
            raise CannotOpen(
                str(header.get("message")), permanent=bool(header.get("permanent")),
                ours=bool(header.get("ours", True)), wrong_use=bool(header.get("wrong_use")),
            )  # fmt: skip
        if header.get("kind") != "ready" or header.get("protocol") != PROTOCOL:
            raise CannotOpen("the worker speaks another version of the protocol than this mindgap", permanent=True)
        if not isinstance(header.get("description", {}), dict) or not isinstance(header.get("fingerprint", ""), str):
            raise CannotOpen("the worker does not describe its platform", permanent=True)
        return header

    def attempt(
        self, work: Callable[[WorkerProcess], T], retry: Retry = never, purpose: Purpose | None = None,
        ready: Callable[[], WorkerProcess] | None = None,
    ) -> T:  # fmt: skip
        """Does work with the running process, or a new one. A process that fails is ended.

        Raises `WorkerFailed`; the next request starts a new process. `purpose`: of its processor time. `ready`: gives
        the process, in place of `started`.
        """
        for may_retry in (True, False):
            worker = (ready or self.started)()
            fresh = worker.jobs == 0
            worker.jobs += 1
            try:
                return work(worker)
            except WorkerFailed as failed:
                self.close(purpose)
                if not may_retry or self.closing or not retry(failed, fresh):
                    raise
            finally:
                self.charge(purpose)
        raise AssertionError

    def ask(
        self, header: Mapping[str, object], arrays: Sequence[Array], limits: RequestLimits, stage: str = ""
    ) -> Frame:
        """Sends a request and returns the answer. Raises `WorkerFailed`; the next request starts a new process.

        `stage`: the words for it in the message of a failure.
        """

        def sent(worker: WorkerProcess) -> Frame:
            worker.stage = stage or str(header["kind"])
            return worker.ask(header, arrays, limits)

        return self.attempt(sent)

    def charge(self, purpose: Purpose | None = None) -> None:
        """Accounts the process's processor time since the last charge."""
        if self.process is not None:
            self._charge(self.process, purpose)

    def kill(self) -> None:
        """Ends the process from another thread. The thread that waits for an answer then gets `WorkerFailed`."""
        worker = self.process
        if worker is not None:
            worker.kill()

    def close(self, purpose: Purpose | None = None) -> None:
        """Stops the process. A later request starts another. `purpose`: of its last processor time."""
        worker, self.process = self.process, None
        if worker is not None:
            worker.stop()
            self._charge(worker, purpose)

    def pause(self, seconds: float) -> None:
        """Waits, unless another thread shuts it."""
        until = time.monotonic() + seconds
        while not self.closing and time.monotonic() < until:
            time.sleep(min(0.2, seconds))

    def shut(self, lock: Lock) -> None:
        """Ends the process from another thread, also in the middle of a request, and starts no other. `lock`: held by
        the thread that waits for an answer."""
        self.closing = True
        while not lock.acquire(timeout=0.05):
            self.kill()
        try:
            self.close()
        finally:
            lock.release()

    def _charge(self, worker: WorkerProcess, purpose: Purpose | None) -> None:
        seconds = worker.spent()
        self._account.add(purpose or self._purpose, self._name, seconds)
        self.spent += seconds if purpose != "starting" else 0.0
