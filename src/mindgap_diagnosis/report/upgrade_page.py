"""Writes the page of an upgrade: changes, the operator of each, which version is right, scripts that show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mindgap.report.page import template
from mindgap.report.words import METRICS, MORE_METRICS
from mindgap.workflows.diff import Row
from mindgap_diagnosis.versions.upgrade import CHANGES, Change, PlatformUpgrade, Upgrade
from mindgap_diagnosis.versions.version_changes import ReducedChange

#: What each change means, for people.
MEANINGS: Final[Mapping[Change, str]] = {
    "worse": "the new version is wrong, or fails",
    "changed": "they differ by more than rounding, and which is right is undecided",
    "lost": "the new version refuses what the old one ran",
    "unknown": "not run, or not judged",
    "better": "the old version was wrong, or failed",
    "gained": "the old version refused it",
    "calm": "other bits, by no more than rounding",
    "same": "the same bits",
    "absent": "neither version runs it",
}
_RIGHT: Final[Mapping[Change, str]] = {
    "worse": "the old version", "lost": "the old version", "better": "the new version", "gained": "the new version",
    "changed": "undecided",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """One model on one platform. `right`: the version that is right, empty where nothing is to be decided."""

    upgrade: PlatformUpgrade
    row: Row
    change: Change
    right: str
    reduced: tuple[ReducedChange, ...]

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that cause the change: of each fault, else of the reduced graphs."""
        named = [fault.culprit.op for fault in self.row.independent_faults if fault.culprit is not None]
        named += [] if named or self.row.culprit is None else [self.row.culprit.op]
        operators_named = named or [
            op for each in self.reduced if each.summary is not None for op in each.summary.operators
        ]
        return tuple(dict.fromkeys(operators_named))


def upgrade_page(upgraded: Upgrade, reduced: Sequence[ReducedChange], scripts: Mapping[str, str]) -> str:
    """Writes the page, one HTML document without external files. `scripts`: texts by the names of their files."""
    rows = [
        ChangedRow(each, row, change, _RIGHT.get(change, ""), _of(reduced, row))
        for each in upgraded.platforms
        for row, change in zip(each.report.rows, each.changes, strict=True)
    ]
    totals = {change: sum(each.change == change for each in rows) for change in CHANGES}
    return template("upgrade.html.j2", Path(__file__).parent).render(
        upgraded=upgraded,
        rows=sorted(rows, key=lambda each: CHANGES.index(each.change)),
        rank={change: number for number, change in enumerate(CHANGES)},
        totals={change: count for change, count in totals.items() if count},
        changes=MEANINGS,
        refused={each.source: each.reason for one in upgraded.platforms for each in one.report.refused},
        reduced=reduced,
        scripts=scripts,
        figures={**METRICS, **MORE_METRICS},
    )


def _of(reduced: Sequence[ReducedChange], row: Row) -> tuple[ReducedChange, ...]:
    return tuple(each for each in reduced if each.platform == row.platform and row.model in each.models)
