"""Runs command lines, each in a process forked from this one, which has imported what most commands import.

A line of standard input is an order: the command's arguments, directory and environment, and the files for its output
and errors. A line of standard output is the exit status of the process.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import sympy  # noqa: F401
import torch  # noqa: F401

import mindgap.cli.diff
import mindgap.report
import mindgap.workflows.diff.session  # noqa: F401
from mindgap.cli import main


def _forked() -> dict[str, Any] | None:
    """Forks a process for each order and reports its status. Returns in that process, with the order, and returns None
    at the end of standard input."""
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            return json.loads(line)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


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
    sys.exit(main())
