"""Runs a function in a forked process with limits: time, memory, size of files; an empty directory; no input.

The process that forks has imported a framework and used nothing of it, so that a child starts in milliseconds, and has
a runtime of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

from mindgap.run.system import die_with, own_bytes

#: How often the memory of a child is looked at.
_TICK_S: Final = 0.05
#: A child may not write larger files.
_FILE_BYTES: Final = 64 << 20
#: What is kept of what a child printed last.
_TAIL: Final = 2000

Tell = Callable[[Mapping[str, Any]], None]
Fault = Literal["", "crash", "time-out", "memory"]


@dataclass(frozen=True, slots=True)
class CallLimits:
    """`deadline_s`: wall-clock seconds. `memory_bytes`: resident bytes that no file backs."""

    deadline_s: float = 60.0
    memory_bytes: int = 4 << 30


@dataclass
class Ended:
    """How a child ended. `told`: what it reported, in order. `fault`: empty where it came to its end. `message`: one
    line about the fault."""

    told: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    fault: Fault = ""
    message: str = ""


def run_isolated(function: Callable[[Tell], None], limits: CallLimits) -> Ended:
    """Runs `function` in a child. It reports by calling its argument with what JSON can hold.

    The child has a temporary directory of its own as working directory, nothing on standard input, and is the leader of
    a process group that is killed as a whole at the end.
    """
    folder = Path(tempfile.mkdtemp(prefix="mindgap-call-"))
    printed = folder.with_suffix(".txt")
    try:
        reading, writing = os.pipe()
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _run_child(function, writing, folder, printed, parent)
        os.close(writing)
        return _watch(child, reading, limits, printed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        printed.unlink(missing_ok=True)


def _run_child(function: Callable[[Tell], None], writing: int, folder: Path, printed: Path, parent: int) -> NoReturn:
    status = 1
    try:
        os.setsid()
        die_with(parent)
        os.chdir(folder)
        nothing, output = os.open(os.devnull, os.O_RDONLY), os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        def tell(data: Mapping[str, Any]) -> None:
            left = json.dumps(dict(data)).encode() + b"\n"
            while left:
                left = left[os.write(writing, left) :]

        function(tell)
        tell({"kind": "end"})
        status = 0
    except BaseException as error:  # what a function does wrong is data: the parent sees that there was no end
        with contextlib.suppress(OSError):
            os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="replace"))
    finally:
        os._exit(status)


def _watch(child: int, reading: int, limits: CallLimits, printed: Path) -> Ended:
    """Reads what a child reports until it ends, or passes a limit. Kills its group, and reaps it."""
    until = time.monotonic() + limits.deadline_s
    data = bytearray()
    fault: Fault = ""
    message = ""
    while True:
        left = until - time.monotonic()
        if left <= 0:
            fault, message = "time-out", f"no answer within {limits.deadline_s:g} s"
            break
        ready, _, _ = select.select([reading], [], [], min(left, _TICK_S))
        if ready:
            more = os.read(reading, 1 << 16)
            data += more
            if not more or data.endswith(b'{"kind": "end"}\n'):
                break
        if own_bytes(child) > limits.memory_bytes:
            fault, message = "memory", f"it passed its memory limit of {limits.memory_bytes >> 20} MiB"
            break
    os.close(reading)
    ended_itself = data.endswith(b'{"kind": "end"}\n')
    if fault or ended_itself:
        _kill_group(child)
        os.kill(child, signal.SIGKILL)  # not reaped yet, and perhaps not the leader of its group yet
    _, status = os.waitpid(child, 0)
    _kill_group(child)
    told = [json.loads(line) for line in data.splitlines(keepends=True) if line.endswith(b"\n")]
    if ended_itself:
        return Ended(told[:-1])
    if not fault:
        fault, message = "crash", _end_of(status, printed)
    return Ended(told, fault, message)


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _end_of(status: int, printed: Path) -> str:
    """Says how a process ended, with the last line that it printed."""
    code = os.waitstatus_to_exitcode(status)
    how = f"the process was ended by {signal.Signals(-code).name}" if code < 0 else f"the process ended, status {code}"
    with contextlib.suppress(OSError):
        lines = printed.read_bytes()[-_TAIL:].decode(errors="replace").strip().splitlines()
        return f"{how}: {lines[-1].strip()}" if lines else how
    return how
