"""Runs the command line as a user does: another process, its three streams, its exit status."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

_LIMIT_S = 280.0
_SERVER = Path(__file__).with_name("command_server.py")
#: Of each command, and of the fork server that they share: it forks workers for those with the same variables alone.
_VARIABLES = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "COLUMNS": "200", "OMP_WAIT_POLICY": "passive"}


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


def mindgap(
    *arguments: str | Path, cwd: Path, home: Path | None = None, own_path: bool = False, **variables: str
) -> Ran:
    """`mindgap ARGUMENTS` in `cwd`, with one thread and a tensor store of its own, and with further `variables`.

    `own_path`: `diff` takes programs the way of each platform's users too, which exports each a second time.

    The process is forked from one that has imported PyTorch, which saves most of its start.
    """
    if arguments[:1] == ("diff",) and not own_path:
        arguments = ("diff", "--no-own-path", *arguments[1:])
    environment = {**os.environ, **_VARIABLES, "MINDGAP_HOME": str(home or cwd / "home"), **variables}
    with TemporaryDirectory() as folder:
        files = [Path(folder) / "out", Path(folder) / "err"]
        for file in files:
            file.touch()
        order = {
            "arguments": [*map(str, arguments)],
            "cwd": str(cwd),
            "environment": environment,
            "files": [*map(str, files)],
        }
        # What Python reads at its start cannot be given to a process that has started.
        server = _server(tuple(sorted((k, v) for k, v in environment.items() if k.startswith("PYTHON"))))
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps(order) + "\n")
        server.stdin.flush()
        if not select.select([server.stdout], [], [], _LIMIT_S)[0]:
            _server.cache_clear()
            server.kill()
            raise subprocess.TimeoutExpired(order["arguments"], _LIMIT_S)
        status = int(server.stdout.readline())
        return Ran(status, *(file.read_text() for file in files))


@cache
def _server(of_python: tuple[tuple[str, str], ...]) -> subprocess.Popen[str]:
    """The server of this test process and these variables of Python's. It ends with its standard input."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.Popen(
        [sys.executable, _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**others, **dict(of_python), **_VARIABLES},
    )


MODELS = """
import torch

print("a library that prints when it is imported")


def calm():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).eval(), (torch.randn(4, 8),)


def two():
    return [calm(), calm()]


def broken():
    class Branches(torch.nn.Module):
        def forward(self, x):
            return x + 1 if x.sum().item() > 0 else x - 1

    return Branches(), (torch.randn(3),)


def unbuildable():
    raise RuntimeError("no weights here")
"""
