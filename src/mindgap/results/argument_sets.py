"""Joins the rows of several sets of arguments of one program into one row for each platform, the worst first."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Final

from mindgap.results.rows import SEVERITY, WITHOUT_VERDICT, Model, NonFinite, Report, Row

_FILE: Final = re.compile(r"(?<=[?&]inputs=)[^&'\s]+")


def joined(report: Report, groups: Mapping[str, str]) -> Report:
    """Returns the report with one model, and one row for each platform, in place of those of a group.

    `groups`: the name of a model -> the name of its group. A row is the one of the worst set of arguments, with the
    faults of the others that it lacks; its detail begins with which set that is, and what the others gave.
    """
    models: dict[str, list[Model]] = {}
    rows: dict[tuple[str, str], list[Row]] = {}
    for model in report.models:
        models.setdefault(groups.get(model.name, model.name), []).append(model)
    for row in report.rows:
        rows.setdefault((groups.get(row.model, row.model), row.platform), []).append(row)
    return dataclasses.replace(
        report,
        models=tuple(_model(name, sets) for name, sets in models.items()),
        rows=tuple(_row(name, sets) for (name, _), sets in rows.items()),
    )


def _model(name: str, sets: Sequence[Model]) -> Model:
    if len(sets) == 1:
        return dataclasses.replace(sets[0], name=name)
    costs = [model.quantisation_cost for model in sets if model.quantisation_cost is not None]
    return dataclasses.replace(
        sets[0], name=name, source=_of_all_sets([m.source for m in sets]), argument_sets=len(sets),
        reference_digests=tuple(digest for model in sets for digest in model.reference_digests),
        non_finite=_non_finite([model.non_finite for model in sets]),
        quantisation_cost=max(costs, key=lambda each: (bool(each.reason), each.largest), default=None),
    )  # fmt: skip


def _of_all_sets(sources: Sequence[str]) -> str:
    """The arguments of a command line that open all sets again: with all files, or without the number of the first."""
    files = ",".join(_FILE.findall(" ".join(sources)))
    return re.sub(r"[?&]arguments=1\b", "", _FILE.sub(files, sources[0], count=1))


def _row(name: str, sets: Sequence[Row]) -> Row:
    if len(sets) == 1:
        return dataclasses.replace(sets[0], model=name)
    ordered = sorted(sets, key=_rank)
    worst, faults = ordered[0], list(ordered[0].independent_faults)
    known = {(fault.verdict, fault.culprit) for fault in faults}
    for row in ordered[1:]:
        more = [fault for fault in row.independent_faults if (fault.verdict, fault.culprit) not in known]
        faults += [dataclasses.replace(fault, detail=f"{_label(row)}: {fault.detail.strip()}") for fault in more]
        known |= {(fault.verdict, fault.culprit) for fault in more}
    others = ", ".join(f"{_label(row)}: {row.word.replace('_', ' ')}" for row in sets if row is not worst)
    label = f"{_label(worst)} ({others})"
    if faults:
        faults[0] = dataclasses.replace(faults[0], detail=f"{label}: {faults[0].detail.strip()}")
    return dataclasses.replace(
        worst, model=name, detail=f"{label}: {worst.detail.strip()}", faults=tuple(faults),
        digests=tuple(digest for row in sets for digest in row.digests),
        non_finite=_non_finite([row.non_finite for row in sets]),
        weaknesses=tuple(dict.fromkeys(each for row in ordered for each in row.weaknesses)),
        contradictions=tuple({each.output: each for row in ordered[::-1] for each in row.contradictions}.values()),
        decisions=tuple(dict.fromkeys(each for row in ordered for each in row.decisions)),
    )  # fmt: skip


def _rank(row: Row) -> tuple[int, float]:
    """Where a row stands: findings first, then what has no verdict, then calm rows; equal ones by their distance."""
    order = WITHOUT_VERDICT.index(row.word) if row.word in WITHOUT_VERDICT else SEVERITY.index(row.word)
    tier = 0 if row.finding else 1 if row.word in WITHOUT_VERDICT else 2
    return tier * 100 + order, -float(row.metrics.get("relative_error") or 0.0)


def _label(row: Row) -> str:
    """What stands in parentheses at the end of a set's name: `arguments 2`, `batch.npz`."""
    return row.model.rpartition(" (")[2].partition(")")[0]


def _non_finite(sets: Sequence[Sequence[NonFinite]]) -> tuple[NonFinite, ...]:
    """The counts of all sets together, by output."""
    by_output: dict[int, NonFinite] = {}
    for each in (each for one in sets for each in one):
        before = by_output.get(each.output, NonFinite(each.output, 0, 0))
        by_output[each.output] = NonFinite(each.output, before.count + each.count, before.elements + each.elements)
    return tuple(by_output[output] for output in sorted(by_output))
