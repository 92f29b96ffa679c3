"""Marks known findings of a report, from a baseline (JSON) or a ledger of known issues (TOML)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mindgap.cli.outputs import write_file
from mindgap.cli.streams import complain
from mindgap.findings.baseline import Baseline, Keys, known_as
from mindgap.workflows.diff import Report

if TYPE_CHECKING:
    from mindgap.findings.causes import Cause
    from mindgap.findings.causes.ledger import Ledger


class MarkKnown(Protocol):
    """Marks the known findings of a report. `keys`: what a baseline knows a row by."""

    def __call__(self, report: Report, keys: Keys = known_as) -> Report: ...


def _unmarked(report: Report, keys: Keys = known_as) -> Report:
    return report


def known_findings(path: Path | None, update: bool) -> MarkKnown:
    """A function that marks the known findings of a report and says what is gone. `update`: it also writes the file.

    A baseline knows a row by the keys that are given with the report; a ledger looks at its faults. Raises
    `MindgapError` for a file that is missing or damaged.
    """
    if path is None:
        return _unmarked
    file = path if update else None
    if path.suffix == ".toml":
        return partial(_by_ledger, load_ledger(path, update), file)
    return partial(_by_baseline, Baseline() if update and not path.exists() else Baseline.load(path), file)


def load_ledger(path: Path, update: bool) -> Ledger:
    """Reads a ledger. `update`: one that is missing is empty. Raises `MindgapError` for a bad file."""
    from mindgap.findings.causes.ledger import Ledger

    return Ledger() if update and not path.exists() else Ledger.load(path)


def reviewed(ledger: Ledger, causes: Sequence[Cause], platforms: Iterable[str], file: Path | None) -> tuple[Cause, ...]:
    """The causes with their state, after a line on standard error for what is back, gone or expired.

    `platforms`: those of which all causes are there. `file`: the ledger is written to it with what is new and gone.
    """
    review = ledger.review(causes, platforms, partial(_versions, sorted(ledger.packages)), date.today())
    for line in review.lines:
        complain(line)
    if file is not None:
        write_file(file, ledger.updated(review, date.today()))
    return review.causes


def _versions(packages: Sequence[str], platform: str) -> Mapping[str, str]:
    """The versions where a platform runs; none for one of an environment that is not on this machine."""
    from mindgap.platforms.environments import EnvironmentProblem
    from mindgap.platforms.listing import package_versions

    try:
        return package_versions(platform, packages) if packages else {}
    except EnvironmentProblem:
        return {}


def _by_baseline(known: Baseline, file: Path | None, report: Report, keys: Keys = known_as) -> Report:
    for gone in known.gone(report, keys):
        complain(f"no longer found, and still in the baseline: {gone.model} on {gone.platform}: {gone.verdict}")
    if file is not None:
        known = known.updated(report, keys)
        write_file(file, known.text())
    return known.mark(report, keys)


def _by_ledger(ledger: Ledger, file: Path | None, report: Report, keys: Keys = known_as) -> Report:
    from mindgap.findings.causes import causes_of_rows

    apart = [row.by_fault for row in report.rows]
    pairs = causes_of_rows(each for rows in apart for each in rows)
    ran = {row.platform for row in report.rows if row.verdict is not None}
    ran -= {row.platform for row in report.rows if row.unknown}
    causes = reviewed(ledger, [cause for cause, _ in pairs], ran, file)
    # What an update has added is known now.
    calm = ("known",) if file is None else ("known", "new")
    known = {id(row) for cause, (_, rows) in zip(causes, pairs, strict=True) if cause.state in calm for row in rows}
    rows = zip(report.rows, apart, strict=True)
    marked = (row.with_known([id(each) in known for each in each_fault if each.finding]) for row, each_fault in rows)
    return replace(report, rows=tuple(marked))
