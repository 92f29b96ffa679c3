"""Starts workers from the fork server of this process (`run.fork_server`), which has imported PyTorch already.

One server serves all pools of a process, and ends with it. A worker is forked only if it would start in the same state
as the server did: environment variables, processors and resource limits, many of which act when a library is imported.
Every other worker is started by its command line, and the log has the reason.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mindgap.run.child_process import PRINTS_LAST_WORDS
from mindgap.run.fork_server import LONGEST

_log = logging.getLogger(__name__)

#: A server that answers no sooner has stopped. It forks, or reaps what has ended, in milliseconds.
_ANSWER_S: Final = 60.0
_TICK_S: Final = 0.05
#: Variables that the worker's own code reads, or nothing does: no import of the server depends on them.
_READ_LATER: Final = frozenset(
    ("PYTHONUNBUFFERED", "PYTEST_CURRENT_TEST", "PWD", "OLDPWD", "_", "SHLVL", "TORCHINDUCTOR_CACHE_DIR")
)
_READ_LATER_BEGIN: Final = ("MINDGAP_",)
#: What every worker of Inductor is given. The server has it when it imports Inductor's settings.
_SERVER_HAS: Final = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}


@dataclass(frozen=True)
class StartState:
    """What a process inherits that libraries look at when they are imported."""

    environment: Mapping[str, str]
    processors: frozenset[int]
    limits: Mapping[str, tuple[int, int]]

    def unlike(self, other: StartState) -> list[str]:
        """Returns the names of what differs."""
        ours, theirs = self.environment, other.environment
        names = [name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)]
        names += ["processors"] if self.processors != other.processors else []
        return sorted([*names, *(name for name, limit in self.limits.items() if other.limits.get(name) != limit)])


def state_of(environment: Mapping[str, str]) -> StartState:
    """Returns the state of a process that this thread starts with the environment."""
    import resource

    limits = {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")}
    acting = {name: value for name, value in environment.items() if not _is_read_later(name)}
    return StartState(acting, frozenset(os.sched_getaffinity(0)), limits)


class ForkServer:
    """A running fork server. Thread-safe."""

    def __init__(self, state: StartState) -> None:
        """Starts it, in the state of this process. Raises OSError."""
        self.state = state
        #: What a worker prints before it dies must not stay in a buffer.
        self.environment = {**os.environ, "PYTHONUNBUFFERED": "1", **_SERVER_HAS}
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = _run_in_lasting_thread(lambda: _started(theirs.fileno(), self.environment))
        self._socket.settimeout(_ANSWER_S)
        self._asked = 0
        self._ready = False
        self._retired = False
        self._children = 0

    def ready(self, until: float, cancelled: Callable[[], bool]) -> bool:
        """Waits until it has imported, `until` on the monotonic clock. False: it has not, or it has ended."""
        while not self.lost:
            with self._lock:
                if self._ready:
                    return True
                if not self.lost and _readable(self._socket):
                    self._take_ready()
                    continue
            if time.monotonic() >= until or cancelled():
                return False
            time.sleep(_TICK_S)
        return False

    @property
    def lost(self) -> bool:
        """Whether it was ended, or an answer did not come."""
        return self._socket.fileno() < 0

    def running(self) -> bool:
        return self._process.poll() is None

    def fork(
        self, module: str, arguments: Sequence[str], variables: Mapping[str, str | None], streams: Sequence[int]
    ) -> int:
        """Forks `python -m module arguments` and returns its number. Raises `_Refused`.

        `variables`: what differs from the server's, None for what is not set. `streams`: descriptors 0, 1 and 2.
        """
        request = {"module": module, "arguments": [*arguments], "directory": os.getcwd(), "variables": variables}
        with self._lock:
            answer = self._ask({"fork": request}, streams)
            if "pid" not in answer:
                raise _Refused(answer["refused"])
            self._children += 1
            return answer["pid"]

    def reap(self, pid: int) -> int:
        """Reaps a worker that has ended, or was sent SIGKILL, and returns its exit status, or -N of signal N.

        A worker whose server was lost was killed with it.
        """
        with self._lock:
            try:
                status: int = self._ask({"reap": pid})["status"]
            except _Refused:
                status = -signal.SIGKILL
            self._children -= 1
            if self._retired and self._children <= 0:
                self._end()
        return status

    def retire(self) -> None:
        """Ends it once it has no worker left."""
        with self._lock:
            self._retired = True
            if self._children <= 0:
                self._end()

    def end(self) -> None:
        """Ends it, and with it all its workers. May be called again."""
        # A thread that waits for an answer lets go of the lock then.
        self._process.kill()
        with self._lock:
            self._end()

    def forget(self) -> None:
        """Closes the socket only: in a forked copy of this process the server is not its own."""
        self._lock = threading.Lock()
        self._socket.close()

    def _take_ready(self) -> None:
        try:
            message: dict[str, Any] = json.loads(self._socket.recv(LONGEST) or b'{"failed": ""}')
        except OSError as error:
            message = {"failed": str(error)}
        self._ready = "ready" in message
        if not self._ready:
            self._end()
            status = self._process.returncode
            _log.warning(
                "workers start one by one: the fork server failed: %s", message["failed"] or f"status {status}"
            )

    def _ask(self, message: Mapping[str, Any], streams: Sequence[int] = ()) -> dict[str, Any]:
        """Sends a request and returns the answer. Raises `_Refused`, for a lost server too."""
        self._asked += 1
        data = json.dumps({"id": self._asked, **message}).encode()
        if len(data) > LONGEST:
            raise _Refused("its arguments are too long")
        try:
            socket.send_fds(self._socket, [data], list(streams))
            while True:
                got = self._socket.recv(LONGEST)
                if not got:
                    raise ConnectionError("it has ended")
                answer: dict[str, Any] = json.loads(got)
                if answer["id"] == self._asked:
                    return answer
                self._give_up(answer)
        except OSError as error:
            if not self.lost:
                self._end()
                _log.warning("workers start one by one: the fork server was lost: %s", error)
            raise _Refused(f"the fork server was lost: {error}") from None

    def _give_up(self, answer: Mapping[str, Any]) -> None:
        """Ends a worker whose request was interrupted (Ctrl-C) before its answer came."""
        if "pid" in answer:
            os.kill(answer["pid"], signal.SIGKILL)
            self._socket.send(json.dumps({"id": 0, "reap": answer["pid"]}).encode())

    def _end(self) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()


class ForkedProcess:
    """A process that the fork server forked: a `ChildProcess`. The server is its parent and reaps it on request."""

    def __init__(
        self, server: ForkServer, module: str, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        """Raises `_Refused`, and OSError."""
        self._server = server
        self._lock = threading.Lock()
        self._status: int | None = None
        pipes = [os.pipe() for _ in range(3)]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        self.stdin, self.stdout, self.stderr = self._ours = (pipes[0][1], pipes[1][0], pipes[2][0])
        self._pidfd = -1
        try:
            self.pid = server.fork(module, arguments, _changes(server.environment, environment), theirs)
            # Until it is reaped, which the server leaves to `reap`, no other process gets the number.
            self._pidfd = os.pidfd_open(self.pid)
        except BaseException:
            self.close_pipes()
            raise
        finally:
            for fd in theirs:
                os.close(fd)

    @property
    def reaped(self) -> bool:
        return self._status is not None

    def running(self) -> bool:
        return self._status is None and not _readable(self._pidfd)

    def kill(self) -> None:
        with self._lock:
            if self._status is None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def kill_group(self) -> None:
        # Of a lost server's workers another process may have reaped the leader, and the number be anybody's.
        if self._status is None and self._server.running():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        if self._status is None:
            _readable(self._pidfd, None)

    def reap(self) -> int:
        self.wait()
        with self._lock:
            if self._status is None:
                self._status = self._server.reap(self.pid)
                os.close(self._pidfd)
            return self._status

    def hang_up(self) -> None:
        if self._ours:
            os.close(self._ours[0])
            self._ours = self._ours[1:]

    def close_pipes(self) -> None:
        ours, self._ours = self._ours, ()
        for fd in ours:
            os.close(fd)


def begin() -> None:
    """Starts the fork server without waiting for it, unless it runs or cannot run here."""
    if _possible():
        with contextlib.suppress(OSError):
            _serving(state_of(os.environ))


def forked(
    module: str, arguments: Sequence[str], environment: Mapping[str, str], within_s: float,
    cancelled: Callable[[], bool] = lambda: False,
) -> ForkedProcess | None:  # fmt: skip
    """Forks `python -m module arguments`, or returns None where it has to be started by its command line.

    Waits for the server's imports at most `within_s` seconds, and no longer once `cancelled` returns true.
    """
    until = time.monotonic() + within_s
    if not _possible():
        return None
    try:
        state = state_of(environment)
        server = _serving(state)
        if unlike := server.state.unlike(state):
            raise _Refused(f"it differs from the fork server in {', '.join(unlike)}")
        if not server.ready(until, cancelled):
            raise _Refused("the fork server is not ready")
        return ForkedProcess(server, module, arguments, environment)
    except (_Refused, OSError) as reason:
        _log.info("%s starts by its command line: %s", module, reason)
        return None


class _Refused(Exception):
    """The fork server does not fork this worker. The message gives the reason."""


#: The server for new workers, and those that have been retired.
_current: ForkServer | None = None
_all: list[ForkServer] = []
_changing = threading.Lock()


def _serving(wanted: StartState) -> ForkServer:
    """Returns the server. Replaces one that this process has left behind: its variables were changed since."""
    global _current
    with _changing:
        if _current is None or (_current.state != wanted and not _current.lost and wanted == state_of(os.environ)):
            if _current is not None:
                _log.info("a new fork server: other %s", ", ".join(_current.state.unlike(wanted)))
                _current.retire()
            _all[:] = [server for server in _all if not server.lost]
            _current = ForkServer(state_of(os.environ))
            _all.append(_current)
        return _current


@cache
def _possible() -> bool:
    """Whether this system has what it takes; some containers forbid `pidfd_open`."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return sys.platform == "linux"


def _started(socket_fd: int, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "mindgap.run.fork_server"]
    return subprocess.Popen(
        [*command, "--parent", str(os.getpid()), "--socket", str(socket_fd)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[socket_fd],
        env={**PRINTS_LAST_WORDS, **environment},
        start_new_session=True,
    )


def _run_in_lasting_thread(call: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Calls in a thread that stays for the life of this process: the kernel kills the server when that thread ends."""
    future: Future[subprocess.Popen[bytes]] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)
            return
        threading.Event().wait()

    threading.Thread(target=run, name="mindgap-fork-server", daemon=True).start()
    return future.result()


def _is_read_later(name: str) -> bool:
    return name in _READ_LATER or name in _SERVER_HAS or name.startswith(_READ_LATER_BEGIN)


def _changes(there: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    """Returns the variables to change, with None for what is not to be set."""
    return {name: wanted.get(name) for name in {*there, *wanted} if there.get(name) != wanted.get(name)}


def _readable(source: int | socket.socket, wait_ms: int | None = 0) -> bool:
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(wait_ms))


def _end_all() -> None:
    for server in _all:
        server.end()


def _forget_all() -> None:
    """In a forked copy of this process: the servers stay with the original."""
    global _current, _changing
    _changing = threading.Lock()
    for server in _all:
        server.forget()
    _current = None
    _all.clear()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
