"""Finds what a store already has of a comparison of one platform with its reference."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mindgap.platforms.listing import platform_info
from mindgap.platforms.name import PlatformName
from mindgap.results.rows import Report

if TYPE_CHECKING:
    from mindgap.results.store import Store


def earlier_report(store: Store, reference: PlatformName, platform: PlatformName) -> Report | None:
    """What runs of the store have found of these two, with the versions that are installed now; None where nothing.

    Rows that say nothing (not run, not judged) are left out, with their models.
    """
    from mindgap.results.from_store import report_of, runs  # imports Arrow

    versions = {name: dict(platform_info(name).versions) for name in (reference, platform)}
    earlier: Report | None = None
    for run in runs(store):
        report = report_of(store, run)
        facts = {fact.platform: dict(fact.versions) for fact in report.platforms}
        same = all(facts.get(name) == versions[name] for name in versions)
        if report.reference == reference and {row.platform for row in report.rows} == {platform} and same:
            rows = tuple(row for row in report.rows if not row.unknown and not row.broken)
            known = {row.model for row in rows}
            models = tuple(model for model in report.models if model.name in known)
            report = dataclasses.replace(report, rows=rows, models=models, refused=())
            earlier = report if earlier is None else joined(earlier, report, ())
    return earlier


def row_names(report: Report) -> set[str]:
    """The models that have a row."""
    return {row.model for row in report.rows}


def joined(earlier: Report | None, later: Report, order: Sequence[str]) -> Report:
    """One report of both, in the given order of models. Of a model that both have, the later one's."""
    if earlier is None:
        return later
    models = {model.name: model for report in (earlier, later) for model in report.models}
    rows = {row.model: row for report in (earlier, later) for row in report.rows}
    rank = {name: number for number, name in enumerate(order)}
    names = sorted(rows, key=lambda name: rank.get(name, len(rank)))
    if order:
        names = [name for name in names if name in rank]
    return dataclasses.replace(
        later,
        models=tuple(models[name] for name in names if name in models),
        rows=tuple(rows[name] for name in names),
        seconds=later.seconds if earlier is later else earlier.seconds + later.seconds,
    )
