"""Decides the exit status of every command."""

from __future__ import annotations

from enum import IntEnum

from mindgap.diff import Report


class Exit(IntEnum):
    """The exit statuses."""

    NOTHING_FOUND = 0
    FINDINGS = 1
    WRONG_USE = 2
    TOOL_FAILED = 3
    INTERRUPTED = 130


def status_of(report: Report, *, require_support: bool = False) -> Exit:
    """Returns the exit status for a report whose known findings are marked.

    The tool's own failure outweighs findings, which outweigh a source that could not be captured. Rows that
    are all `unsupported` are no finding unless support is required; a report that compares nothing for
    another reason is wrong use.
    """
    if report.totals.broken:
        return Exit.TOOL_FAILED
    unsupported = report.totals.words.get("unsupported", 0)
    if report.totals.new or (require_support and unsupported):
        return Exit.FINDINGS
    if report.refused or (report.nothing and unsupported != len(report.rows)) or not report.rows:
        return Exit.WRONG_USE
    return Exit.NOTHING_FOUND
