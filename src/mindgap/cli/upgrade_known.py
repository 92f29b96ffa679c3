"""Marks what a baseline or a ledger knows of an upgrade."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from mindgap.cli.known_findings import MarkKnown
from mindgap.findings.baseline import Known, known_as
from mindgap.workflows.diff import Report, Row
from mindgap.workflows.diff.upgrade import TO_LOOK_AT, PlatformUpgrade


def marked(found: Sequence[PlatformUpgrade], mark_known: MarkKnown) -> list[PlatformUpgrade]:
    """Marks what the baseline knows, in all platforms at once: what one lacks another may have. A baseline is asked for
    what is to be looked at only: a finding of the old version must not hide one of the new version. It knows what is
    lost by its operator; a ledger does not."""
    calm = {
        (number, at): dataclasses.replace(row, verdict="rounding", faults=())
        for number, each in enumerate(found)
        for at, (row, change) in enumerate(zip(each.report.rows, each.changes, strict=True))
        if row.finding and change not in TO_LOOK_AT
    }
    lost = {
        (row.model, row.platform)
        for each in found
        for row, change in zip(each.report.rows, each.changes, strict=True)
        if change == "lost"
    }

    def keys(row: Row) -> tuple[Known, ...]:
        if (row.model, row.platform) not in lost:
            return known_as(row)
        return (Known(row.model, row.platform, "lost", row.culprit.op if row.culprit else ""),)

    rows = iter(mark_known(together(found, calm), keys).rows)
    told: list[PlatformUpgrade] = []
    for number, each in enumerate(found):
        new = [next(rows) for _ in each.report.rows]
        kept = [each.report.rows[at] if (number, at) in calm else row for at, row in enumerate(new)]
        told.append(dataclasses.replace(each, report=dataclasses.replace(each.report, rows=tuple(kept))))
    return told


def together(found: Sequence[PlatformUpgrade], instead: Mapping[tuple[int, int], Row] | None = None) -> Report:
    """One report of all platforms, for what looks at its rows only. `instead`: rows by platform and position."""
    first = found[0].report
    models = {model.name: model for each in found for model in each.report.models}
    rows = [
        (instead or {}).get((number, at), row)
        for number, each in enumerate(found)
        for at, row in enumerate(each.report.rows)
    ]
    return dataclasses.replace(first, models=tuple(models.values()), rows=tuple(rows))
