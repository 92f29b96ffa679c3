"""Rows judged in another process are the rows that are judged here, whatever becomes of the process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_source import GRAPHS, SmallSource, plan_text

from mindgap.graph import TensorStore
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.name import parse
from mindgap.results.rows import Row
from mindgap.results.settings import RunSettings
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool
from mindgap_campaign.campaign.cases.case import Case
from mindgap_campaign.campaign.judging.judge_process import (
    JudgeClosed,
    JudgeFailed,
    JudgeLimits,
    JudgeProcess,
    case_job,
)
from mindgap_campaign.campaign.plan import parse_plan

SETTINGS = RunSettings("toys:EXACT", deadline_s=60.0)


@pytest.fixture
def pool(toys_on_path: None) -> Iterator[WorkerPool]:
    with WorkerPool(["toys:EXACT", "toys:WRONG", "toys:FAILS", "toys:CRASHES"]) as pool:
        yield pool


@pytest.fixture
def starter() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


def cases(count: int) -> list[Case]:
    plan = parse_plan(plan_text(count, {"toys:WRONG": ""}), "p")
    return SmallSource(plan, list(GRAPHS)).block(0)


def bare(row: Row) -> Row:
    """Without what no two runs share."""
    return replace(row, timings={}, metrics={name: str(value) for name, value in row.metrics.items()})


def run(pool: WorkerPool, platform: str, case: Case) -> Outcome:
    return pool.run(Job(platform, case.graph))


def test_a_judge_that_is_closed_gives_no_row(tmp_path: Path, starter: ThreadPoolExecutor) -> None:
    """Nor does one whose process was started all the same and answered every job with `stop`."""
    (case,) = cases(1)
    outcome = Outcome(parse("toys:WRONG"), "", "ok")
    judging = JudgeProcess(JudgeLimits(SETTINGS, 60.0, 4 << 30, TensorStore(tmp_path)), lambda job: outcome, starter)
    judging.close()
    with pytest.raises(JudgeClosed):
        judging.row(case, outcome, outcome)
    assert judging.pid is None, "no process is started"


@pytest.mark.nightly
def test_rows_are_those_of_this_process_and_outlive_the_other(
    pool: WorkerPool, starter: ThreadPoolExecutor, tmp_path: Path
) -> None:
    tensors = TensorStore(tmp_path)
    judging = JudgeProcess(JudgeLimits(SETTINGS, 60.0, 4 << 30, tensors), pool.run, starter)
    (case,) = cases(1)
    found: list[Row] = []
    for platform in ("toys:WRONG", "toys:FAILS"):
        outcome, reference = run(pool, platform, case), run(pool, "toys:EXACT", case)
        row = judging.row(case, outcome, reference)
        here = GraphComparison(RunContext(pool.run, SETTINGS, tensors), case.name, case.graph, reference).decide(
            outcome
        )
        assert bare(row) == bare(here)
        assert row.timings["judge"] > 0
        found.append(row)
        # Killed in between, it is started again.
        assert judging.pid is not None
        os.kill(judging.pid, signal.SIGKILL)
    assert [row.verdict for row in found] == ["discrepant", "failed"]
    assert found[0].culprit is not None and found[0].culprit.op == "aten.exp.default"
    judging.close()
    assert judging.pid is None


@pytest.mark.nightly
def test_outputs_that_came_with_their_digests_are_not_computed_again(
    pool: WorkerPool, starter: ThreadPoolExecutor, tmp_path: Path
) -> None:
    (case,) = cases(1)
    whole: list[Job] = []

    def execute(job: Job) -> Outcome:
        if job.graph == case.graph and not job.inputs:
            whole.append(job)
        return pool.run(job)

    judging = JudgeProcess(JudgeLimits(SETTINGS, 60.0, 4 << 30, TensorStore(tmp_path)), execute, starter)
    bare_outcomes = run(pool, "toys:WRONG", case), run(pool, "toys:EXACT", case)
    again = judging.row(case, *bare_outcomes)
    assert [job.platform for job in whole if job.want == "outputs"] == ["toys:WRONG", "toys:EXACT"]
    assert judging.pid is not None
    # What it knows of the graph goes with the process.
    os.kill(judging.pid, signal.SIGKILL)
    whole.clear()
    plan = parse_plan(plan_text(1, {"toys:WRONG": ""}), "p")
    outcomes = [pool.run(case_job(plan, name, case.graph)) for name in ("toys:WRONG", "toys:EXACT")]
    once = judging.row(case, outcomes[0], outcomes[1])
    assert not [job for job in whole if job.want == "outputs"]
    assert bare(once) == bare(again)
    judging.close()


@pytest.mark.nightly
def test_what_a_platform_does_to_dtypes_reaches_the_judge(
    pool: WorkerPool, starter: ThreadPoolExecutor, tmp_path: Path
) -> None:
    asked: list[str] = []

    def describe(platform: str) -> dict[str, Any]:
        asked.append(platform)
        return {"dtypes": {"float32": {"computes_in": "float16", "returns": "float32"}}}

    (case,) = cases(1)
    outcome, reference = run(pool, "toys:WRONG", case), run(pool, "toys:EXACT", case)
    tensors = TensorStore(tmp_path)
    judging = JudgeProcess(JudgeLimits(SETTINGS, 60.0, 4 << 30, tensors), pool.run, starter, describe)
    row = judging.row(case, outcome, reference)
    bench = RunContext(pool.run, SETTINGS, tensors, describe)
    assert bare(row) == bare(GraphComparison(bench, case.name, case.graph, reference).decide(outcome))
    assert set(asked) == {"toys:EXACT", "toys:WRONG"}
    judging.close()


@pytest.mark.nightly
def test_too_little_time_leaves_a_difference_undecided_and_a_failure_a_failure(
    pool: WorkerPool, starter: ThreadPoolExecutor, tmp_path: Path
) -> None:
    judging = JudgeProcess(JudgeLimits(SETTINGS, 0.001, 4 << 30, TensorStore(tmp_path), 1e-9), pool.run, starter)
    (case,) = cases(1)
    reference = run(pool, "toys:EXACT", case)
    row = judging.row(case, run(pool, "toys:WRONG", case), reference)
    assert row.word == "unjudged" and row.verdict is None and not row.finding and not row.broken
    row = judging.row(case, run(pool, "toys:FAILS", case), reference)
    assert row.verdict == "failed" and row.finding and not row.unjudged
    assert row.detail.startswith("following the failure took more than 1e-09 s")
    judging.close()


@pytest.mark.nightly
def test_a_crash_is_followed_to_its_operator_whatever_judging_may_take(
    pool: WorkerPool, starter: ThreadPoolExecutor, tmp_path: Path
) -> None:
    judging = JudgeProcess(JudgeLimits(SETTINGS, 0.001, 4 << 30, TensorStore(tmp_path), 60.0), pool.run, starter)
    (_, case) = cases(2)
    outcome = run(pool, "toys:CRASHES", case)
    assert outcome.status == "crash" and outcome.timings["total"] > 0
    row = judging.row(case, outcome, run(pool, "toys:EXACT", case))
    assert row.verdict == "failed" and "fails by itself" in row.detail
    assert row.culprit is not None and (row.culprit.op, row.culprit.node) == ("aten.neg.default", 1)
    judging.close()


def test_a_judge_that_cannot_start_is_said(pool: WorkerPool, starter: ThreadPoolExecutor, tmp_path: Path) -> None:
    judging = JudgeProcess(JudgeLimits(SETTINGS, 60.0, 64 << 20, TensorStore(tmp_path)), pool.run, starter)
    (case,) = cases(1)
    with pytest.raises(JudgeFailed, match="no judge can be started: out of memory"):
        judging.row(case, run(pool, "toys:WRONG", case), run(pool, "toys:EXACT", case))
    judging.close()


@pytest.mark.nightly
def test_cases_with_one_graph_keep_their_names(pool: WorkerPool, starter: ThreadPoolExecutor, tmp_path: Path) -> None:
    """The judge keeps what it knows of a graph, and one campaign may draw a graph twice."""
    judging = JudgeProcess(JudgeLimits(SETTINGS, 60.0, 4 << 30, TensorStore(tmp_path)), pool.run, starter)
    (case,) = cases(1)
    outcome, reference = run(pool, "toys:WRONG", case), run(pool, "toys:EXACT", case)
    rows = [judging.row(replace(case, name=name), outcome, reference) for name in ("v000001", "v000002")]
    assert [row.model for row in rows] == ["v000001", "v000002"] and rows[0].verdict == rows[1].verdict == "discrepant"
    judging.close()
