"""Marks the findings of a report that a file knows, so that only new findings fail a build.

The file is a baseline (JSON) or a ledger of known issues (TOML, `mindgap.findings.causes.ledger`). A finding is one
fault of a row, so that a new fault beside a known one is new. In a baseline its key is model, platform, verdict and
culprit operator. None of them depends on weights, seeds, machines or the size of an error. A baseline is sorted JSON
with one finding per line, readable in a diff. A ledger knows causes, which its entries describe.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import MindgapError
from mindgap.platforms.environments import EnvironmentProblem
from mindgap.platforms.listing import package_versions
from mindgap.platforms.name import PlatformName, recorded
from mindgap.results.rows import Report, Row

if TYPE_CHECKING:
    from mindgap.findings.causes import Cause
    from mindgap.findings.causes.ledger import Ledger, Review

_VERSION: Final = 1
_FIELDS: Final = ("model", "platform", "verdict", "culprit")


@dataclass(frozen=True, slots=True, order=True)
class Known:
    """One known finding. `verdict`: `lost` of what an upgrade refuses. `culprit`: an operator; empty if none was
    found."""

    model: str
    platform: PlatformName
    verdict: str
    culprit: str = ""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A set of known findings."""

    known: frozenset[Known] = frozenset()

    @staticmethod
    def load(path: Path | str) -> Baseline:
        """Reads a baseline file. Raises `MindgapError` if it is missing or damaged."""
        path = Path(path)
        try:
            data: Any = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise MindgapError(f"no baseline {path}: make it with --update-baseline") from None
        except (OSError, ValueError) as error:
            raise MindgapError(f"baseline {path} cannot be read: {error}") from None
        if not isinstance(data, dict) or data.get("mindgap_baseline") != _VERSION:  # pyright: ignore[reportUnknownMemberType] # any JSON
            raise MindgapError(f"{path} is not a baseline of version {_VERSION}: make it again with --update-baseline")
        entries: Any = data.get("findings")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] # any JSON
        if not isinstance(entries, list):
            raise MindgapError(f"baseline {path}: 'findings' is not a list")
        return Baseline(frozenset(_entry(path, number, entry) for number, entry in enumerate(entries)))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] # any JSON

    def text(self) -> str:
        """Returns the content of the file: equal baselines give equal texts."""
        lines = [json.dumps(dataclasses.asdict(known), ensure_ascii=False) for known in sorted(self.known)]
        body = ",\n  ".join(lines)
        findings = f"[\n  {body}\n ]" if lines else "[]"
        return f'{{\n "mindgap_baseline": {_VERSION},\n "findings": {findings}\n}}\n'

    def mark(self, report: Report, keys: Keys | None = None) -> Report:
        """Sets `known` on the faults that this baseline contains, and on the rows of which it contains every fault.

        `keys`: those of a row, by default its faults.
        """
        rows = (_marked(row, [key in self.known for key in (keys or known_as)(row)]) for row in report.rows)
        return dataclasses.replace(report, rows=tuple(rows))

    def updated(self, report: Report, keys: Keys | None = None) -> Baseline:
        """Returns the baseline after this report. Findings of pairs of model and platform that did not run stay."""
        ran = _ran(report)
        kept = {known for known in self.known if (known.model, known.platform) not in ran}
        return Baseline(frozenset(kept | {key for row in report.rows for key in (keys or known_as)(row)}))

    def gone(self, report: Report, keys: Keys | None = None) -> tuple[Known, ...]:
        """Returns known findings whose model and platform ran, but which did not occur again."""
        ran = _ran(report)
        found = {key for row in report.rows for key in (keys or known_as)(row)}
        return tuple(sorted(k for k in self.known - found if (k.model, k.platform) in ran))


#: What a baseline knows a row by: a key for each fault. A row without keys is asked of no file.
Keys = Callable[[Row], Sequence[Known]]


def _marked(row: Row, known: Sequence[bool]) -> Row:
    """The row with what is known of it. One without faults is known as a whole."""
    if not known:
        return row
    if row.finding:
        return row.with_known(known)
    return dataclasses.replace(row, known=all(known))


def _ran(report: Report) -> set[tuple[str, str]]:
    """The pairs of model and platform of which the report knows something."""
    return {(row.model, row.platform) for row in report.rows if not row.unknown}


def known_as(row: Row) -> tuple[Known, ...]:
    """Returns the baseline's key for each fault of a row; none for a calm row."""
    return tuple(
        Known(row.model, row.platform, fault.verdict, fault.culprit.op if fault.culprit else "")
        for fault in row.independent_faults
    )


def _entry(path: Path, number: int, entry: Any) -> Known:
    if not isinstance(entry, dict) or set(entry) != set(_FIELDS) or not all(isinstance(v, str) for v in entry.values()):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType, reportUnknownMemberType] # any JSON
        raise MindgapError(f"baseline {path}: finding {number} must have exactly the texts {', '.join(_FIELDS)}")
    return Known(**{**entry, "platform": recorded(entry["platform"])})  # pyright: ignore[reportUnknownArgumentType] # checked above


@dataclass(frozen=True, slots=True)
class MarkedReport:
    """What a file of known findings says of a report.

    `report`: with `known` set. `notes`: a line for each thing that a person must look at: what is gone, back, expired.
    `text`: the file's content after the report: what is new is in it, and what is gone is not, or has the day.
    """

    report: Report
    notes: tuple[str, ...]
    text: str


def load_known(path: Path, *, create: bool = False) -> Baseline | Ledger:
    """Reads a file of known findings: a ledger where its name ends in `.toml`, else a baseline.

    `create`: a file that is missing is empty. Raises `MindgapError` for one that is missing or damaged.
    """
    if path.suffix == ".toml":
        return load_ledger(path, create=create)
    return Baseline() if create and not path.exists() else Baseline.load(path)


def load_ledger(path: Path, *, create: bool = False) -> Ledger:
    """Reads a ledger. `create`: one that is missing is empty. Raises `MindgapError` for a bad file."""
    from mindgap.findings.causes.ledger import Ledger

    return Ledger() if create and not path.exists() else Ledger.load(path)


def mark_known(
    known: Baseline | Ledger, report: Report, *, accept: bool = False, keys: Keys | None = None
) -> MarkedReport:
    """Marks what a file knows of a report. `accept`: what is new is known, since the file gets it.

    `keys`: what a baseline knows a row by, by default its faults. Rows without keys stay as they are.
    """
    keys = keys or known_as
    if not isinstance(known, Baseline):
        return _by_ledger(known, report, accept, keys)
    notes = tuple(
        f"no longer found, and still in the baseline: {gone.model} on {gone.platform}: {gone.verdict}"
        for gone in known.gone(report, keys)
    )
    updated = known.updated(report, keys)
    return MarkedReport((updated if accept else known).mark(report, keys), notes, updated.text())


def review_causes(ledger: Ledger, causes: Sequence[Cause], platforms: Iterable[PlatformName]) -> tuple[Review, str]:
    """What a ledger says of causes today, and its text after that, with what is new and gone.

    `platforms`: those of which all causes are there.
    """
    review = ledger.review(causes, platforms, partial(_versions, sorted(ledger.packages)), date.today())
    return review, ledger.updated(review, date.today())


def _versions(packages: Sequence[str], platform: PlatformName) -> Mapping[str, str]:
    """The versions where a platform runs; none for one of an environment that is not on this machine."""
    try:
        return package_versions(platform, packages) if packages else {}
    except EnvironmentProblem:
        return {}


def _by_ledger(ledger: Ledger, report: Report, accept: bool, keys: Keys) -> MarkedReport:
    from mindgap.findings.causes import causes_of_rows  # imports PyTorch

    apart = [row.by_fault if keys(row) else () for row in report.rows]
    pairs = causes_of_rows(fault for faults in apart for fault in faults)
    ran = {row.platform for row in report.rows if row.verdict is not None}
    ran -= {row.platform for row in report.rows if row.unknown}
    review, text = review_causes(ledger, [cause for cause, _ in pairs], ran)
    states = ("known", "new") if accept else ("known",)
    known = {
        id(fault) for cause, (_, faults) in zip(review.causes, pairs, strict=True) if cause.state in states
        for fault in faults
    }  # fmt: skip
    advice = {
        id(fault): ledger.workaround_of(cause)
        for cause, (_, faults) in zip(review.causes, pairs, strict=True)
        for fault in faults
    }
    rows = (
        _with_workarounds(
            _marked(row, [id(fault) in known for fault in faults if fault.finding]),
            [advice.get(id(fault), "") for fault in faults if fault.finding],
        )
        for row, faults in zip(report.rows, apart, strict=True)
    )
    return MarkedReport(dataclasses.replace(report, rows=tuple(rows)), tuple(review.lines), text)


def _with_workarounds(row: Row, texts: Sequence[str]) -> Row:
    """The row with a ledger's work-around as the advice of each fault that has one."""
    if not any(texts):
        return row
    faults = tuple(
        dataclasses.replace(fault, advice=text or fault.advice)
        for fault, text in zip(row.faults, texts if row.faults else (), strict=True)
    )
    return dataclasses.replace(row, faults=faults, advice=texts[0] or row.advice)
