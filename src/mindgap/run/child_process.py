"""A process whose standard streams are pipes to this one, started in any way: started, watched, killed,
reaped."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final, Protocol


class ChildProcess(Protocol):
    """A process in a separate session. `stdin`, `stdout` and `stderr`: this side's ends of its pipes."""

    pid: int
    stdin: int
    stdout: int
    stderr: int

    @property
    def reaped(self) -> bool: ...

    def running(self) -> bool:
        """Returns whether the process runs. Does not reap it where the system allows that."""
        ...

    def kill(self) -> None:
        """Sends SIGKILL, from any thread; nothing to a process that was reaped."""
        ...

    def kill_group(self) -> None:
        """Sends SIGKILL to the process and all that it started and that stayed in its group."""
        ...

    def wait(self) -> None:
        """Waits for the process to end. Does not reap it where the system allows that."""
        ...

    def reap(self) -> int:
        """Waits for the process to end and reaps it. Returns its exit status, or -N where signal N ended it."""
        ...

    def close_pipes(self) -> None: ...

    def hang_up(self) -> None:
        """Closes its standard input."""
        ...


#: Makes the C library print why it aborts on standard error, and not on a terminal.
PRINTS_LAST_WORDS: Final = {"LIBC_FATAL_STDERR_": "1"}


class SpawnedProcess:
    """A process that a command line started in a separate session, with three pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self.stdin, self.stdout, self.stderr = (pipe.fileno() for pipe in self._pipes)
        self.pid = self._process.pid

    @staticmethod
    def start(command: Sequence[str], environment: Mapping[str, str]) -> SpawnedProcess:
        """Starts it. Raises OSError if the command cannot be started."""
        return SpawnedProcess(
            subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env={**PRINTS_LAST_WORDS, **environment},
                start_new_session=True,
            )
        )

    @property
    def reaped(self) -> bool:
        return self._process.returncode is not None

    def running(self) -> bool:
        if not hasattr(os, "waitid"):
            return self._process.poll() is None
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        except ChildProcessError:
            return False

    def kill(self) -> None:
        self._process.kill()

    def kill_group(self) -> None:
        # Before its leader is reaped: until then no other process can get the number.
        if not self.reaped:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def reap(self) -> int:
        return self._process.wait()

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self._pipes[0].close()

    def close_pipes(self) -> None:
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()


def readable(fd: int, wait_s: float) -> bool:
    """Waits for a byte or the end of a pipe. Returns whether there is one."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(wait_s * 1000))


def widen(*pipes: int) -> None:
    """Enlarges pipes where the system allows it: large arrays then need fewer context switches."""
    if hasattr(select, "epoll"):
        import fcntl

        for fd in pipes:
            with contextlib.suppress(OSError):
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 1 << 20)
