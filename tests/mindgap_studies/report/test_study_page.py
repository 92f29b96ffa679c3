"""The page of a study: its figures are the tables', what is missing is loud, and a browser draws it."""

from __future__ import annotations

import dataclasses
import html
import re
from pathlib import Path
from typing import Any

import pytest

from gap.gap_rows import made
from mindgap.results.store import Store
from mindgap_studies import StudyTable, records
from mindgap_studies.gap import PUBLISHED, Study, gap
from mindgap_studies.report.gap_charts import chart_of
from mindgap_studies.report.gap_page import gap_page
from mindgap_surveys.report.study_page import cell_text, coded, percent, study_page
from report.browser import needs_chromium
from report.test_page import browse


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    store = Store(tmp_path_factory.mktemp("store"))
    made(store, 0)
    return gap(store)


def written(study: Study) -> str:
    return study_page(gap_page(study))


def changed(study: Study, name: str, **more: Any) -> Study:
    """The study with another table of this name."""
    tables = tuple(dataclasses.replace(t, **more) if t.name == name else t for t in study.tables)
    return dataclasses.replace(study, tables=tables)


def test_its_numbers_are_the_totals(study: Study) -> None:
    page = written(study)
    whole = records(study.table("totals"))[-1]
    figures = dict(re.findall(r'<b class="answer">([\d,]+)</b><span>([a-z ]+)</span>', page))
    shown = {what: int(count.replace(",", "")) for count, what in figures.items()}
    assert (shown["comparisons"], shown["findings"]) == (whole["rows"], whole["findings"])
    assert "all agree" in page and "do not agree" not in page


def test_every_table_has_its_rows_its_query_and_what_others_published(study: Study) -> None:
    page = written(study)
    for table in study.tables:
        begin = page.index(f'<h2 id="{table.name}">')
        part = page[begin : page.index("<h2 ", begin + 1)]
        assert table.query in html.unescape(part)
        ours = part.split('class="theirs"')[0]
        assert ours.count("<tr") == (min(250, len(table.rows)) + 1 if table.rows else 0)
        assert ("Not ours" in part) == (table.name in PUBLISHED)


def test_an_empty_table_says_why_loudly(study: Study) -> None:
    page = written(changed(study, "consistency", rows=()))
    assert f'<p class="loud">No rows: {study.table("consistency").empty}.</p>' in page


def test_a_run_of_nothing_says_so_loudly(study: Study) -> None:
    nothing = dataclasses.replace(study, tables=tuple(dataclasses.replace(t, rows=()) for t in study.tables))
    page = written(nothing)
    assert 'class="loud">Nothing was compared' in page and page.count("No rows: ") == len(study.tables)
    assert "<script>" not in page


def test_totals_that_do_not_agree_are_the_first_thing_on_the_page(study: Study) -> None:
    wrong = dataclasses.replace(study.checks[0], what="rows <here> and there", left=3, right=4)
    page = written(dataclasses.replace(study, checks=(wrong, *study.checks[1:])))
    assert "rows &lt;here&gt; and there: 3 ≠ 4" in page and 'id="reconciled"' not in page
    assert page.index("≠") < page.index("<h2 ")


def test_what_was_not_judged_or_not_finished_is_loud(study: Study) -> None:
    whole = records(study.table("totals"))[-1]
    assert whole["unjudged"] and f"{whole['unjudged']} rows differ and were not judged" in written(study)
    assert "has not come to its end" in written(dataclasses.replace(study, seconds=None))


def test_what_platforms_say_is_text_and_never_markup(study: Study) -> None:
    nasty = "<script>alert(1)</script>"
    rows = tuple(tuple(nasty if isinstance(c, str) else c for c in row) for row in study.table("signatures").rows)
    page = written(changed(study, "signatures", rows=rows))
    assert nasty not in page and html.escape(nasty) in page
    charted = tuple((nasty, *row[1:]) for row in study.table("failures").rows)
    assert nasty not in written(changed(study, "failures", rows=charted))


def test_columns_of_zeros_are_named_and_long_tables_cut(study: Study) -> None:
    table = study.table("signatures")
    page = written(changed(study, "signatures", rows=(table.rows * 90)[:300]))
    assert "… and 50 more rows" in page
    totals = study.table("totals")
    position = totals.columns.index("structural")
    rows = tuple((*row[:position], 0, *row[position + 1 :]) for row in totals.rows)
    assert "Zero everywhere: export, structural, not run." in written(changed(study, "totals", rows=rows))


def test_cells() -> None:
    assert [percent(x) for x in (0.0, 0.00001, 0.0021, 0.141, 0.99999, 1.0)] == [
        "0 %", "< 0.01 %", "0.21 %", "14.1 %", "> 99.99 %", "100 %",
    ]  # fmt: skip
    assert cell_text("share_failed", None) == "–" and cell_text("models", 12345) == "12,345"
    assert cell_text("median_slowdown", 2.456) == "2.46×" and cell_text("median_seconds", 0.0123) == "12.3 ms"
    assert [cell_text("median_nodes", x) for x in (1000.5, 12.0, 12.5)] == ["1,000", "12", "12.5"]
    assert cell_text("supported", False) == "no" and cell_text("cause", "time_out") == "time out"
    assert coded("of `a<b` and c") == "of <code>a&lt;b</code> and c"


@pytest.mark.parametrize("name", ["failures", "consistency", "compiled", "slowdown", "classes", "precision"])
def test_a_chart_shows_what_its_table_says(study: Study, name: str) -> None:
    table = study.table(name)
    drawn = chart_of(table)
    assert drawn is not None and chart_of(StudyTable(name, "", table.columns, (), "", "")) is None
    svg = drawn.svg()
    if "platform" in table.columns:
        there = {row["platform"] for row in records(table)} - {"all"}
        assert all(f">{platform}</text>" in svg for platform in there)


@pytest.mark.browser
@needs_chromium
@pytest.mark.parametrize("empty", [False, True], ids=["full", "empty"])
def test_a_browser_draws_it_without_complaint_or_request(study: Study, tmp_path: Path, empty: bool) -> None:
    if empty:
        study = dataclasses.replace(study, tables=tuple(dataclasses.replace(t, rows=()) for t in study.tables))
    drawn, complaints = browse(written(study), tmp_path)
    assert not complaints
    charts = [t.name for t in study.tables if chart_of(t)]
    assert bool(charts) != empty and drawn.count("</svg>") == len(charts)
