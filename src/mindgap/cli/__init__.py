"""Implements the command line.

Input: argv. Output: a table for people or JSON for machines on standard output, progress and complaints on standard
error, and an exit status. Verdicts are decided below; the exit status, and what a baseline or a project allows, here.
Other packages add commands (`mindgap.run.extensions`).
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from typing import Final

#: Commands that start several workers in any case.
_WITH_WORKERS: Final = frozenset(("diff", "trace", "metamorphic", "invariance", "reduce", "portability"))


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
    if argv is None:
        # Python would free one by one what the end of the process frees at once, which takes half a second after
        # PyTorch was imported, and would wait for the thread of a comparison that was cut short within an operator.
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage] (there is no public one: temporary files go)
        os._exit(status)
    return status


__all__ = ["main"]
