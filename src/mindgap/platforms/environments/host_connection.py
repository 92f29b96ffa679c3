"""A connection to a host: starts its command, checks who answers, orders what is to run there, keeps track of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, Final, cast

from mindgap.platforms.environments.environment import OLDEST_PYTHON
from mindgap.platforms.environments.host import Host, HostProblem
from mindgap.platforms.environments.host_worker import (
    ENDED,
    FOLDER,
    GREETING,
    MARK,
    PACKAGE,
    PROTOCOL,
    PYTHON,
    START,
    own_version,
)

#: What a login may print on standard output before the greeting.
_MOST_BANNER: Final = 1 << 16
#: How much of what came on standard error is kept while it starts.
_TAIL: Final = 1 << 13
#: How often it looks whether somebody still waits.
_LOOK_S: Final = 0.2
_READ: Final = 1 << 16
#: A host that gives no sign of life for so long is lost.
LOST_S: Final = 30.0
#: A worker there that reads nothing, or sends no byte of an answer that is ready, hangs after so long; besides what is
#: on its way takes, which are at most so many bytes on a link that passes so many in a second.
STALLED_S: Final = 30.0
_MOST_BUFFERED: Final = 1 << 23
_SLOWEST: Final = 1 << 13
#: The longest record on standard error.
_MOST_RECORD: Final = 512
_RECORD: Final = re.compile(rf"{MARK}([^{MARK}]*){MARK}".encode())
#: How long what has ended may take to close its streams.
_ENDING_S: Final = 3.0
#: How long what runs there may take to end itself once it is hung up on.
HANGING_UP_S: Final = 1.0
_VERSION: Final = re.compile(r"[0-9]{1,6}\.[0-9]{1,6}")
_PASSWORD: Final = "mindgap answers no prompt: set up a key, and try the command with `ssh -o BatchMode=yes`"


@dataclass(frozen=True, slots=True)
class Order:
    """What is to run on a host.

    `command`: with `host_worker`'s names in place of what is known there only. `variables`: of the environment there,
    None for one that is not set. `files`: text by name, written to the order's folder.
    """

    command: Sequence[str]
    variables: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    files: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class HostLink:
    """What one connection has sent so far.

    `greeting`: what answered. `heard`: when the last byte came (`time.monotonic`). `ended`: how the process there
    ended, `status`, `oom` and `cpu` (its processor seconds); None while it runs, and where the connection was lost
    first. `sent`, `received`: bytes. `moved`: when the last byte of a frame was written or came. `in_flight`: bytes of
    a request that were written, and may be on their way.
    """

    host: Host
    greeting: Mapping[str, Any] = field(default_factory=dict[str, Any])
    heard: float = field(default_factory=time.monotonic)
    ended: Mapping[str, Any] | None = None
    sent: int = 0
    received: int = 0
    moved: float = field(default_factory=time.monotonic)
    in_flight: int = 0
    _kept: bytes = b""

    def alive(self, count: int) -> None:
        """Notes that so many bytes came."""
        self.heard = time.monotonic()
        self.received += count

    @property
    def silent(self) -> bool:
        """Whether the host has given no sign of life for too long."""
        return time.monotonic() - self.heard > LOST_S

    def stalled(self, deadline_s: float) -> bool:
        """Whether no byte of a frame has moved for longer than a slow link needs."""
        on_their_way_s = min(self.in_flight, _MOST_BUFFERED) / _SLOWEST
        return time.monotonic() - self.moved > patience_s(deadline_s) + on_their_way_s

    def without_records(self, data: bytes) -> bytes:
        """Takes the records out of what came on standard error, which may arrive in pieces."""
        data, self._kept = self._kept + data, b""
        for record in _RECORD.findall(data):
            text = record.decode(errors="replace")
            if text.startswith(ENDED):
                self.ended = _end_told(text.removeprefix(ENDED)) or self.ended
        rest = _RECORD.sub(b"", data)
        begun = rest.rfind(MARK.encode())
        if begun >= 0 and len(rest) - begun < _MOST_RECORD:
            rest, self._kept = rest[:begun], rest[begun:]
        return rest


class HostConnection:
    """The command of a host, with a process there behind it. Standard streams are pipes of this process."""

    def __init__(
        self, host: Host, order: Order, within_s: float, cancelled: Callable[[], bool] = lambda: False
    ) -> None:
        """Starts it and orders what to run. Raises `HostProblem` where no worker of this mindgap answers in time, or
        it is no longer awaited (`cancelled`)."""
        self.link = HostLink(host)
        self._cancelled = cancelled
        self._host = host
        try:
            self.process = subprocess.Popen(
                host.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                env={**os.environ, "SSH_ASKPASS_REQUIRE": "never"}, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise HostProblem(f"host {host.name}: its command {host.words} cannot be run: {error.strerror}") from None
        try:
            self.link.greeting = _checked(host, self._greeting(min(within_s, host.connect_s)))
            self._send(asdict(order))
        except BaseException:
            self.end()
            raise

    def _greeting(self, within_s: float) -> Mapping[str, Any]:
        """Waits for the greeting. What a login prints before it is left out."""
        assert self.process.stdout is not None and self.process.stderr is not None
        out, err = self.process.stdout.fileno(), self.process.stderr.fileno()
        got, printed = b"", b""
        poll = select.poll()
        for fd in (out, err):
            os.set_blocking(fd, False)
            poll.register(fd, select.POLLIN)
        until = time.monotonic() + within_s
        while (left := until - time.monotonic()) > 0:
            if self._cancelled():
                raise HostProblem(f"host {self._host.name}: nobody waits for it any more")
            for fd, _ in poll.poll(min(left, _LOOK_S) * 1000):
                # Of standard output no byte behind the greeting is taken: nothing is sent before the order.
                data = os.read(fd, _READ)
                if not data and fd == out:
                    raise self._no_greeting(got, printed)
                if not data:
                    poll.unregister(fd)
                elif fd == err:
                    printed = (printed + self.link.without_records(data))[-_TAIL:]
                else:
                    got += data
            before, greeting, after = got.partition(GREETING.encode())
            if greeting and after.endswith(b"\n"):
                self.link.alive(len(after))
                return _read(self._host, after)
            if max(len(before), len(after)) > _MOST_BANNER:
                raise HostProblem(
                    f"host {self._host.name}: {len(got)} bytes came on standard output and no greeting of mindgap: "
                    f"its command {self._host.words} starts something else"
                )
        last = _last_line(printed) or _last_line(got)
        heard = f"; it says: {last}" if last else ""
        raise HostProblem(f"host {self._host.name}: no answer within {within_s:g} s{heard}; {_PASSWORD}")

    def _no_greeting(self, got: bytes, said: bytes) -> HostProblem:
        """Why the command ended without a greeting."""
        assert self.process.stderr is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_ENDING_S)
        with contextlib.suppress(OSError):
            while data := os.read(self.process.stderr.fileno(), _READ):
                said += data
        self.end()
        status = self.process.returncode
        text = (said + b"\n" + got).decode(errors="replace")
        if re.search(r"No module named '?mindgap'?", text):
            return HostProblem(
                f"host {self._host.name}: its Python has no mindgap: install mindgap {own_version()} there, or "
                "name another Python in its command"
            )
        if "No such command" in text or "unrecognized arguments: worker" in text:
            return HostProblem(
                f"host {self._host.name}: the mindgap there is older than hosts are: install mindgap "
                f"{own_version()} there, as here"
            )
        last = _last_line(said) or _last_line(got) or "it said nothing"
        advice = (
            f"; {_PASSWORD}"
            if re.search(r"password|Permission denied \(|Host key verification", text, re.IGNORECASE)
            else ""
        )
        return HostProblem(
            f"host {self._host.name}: its command {self._host.words} ended with status {status}: {last}{advice}"
        )

    def _send(self, order: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            data = json.dumps(order).encode() + b"\n"
            while data:
                data = data[os.write(self.process.stdin.fileno(), data) :]
        except OSError:
            raise HostProblem(f"host {self._host.name}: the connection ended as soon as it was there") from None

    def end(self) -> None:
        """Ends the command, and with it what runs there. May be called again."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(HANGING_UP_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def run_there(host: Host, order: Order, limit_s: float) -> tuple[int, str, str]:
    """Runs a program there to its end. Returns its status, standard output and standard error.

    Raises `HostProblem` where that is not possible, the connection is lost or the limit is exceeded.
    """
    connection = HostConnection(host, order, host.connect_s)
    link, process = connection.link, connection.process
    assert process.stdout is not None and process.stderr is not None
    got = {process.stdout.fileno(): b"", process.stderr.fileno(): b""}
    poll = select.poll()
    for fd in got:
        poll.register(fd, select.POLLIN)
    until = time.monotonic() + host.slower * limit_s
    try:
        open_fds = set(got)
        while open_fds:
            if time.monotonic() > until and link.ended is not None:
                break
            if time.monotonic() > until:
                raise HostProblem(f"host {host.name}: no answer within {host.slower * limit_s:g} s")
            if link.silent:
                raise HostProblem(f"host {host.name}: {silence()}")
            for fd, _ in poll.poll(200):
                data = os.read(fd, _READ)
                link.alive(len(data))
                if not data:
                    poll.unregister(fd)
                    open_fds.discard(fd)
                got[fd] += data if fd == process.stdout.fileno() else link.without_records(data)
                if link.ended is not None:
                    # Standard output may come later; a process that a runtime leaves behind would keep it open.
                    until = min(until, time.monotonic() + _ENDING_S)
    finally:
        connection.end()
    out, err = (data.decode(errors="replace") for data in got.values())
    if link.ended is None:
        raise HostProblem(
            f"host {host.name}: the connection was lost: {_last_line(err.encode()) or 'nothing said why'}"
        )
    return int(link.ended["status"]), out, err


@cache
def versions_there(host: Host, packages: tuple[str, ...]) -> Mapping[str, str]:
    """The versions of packages there; those that are not installed are left out. Raises `HostProblem`."""
    status, out, err = run_there(host, Order([PYTHON, START, "--versions", "", *packages]), LOST_S)
    try:
        return {name: str(version) for name, version in dict(json.loads(out)).items()}
    except (ValueError, TypeError, RecursionError):
        reason = _last_line(err.encode()) or f"status {status}"
        raise HostProblem(f"host {host.name}: its Python does not tell versions: {reason}") from None


@cache
def python_there(host: Host) -> str:
    """The version of Python there. Raises `HostProblem`."""
    connection = HostConnection(host, Order([PYTHON, "-c", ""]), host.connect_s)
    connection.end()
    return str(connection.link.greeting["python"])


def module_there(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of the mindgap there."""
    return [PYTHON, START, PACKAGE, "", module, *arguments]


def run_script_there(host: Host, text: str, code: str, limit_s: float) -> tuple[int, str, str]:
    """Runs a script there, with Python's `-c` `code` that gets its file as argument. Returns as `run_there` does."""
    order = Order(["/bin/sh", "-c", 'cd "$0" && exec "$1" -c "$2" script.py', FOLDER, PYTHON, code])
    return run_there(host, replace(order, files={"script.py": text}), limit_s)


def patience_s(deadline_s: float) -> float:
    """How long a worker there may read nothing, or hold an answer back, that is allowed so many seconds for a job."""
    return max(STALLED_S, deadline_s)


def silence() -> str:
    """The words for a host that gives no sign of life."""
    return f"the connection was lost: no sign of life for {LOST_S:g} s"


def _end_told(text: str) -> Mapping[str, Any] | None:
    """Reads how the process there ended. None for a record that does not say so."""
    content = _object(text)
    right = isinstance(content.get("status"), int) and isinstance(content.get("oom"), bool)
    return content if right and are_seconds(content.get("cpu")) else None


def are_seconds(told: object) -> bool:
    """Whether what another machine sent can be a number of processor seconds."""
    return isinstance(told, (int, float)) and 0 <= told < 1e9


def _object(text: str | bytes) -> dict[str, Any]:
    """Reads a JSON object that another machine sent; an empty one where it is none."""
    try:
        content: Any = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def _read(host: Host, line: bytes) -> Mapping[str, Any]:
    greeting = _object(line)
    python, missing = greeting.get("python", "0.0"), greeting.get("missing", [])
    if (
        isinstance(greeting.get("protocol"), int)
        and isinstance(python, str)
        and _VERSION.match(python)
        and isinstance(missing, list)
        and all(isinstance(name, str) for name in cast("list[Any]", missing))
    ):
        return greeting
    raise HostProblem(f"host {host.name}: its greeting cannot be read: {line[:80]!r}")


def _checked(host: Host, greeting: Mapping[str, Any]) -> Mapping[str, Any]:
    """Raises `HostProblem` for a greeting of something that cannot run this mindgap's workers."""
    there, python = f"host {host.name}:", str(greeting.get("python", "0.0"))
    if greeting["protocol"] != PROTOCOL:
        raise HostProblem(
            f"{there} mindgap {greeting.get('mindgap')} there speaks protocol {greeting['protocol']}, mindgap "
            f"{own_version()} here protocol {PROTOCOL}: install the same version on both sides"
        )
    if greeting.get("terminal"):
        raise HostProblem(
            f"{there} its command gives a terminal, which changes bytes: leave -t out (ssh -T, docker run -i)"
        )
    oldest = ".".join(map(str, OLDEST_PYTHON))
    if (
        tuple(int(part) for part in re.findall("[0-9]+", python)[:2]) < OLDEST_PYTHON
        or greeting.get("implementation") != "CPython"
    ):
        raise HostProblem(
            f"{there} its Python is {greeting.get('implementation')} {python}; workers need CPython {oldest} or newer"
        )
    if problem := greeting.get("problem"):
        raise HostProblem(f"{there} {problem} there")
    if missing := greeting.get("missing"):
        names = " ".join(missing)
        raise HostProblem(f"{there} its Python lacks {names}, which workers need: pip install {names} there")
    return greeting


def _last_line(text: bytes) -> str:
    lines = [line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
