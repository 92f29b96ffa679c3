"""Reads and writes a file of known findings, so that only new findings fail a build.

A finding is one fault of a row, so that a new fault beside a known one is new. Its key is model, platform, verdict and
culprit operator. None of them depends on weights, seeds, machines or the size of an error. The file is sorted JSON with
one finding per line, readable in a diff.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mindgap.graph import MindgapError
from mindgap.results.rows import Report, Row

_VERSION: Final = 1
_FIELDS: Final = ("model", "platform", "verdict", "culprit")


@dataclass(frozen=True, slots=True, order=True)
class Known:
    """One known finding. `verdict`: `lost` of what an upgrade refuses. `culprit`: an operator; empty if none was
    found."""

    model: str
    platform: str
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


#: What a baseline knows a row by.
Keys = Callable[[Row], Sequence[Known]]


def _marked(row: Row, known: Sequence[bool]) -> Row:
    """The row with what is known of it. One without faults is known as a whole."""
    if row.finding:
        return row.with_known(known)
    return dataclasses.replace(row, known=bool(known) and all(known))


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
    return Known(**entry)  # pyright: ignore[reportUnknownArgumentType] # checked above
