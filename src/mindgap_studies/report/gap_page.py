"""Lays out the study of a store: totals first, then each table with its chart, its query and what others published."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mindgap.report.words import MEANINGS
from mindgap.results.failure_rules import CAUSES, TYPES
from mindgap_studies.gap import PUBLISHED, Published, Study
from mindgap_studies.gap.vocabulary import WORDS
from mindgap_studies.report.gap_charts import chart_of
from mindgap_surveys.report.study_page import Block, Figure, Folded, Section, StudyPage, Text, percent
from mindgap_surveys.table import StudyTable, column, records

#: Tables that every run has rows of, unless something is wrong.
_EXPECTED: Final = ("totals", "makeup", "failures", "consistency", "coverage")


def gap_page(study: Study) -> StudyPage:
    models = _total(study, "makeup", "models")
    figures = {
        "models": models,
        "outcomes": _total(study, "failures", "outcomes"),
        "without outputs": _total(study, "failures", "failed"),
        "comparisons": _total(study, "totals", "rows"),
        "findings": _total(study, "totals", "findings"),
        "distinct causes": len({row[:3] for row in study.table("findings").rows}),
    }
    pairs = ((each, "=" if each.left == each.right else "≥" if each.holds else "≠") for each in study.checks)
    rows = tuple((each.what, each.left, sign, each.right) for each, sign in pairs)
    checks = StudyTable("", f"{len(study.checks)} pairs of counts", ("what", "count", "", "other_count"), rows)
    return StudyPage(
        f"What platforms did with {models:,} model{'' if models == 1 else 's'}",
        tuple(_lead(study)),
        (
            *(Section(table.name, table.title, tuple(_blocks(study, table))) for table in study.tables),
            Section("checks", "Totals that agree", (Folded(checks.title, (checks,)),), "page"),
        ),
        tuple(Figure(count, what) for what, count in figures.items()),
        frozenset((*WORDS, *CAUSES, *TYPES)),
        {word: meaning for word, (_, meaning) in MEANINGS.items()},
    )  # fmt: skip


def _lead(study: Study) -> Iterator[Text]:
    """Yields what the run is, how many totals agree, and warnings."""
    took = "" if study.seconds is None else f" · {study.seconds:,.0f} s"
    yield Text(
        f"Run `{study.run}` ({study.kind}) against `{study.reference}` · {study.created} · "
        f"mindgap {study.version}{took}"
    )
    if study.seconds is None:
        yield Text(
            "This run has not come to its end: it goes on, or it was cut short. The tables hold what it had written.",
            "loud",
        )
    every, wrong = len(study.checks), study.wrong
    if wrong:
        advice = (
            "what was written between two queries is in one of them only: ask again when the run has come to its end."
            if study.seconds is None
            else "no figure that they touch can be trusted."
        )
        counts = "; ".join(f"{each.what}: {each.left:,} ≠ {each.right:,}" for each in wrong)
        yield Text(f"{len(wrong)} of {every} totals do not agree: {advice} {counts}", "loud")
    else:
        yield Text(f"{every} totals were counted twice, by queries that know nothing of one another; all agree.")
    totals = study.table("totals")
    whole = records(totals)[-1] if totals.rows else dict.fromkeys(totals.columns, 0)
    if not whole["rows"]:
        yield Text("Nothing was compared: no platform besides the reference has a row in this run.", "loud")
    elif not whole["ran"]:
        yield Text("No platform besides the reference ran any model.", "loud")
    if count := whole["not_judged"]:
        yield Text(f"mindgap itself failed on {count:,} row{'s' * (count != 1)}: nothing is known of them.", "loud")
    if count := whole["unjudged"]:
        differ = "row differs and was" if count == 1 else "rows differ and were"
        yield Text(f"{count:,} {differ} not judged within the limits of the run: findings may be among them.", "loud")


def _blocks(study: Study, table: StudyTable) -> Iterator[Block]:
    """Yields a table, its chart, what others published, and its query."""
    if drawn := chart_of(table):
        yield drawn
    if table.rows or table.name not in _EXPECTED:
        yield table
    else:
        yield Text(f"No rows: {table.empty}.", "loud")
    if table.name in PUBLISHED:
        yield _published(PUBLISHED[table.name])
    yield Folded("The query", (Text(f"-- $run = '{study.run}'\n{table.query}", "code"),))


def _published(theirs: Published) -> Folded:
    rows = tuple(tuple(percent(cell) if isinstance(cell, float) else cell for cell in row) for row in theirs.rows)
    return Folded(
        f"Not ours: published in {theirs.source}", (StudyTable("", "", theirs.columns, rows, theirs.note),), shown=True
    )


def _total(study: Study, table: str, name: str) -> int:
    return next(iter(column(study.table(table), name)[-1:]), 0)
