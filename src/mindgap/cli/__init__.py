"""Implements the command line.

Input: argv. Output: a table for people or JSON for machines on standard output, progress and complaints on standard
error, and an exit status. Verdicts are decided below; the exit status, and what a baseline or a project allows, here.
Other packages add commands (`mindgap.run.extensions`).
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Sequence
from typing import Final

#: Commands that start several workers in any case.
_WITH_WORKERS: Final = frozenset(("diff", "trace", "metamorphic", "invariance", "reduce", "portability"))

#: The lowest status of a command that a signal ended.
_INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit status. A user's mistake is one line, a bug of ours a traceback."""
    # Workers and the judge share the cores: a thread that waits for work must sleep, not spin. No result depends on it.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    given = sys.argv[1:] if argv is None else argv
    if list(given) == ["worker"]:
        from mindgap.platforms.environments import host_worker

        return host_worker.main()
    if "--help" not in given and next((part for part in given if not part.startswith("-")), "") in _WITH_WORKERS:
        from mindgap.run import forking

        # PyTorch is imported there while the command line is imported here.
        forking.begin()
    if "_MINDGAP_COMPLETE" in os.environ:
        from mindgap.cli.completion import join_words

        join_words()
    from mindgap.cli.app import main as run

    status = run(given)
    working = any(each.name.startswith("mindgap-") and not each.daemon for each in threading.enumerate())
    if argv is None and (working or status >= _INTERRUPTED):
        # A comparison was cut short (Ctrl-C, `--budget`) within an operator. Python would wait for its thread; and
        # extension modules would print as leaks what daemon threads hold.
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] (there is no public one: temporary files go)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status


__all__ = ["main"]
