"""Keeps standard output for results, not for the prints of a user's module or a library."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from enum import IntEnum
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from mindgap.workflows.diff import Report


class Exit(IntEnum):
    """The exit statuses."""

    NOTHING_FOUND = 0
    FINDINGS = 1
    WRONG_USE = 2
    TOOL_FAILED = 3
    INTERRUPTED = 130


def status_of(report: Report, *, require_support: bool = False, require_finite: bool = False) -> Exit:
    """Returns the exit status for a report whose known findings are marked.

    The tool's own failure outweighs findings. They outweigh a source that could not be captured, a report that compares
    nothing, and rows that were not run, or differ and were not judged. `require_support`: a row that is `unsupported`
    is a finding. `require_finite`: an output with NaN or infinities is one, on the reference too.
    """
    if report.totals.broken:
        return Exit.TOOL_FAILED
    if report.totals.new or (require_support and report.totals.words.get("unsupported", 0)):
        return Exit.FINDINGS
    if require_finite and not report.finite:
        return Exit.FINDINGS
    unknown = any(row.unknown for row in report.rows)
    return Exit.WRONG_USE if report.refused or report.nothing or unknown else Exit.NOTHING_FOUND


@contextmanager
def result_stream() -> Generator[TextIO]:
    """Yields the real standard output, and redirects descriptor 1 to standard error meanwhile."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    result = os.fdopen(kept, "w", encoding="utf-8", closefd=False)
    try:
        # Where something has replaced `sys.stdout`, the descriptor alone would not catch what Python prints.
        with redirect_stdout(sys.stderr):
            yield result
    finally:
        try:
            result.flush()
        finally:
            os.dup2(kept, 1)
            os.close(kept)


def complain(message: str) -> None:
    """Prints one line on standard error."""
    print("mindgap: " + " ".join(message.split()), file=sys.stderr)  # noqa: T201


def complain_refused(source: str, reason: object) -> None:
    """Prints that a source is refused, and why. The source is named once."""
    words = str(reason)
    complain(f"refused: {'' if words.startswith(source) else f'{source}: '}{words}")
