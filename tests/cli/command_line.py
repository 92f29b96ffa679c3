"""Runs the command line as a user does: another process, its three streams, its exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


def mindgap(*arguments: str | Path, cwd: Path, home: Path | None = None, own_path: bool = False) -> Ran:
    """`mindgap ARGUMENTS` in `cwd`, with one thread and a tensor store of its own.

    `own_path`: `diff` takes programs the way of each platform's users too, which exports each a second time.
    """
    if arguments[:1] == ("diff",) and not own_path:
        arguments = ("diff", "--no-own-path", *arguments[1:])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MINDGAP_HOME": str(home or cwd / "home"), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-m", "mindgap.cli", *map(str, arguments)],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    return Ran(done.returncode, done.stdout, done.stderr)


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
