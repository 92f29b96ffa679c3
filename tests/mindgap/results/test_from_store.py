"""A report out of a store is the report that was made."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import pytest

from mindgap.graph import MindgapError, TensorStore
from mindgap.graph.compare.reason import Reason
from mindgap.report import html_page
from mindgap.results.advice import advised
from mindgap.results.from_store import report_of, runs, totals
from mindgap.results.recording import Recording, recording
from mindgap.results.report_json import decode_report
from mindgap.results.store import Store, StoreError
from mindgap.run.outcome import Outcome
from mindgap.workflows.diff import Report, RunSettings, Subject, diff_many
from report.report_sample import PLATFORMS, sample, with_three_faults
from results.store.store_rows import small_graph


def recorded(store: Store, seed: int = 0, finish: bool = True, report: Report | None = None) -> None:
    """A report (the sample), every row in it, written in an order that nobody promised."""
    report, graph = report or sample(), small_graph()
    with recording(store, RunSettings(report.reference), lambda platform: {"name": platform}) as record:
        sources = {model.name: model.source for model in report.models}
        record.begin(report.created, report.version, report.platforms, PLATFORMS, {"sources": sources})
        for position, model in enumerate(report.models):
            record.model(position, model, Outcome(report.reference, "g", model.reference_status))
        for position, refused in enumerate(report.refused):
            record.refused(position, refused)
        for row in random.Random(seed).sample(report.rows, len(report.rows)):
            facts = {} if row.delegation is None else row.delegation.as_fact()
            record.row(graph, row, Outcome(row.platform, "g", row.status, facts=facts))
        if finish:
            record.finish(report.seconds)


def bare(report: object) -> object:
    """Without digests, which the sample invents without outputs, and with the advice that a comparison adds."""
    strip = dataclasses.replace
    assert dataclasses.is_dataclass(report)
    models = tuple(strip(model, reference_digests=()) for model in report.models)  # type: ignore[attr-defined]
    rows = tuple(advised(strip(row, digests=())) for row in report.rows)  # type: ignore[attr-defined]
    return strip(report, models=models, rows=rows)


@pytest.mark.parametrize("seed", range(3))
def test_every_word_and_figure_comes_back_and_totals_reconcile(tmp_path: Path, seed: int) -> None:
    store = Store(tmp_path)
    recorded(store, seed)
    (run,) = runs(store)
    found = report_of(store)
    assert bare(found) == bare(sample())
    assert totals(store, run) == found.totals == sample().totals
    assert html_page(bare(found)) == html_page(bare(sample()))  # type: ignore[arg-type]


def test_the_faults_of_a_row_come_back_without_scripts(tmp_path: Path) -> None:
    report = with_three_faults()
    reasons = (Reason("fixed_value", size=0.5), Reason("custom_operator", names=("a::b",)))
    first, *others = report.rows[3].faults
    faulty = dataclasses.replace(
        report.rows[3], faults=(dataclasses.replace(first, reasons=reasons), *others), reasons=(Reason("by_export"),)
    )  # fmt: skip
    report = dataclasses.replace(report, rows=(*report.rows[:3], faulty, *report.rows[4:]))
    store = Store(tmp_path)
    recorded(store, report=report)
    found = report_of(store)
    assert found.rows[3].reasons == faulty.reasons
    faults = tuple(dataclasses.replace(each, script="", known=False) for each in report.rows[3].faults)
    assert found.rows[3].faults == faults and found.totals.faults == 7
    assert totals(store, runs(store)[0]) == found.totals
    assert decode_report(found.to_json()) == found


def test_a_row_that_was_judged_before_loses_its_faults(tmp_path: Path) -> None:
    """A later row of the same case, which no judge looked at, is one fault."""
    store, graph, row = Store(tmp_path), small_graph(), with_three_faults().rows[3]
    recorded(store, report=with_three_faults())
    later = dataclasses.replace(row, verdict="failed", status="crash", faults=(), timings={})
    with store.writer() as writer:
        record = Recording(store, writer, RunSettings("cpu/eager"), lambda _: {}, run=runs(store)[0])
        record.row(graph, later, Outcome(row.platform, "g", "crash"))
    assert report_of(store).rows[3].faults == () and report_of(store).totals.faults == 5


def test_a_store_without_the_table_of_faults_is_read(tmp_path: Path) -> None:
    """As an older mindgap wrote it, whose run counts no rows of that table."""
    store = Store(tmp_path)
    recorded(store, finish=False, report=with_three_faults())
    for segment in tmp_path.glob("tables/faults/*"):
        segment.unlink()
    found = report_of(Store(tmp_path))
    assert found.rows[3].faults == () and found.rows[3].culprit == with_three_faults().rows[3].culprit
    assert found.totals.faults == found.totals.findings == 5


def test_a_run_that_was_cut_short_is_reported_as_far_as_it_went(tmp_path: Path) -> None:
    store = Store(tmp_path)
    recorded(store, finish=False)
    assert report_of(store).seconds == 0.0 and report_of(store).totals == sample().totals


def test_runs_are_told_apart(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(StoreError, match="holds no run: `mindgap diff"):
        report_of(store)
    recorded(store)
    recorded(store)
    assert len(runs(store)) == 2 and report_of(store, runs(store)[0]).totals == sample().totals
    with pytest.raises(StoreError, match="holds no run yesterday"):
        report_of(store, "yesterday")


def test_rows_that_are_gone_are_missed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    recorded(store)
    for segment in tmp_path.glob("tables/models/*"):
        segment.unlink()
    with pytest.raises(StoreError, match=r"tables/models: 3 of 3 rows of run .* are gone"):
        report_of(store)


def test_a_real_run_comes_back_equal(tmp_path: Path) -> None:
    def refuses() -> None:
        raise MindgapError("no such model")

    subjects = [
        Subject("twin", small_graph, "zoo:twin"),
        Subject("twin", small_graph),
        Subject("none", refuses),  # type: ignore[arg-type]
    ]
    store, kept = Store(tmp_path / "s"), TensorStore(tmp_path / "t")
    report = diff_many(subjects, ["cpu/jit", "cpu/eager"], tensors=kept, store=store, jobs=1)
    assert report.totals.rows == 4 and report.totals.words == {"identical": 4} and report.totals.refused == 1
    assert report_of(store) == report
    assert json.loads(report_of(store).to_json()) == json.loads(report.to_json())
    assert html_page(report_of(store)) == html_page(report)
    described = store.rows("SELECT platform, description FROM platforms WHERE fingerprint <> '' ORDER BY platform")
    assert [row["platform"] for row in described] == ["cpu/eager", "cpu/jit"]
    assert all("torch" in row["description"] for row in described)
    (graph,) = store.rows("SELECT graph FROM graphs")
    assert store.get_graph(graph["graph"]) == small_graph()
