"""Errors that carry the report of a comparison."""

from __future__ import annotations

from mindgap.results.rows import Report
from mindgap.results.store import StoreError


class DiffInterrupted(KeyboardInterrupt):
    """A comparison was interrupted. `report`: the models, rows and refusals that were known by then."""

    def __init__(self, report: Report) -> None:
        super().__init__("interrupted")
        self.report = report


class StoreNotWritten(StoreError):
    """The comparison ended, and the store could not be written. `report`: the whole report."""

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report
