"""A total that is off by one anywhere is found."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from gap.gap_rows import made
from mindgap.results.store import Store
from mindgap_studies import StudyTable
from mindgap_studies.gap import Check, Study, checks, gap


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    store = Store(tmp_path_factory.mktemp("store"))
    made(store, 0)
    return gap(store)


COUNTS = {
    "totals": ("rows", "ran", "findings", "failed", "rounding", "unsupported", "no_reference", "discrepant"),
    "makeup": ("models",),
    "failures": ("outcomes", "ran", "failed", "crash", "other", "unsupported_operator"),
    "signatures": ("outcomes",),
    "compile_failures": ("failed", "stalled", "reference_failed_too"),
    "consistency": ("compared", "consistent", "wrong", "rounding", "beyond_paper"),
    "tolerances": ("compared", "agree_wrong", "the_tolerance_misses", "only_the_tolerance_alarms"),
    "compiled": ("consistent_in_eager", "identical", "rounding", "failed"),
    "coverage": ("packets_given", "packets_ran", "backward_ran"),
    "findings": ("findings",),
    "slowdown": ("models",),
    "ported": ("models", "fast_and_right", "slow_and_wrong"),
    "precision": ("models",),
}


@pytest.mark.parametrize(("name", "count"), [(name, count) for name, counts in COUNTS.items() for count in counts])
def test_one_more_in_any_cell_shows(study: Study, name: str, count: str) -> None:
    tables = {table.name: table for table in study.tables}
    for number, row in enumerate(tables[name].rows):
        wrong = [c for c in checks({**tables, name: one_more(tables[name], number, count)}) if not c.holds]
        assert wrong, f"row {row[:2]} of {name}"


def test_slower_models_are_those_of_the_list(tmp_path: Path) -> None:
    """A comparison lists the time of each model; a campaign does not."""
    store = Store(tmp_path)
    made(store, 2, kind="diff")
    tables = {table.name: table for table in gap(store).tables}
    assert all(check.holds for check in checks(tables)) and tables["ported"].rows
    for number in range(len(tables["ported"].rows)):
        wrong = [c for c in checks({**tables, "ported": one_more(tables["ported"], number, "slower")}) if not c.holds]
        assert "ported and model times" in " ".join(check.what for check in wrong)


def one_more(table: StudyTable, number: int, count: str) -> StudyTable:
    row = list(table.rows[number])
    row[table.columns.index(count)] += 1
    return dataclasses.replace(table, rows=(*table.rows[:number], tuple(row), *table.rows[number + 1 :]))


def test_at_least() -> None:
    assert Check("", 3, 2, at_least=True).holds and not Check("", 2, 3, at_least=True).holds
    assert not Check("", 3, 2).holds and Check("", 2, 2).holds


def test_an_empty_run_has_nothing_to_disagree_about(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made(store, 1)
    tables = {table.name: dataclasses.replace(table, rows=()) for table in gap(store).tables}
    assert all(check.holds for check in checks(tables))
