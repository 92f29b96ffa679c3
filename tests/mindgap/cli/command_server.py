"""Runs command lines, each in a process forked from this one, which has imported what most commands import.

A line of standard input is an order: the command's arguments, directory and environment, and the files for its output
and errors. A line of standard output is the exit status of the process.

The commands share one fork server for their workers, which saves each the import of PyTorch in a server of its own.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from mindgap.run import forking


class SharedForkServer(forking.ForkServer):
    """A fork server that outlives the commands: a command that is done with it closes its copy of the socket."""

    def __init__(self) -> None:
        super().__init__(forking.state_of(os.environ))

    def adopt(self, descriptor: int) -> None:
        """In a forked command: takes this server in place of one of its own, which the fork has closed.

        Requests are numbered from the command's process, so that a late answer to a killed command is no answer to it.
        """
        self._socket = socket.socket(fileno=descriptor)
        self._socket.settimeout(60.0)
        self._asked = os.getpid() << 16
        forking._current = self

    def end_workers(self) -> None:
        """Ends the workers that a command left behind, as the end of a server of its own would."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        for pid in map(int, children.read_text().split()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            self.reap(pid)

    def running(self) -> bool:
        return not self.lost

    def _end(self) -> None:
        self._socket.close()


def _forked() -> dict[str, Any] | None:
    """Forks a process for each order and reports its status. Returns in that process, with the order, and returns None
    at the end of standard input."""
    server = SharedForkServer()
    _import_what_commands_need()
    server.ready(time.monotonic() + 60.0, lambda: False)
    gc.freeze()
    for line in sys.stdin:
        descriptor = os.dup(server._socket.fileno())
        if (child := os.fork()) == 0:
            server.adopt(descriptor)
            return json.loads(line)
        os.close(descriptor)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        server.end_workers()
        print(status, flush=True)
    return None


def _import_what_commands_need() -> None:
    import sympy  # noqa: F401
    import torch  # noqa: F401

    import mindgap.cli.diff
    import mindgap.report
    import mindgap.workflows.diff.session  # noqa: F401


def _prepare(order: dict[str, Any]) -> None:
    """Makes this process what a new one would be: its streams, directory and environment."""
    for descriptor, file in enumerate((os.devnull, *order["files"])):
        os.dup2(os.open(file, os.O_WRONLY if descriptor else os.O_RDONLY), descriptor)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = ["mindgap", *order["arguments"]]


if __name__ == "__main__" and (order := _forked()) is not None:
    _prepare(order)
    from mindgap.cli import main

    try:
        main()
    except SystemExit as end:
        # As `main` ends: what is shared with the server would be copied to be freed.
        sys.stdout.flush()
        os._exit(int(end.code or 0))
