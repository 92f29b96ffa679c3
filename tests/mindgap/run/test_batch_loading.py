"""Graphs loaded together by a real worker: what each then gives, and what one that misbehaves costs the others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from misbehaving import graph

from mindgap.graph import Graph, Input, MindgapError, Stored
from mindgap.run.outcome import Job
from mindgap.run.pool import BATCH_SIZE, WorkerPool
from mindgap_campaign.campaign.gathered import GatheredRuns

BATCHING = "batch_platform:BACKEND"
MakePool = Callable[..., WorkerPool]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The platform's calls so far: `one` for each `load`, a number for each `load_many`."""
    log = tmp_path / "calls"
    log.touch()
    monkeypatch.setenv("BATCH_LOG", str(log))
    return lambda: log.read_text().split()


def jobs(*what: str, deadline_s: float = 20.0) -> list[Job]:
    return [Job(BATCHING, graph(name, seed), want="outputs", deadline_s=deadline_s) for seed, name in enumerate(what)]


def test_jobs_find_the_graphs_that_were_prepared(make_pool: MakePool, calls: Callable[[], list[str]]) -> None:
    pool = make_pool(BATCHING)
    prepared = pool.prepare(BATCHING, [job.graph for job in jobs(*["add"] * 20)], deadline_s=20)
    assert (prepared.status, prepared.held, prepared.message) == ("ok", 20, "")
    outcomes = [pool.run(job) for job in jobs(*["add"] * 20)]
    assert [o.status for o in outcomes] == ["ok"] * 20
    assert all(o.arrays is not None and 1 <= o.arrays[0].min() < 2 for o in outcomes)
    assert len({o.outputs[0].digest for o in outcomes}) == 20
    assert calls() == ["20"] and pool.starts(BATCHING) == 1
    assert "load" not in outcomes[0].timings, "it was loaded before, not by its job"


def test_what_fails_together_fails_by_itself_and_is_not_tried_again(
    make_pool: MakePool, calls: Callable[[], list[str]]
) -> None:
    pool = make_pool(BATCHING)
    outcomes = pool.run_together(jobs("add", "compile_error", "unsupported", "add"), deadline_s=20)
    assert [o.status for o in outcomes] == ["ok", "compile_error", "unsupported", "ok"]
    assert "together: cannot lower" in outcomes[1].message and outcomes[2].op == "zoo.unsupported.default"
    assert calls() == ["4"]


def test_an_error_at_run_time_takes_no_other_graph_along(make_pool: MakePool, calls: Callable[[], list[str]]) -> None:
    pool = make_pool(BATCHING)
    outcomes = pool.run_together(jobs("raises", "add", "overwrite", "add"), deadline_s=20)
    assert [o.status for o in outcomes] == ["runtime_error", "ok", "runtime_error", "ok"]
    assert "wrote to its input" in outcomes[2].message
    assert calls() == ["4"]


def test_a_graph_that_kills_the_loader_is_found_by_halves(make_pool: MakePool, calls: Callable[[], list[str]]) -> None:
    pool = make_pool(BATCHING)
    outcomes = pool.run_together(jobs("add", "add", "add", "load_segfault", "add", "add", "add", "add"), deadline_s=20)
    assert [o.status for o in outcomes] == ["ok"] * 3 + ["crash"] + ["ok"] * 4
    assert "SIGSEGV" in outcomes[3].message
    assert [c for c in calls() if c != "one"] == ["8", "4", "2", "2", "4"]


def test_a_loader_that_hangs_is_ended_and_the_others_run(make_pool: MakePool, calls: Callable[[], list[str]]) -> None:
    pool = make_pool(BATCHING)
    prepared = pool.prepare(BATCHING, [job.graph for job in jobs("add", "load_hang")], deadline_s=0.5)
    assert prepared.status == "timeout" and "loading 2 graphs together" in prepared.message
    outcomes = pool.run_together(jobs("load_hang", "add", deadline_s=0.5), deadline_s=0.5)
    assert [o.status for o in outcomes] == ["timeout", "ok"]


def test_a_crash_while_running_has_the_rest_loaded_together_again(
    make_pool: MakePool, calls: Callable[[], list[str]]
) -> None:
    pool = make_pool(BATCHING)
    outcomes = pool.run_together(jobs("add", "segfault", "add", "add"), deadline_s=20)
    assert [o.status for o in outcomes] == ["ok", "crash", "ok", "ok"]
    assert [c for c in calls() if c != "one"] == ["4", "2"]


def test_more_graphs_than_a_worker_keeps_are_loaded_in_portions(
    make_pool: MakePool, calls: Callable[[], list[str]]
) -> None:
    pool = make_pool(BATCHING)
    outcomes = pool.run_together(jobs(*["add"] * 300), deadline_s=60)
    assert {o.status for o in outcomes} == {"ok"} and len({o.outputs[0].digest for o in outcomes}) == 300
    assert calls() == [str(BATCH_SIZE), str(BATCH_SIZE), str(300 - 2 * BATCH_SIZE)]


def test_a_graph_that_the_worker_forgot_is_loaded_by_its_job(
    make_pool: MakePool, calls: Callable[[], list[str]]
) -> None:
    pool = make_pool(BATCHING)
    pool.prepare(BATCHING, [graph("add", seed) for seed in range(300)], deadline_s=60)
    assert pool.run(Job(BATCHING, graph("add", 0))).status == "ok"
    assert calls() == ["300", "one"]


def test_graphs_that_are_held_are_not_loaded_again(make_pool: MakePool, calls: Callable[[], list[str]]) -> None:
    pool = make_pool(BATCHING)
    graphs = [job.graph for job in jobs("add", "add", "add")]
    assert pool.prepare(BATCHING, graphs[:2], 20).held == 2
    assert pool.prepare(BATCHING, graphs, 20).held == 3
    assert calls() == ["2", "1"]


def test_inputs_that_cannot_be_made_and_answers_that_are_none_leave_graphs_to_their_jobs(
    make_pool: MakePool, calls: Callable[[], list[str]]
) -> None:
    pool = make_pool(BATCHING)
    base = graph("add", 1)
    stored = Graph((Input(base.inputs[0].spec, Stored("0" * 64)),), base.nodes, base.outputs)
    prepared = pool.prepare(BATCHING, [graph("add"), stored], deadline_s=20)
    assert (prepared.status, prepared.held) == ("ok", 1)
    broken = pool.prepare(BATCHING, [graph("too_few"), graph("add", 2)], deadline_s=20)
    assert broken.status == "ok" and broken.held == 0 and "0 answers for 2 graphs" in broken.message
    outcome = pool.run(Job(BATCHING, graph("add", 2)))
    assert outcome.status == "ok" and pool.starts(BATCHING) == 1


def test_arrays_in_place_of_inputs_are_not_mistaken_for_what_was_prepared(
    make_pool: MakePool, calls: Callable[[], list[str]]
) -> None:
    pool = make_pool(BATCHING)
    pool.prepare(BATCHING, [graph("add"), graph("add", 1)], deadline_s=20)
    sent = np.array([4, 5, 6, 7], np.float32)
    outcome = pool.run(Job(BATCHING, graph("add"), want="outputs", inputs={0: sent}))
    assert outcome.arrays is not None and np.array_equal(outcome.arrays[0], sent + 1)
    own = pool.run(Job(BATCHING, graph("add"), want="outputs"))
    assert own.arrays is not None and own.arrays[0].max() < 2 and calls() == ["2"]


def test_a_platform_that_loads_one_by_one_is_asked_all_the_same(make_pool: MakePool) -> None:
    pool = make_pool("misbehaving:BACKEND")
    prepared = pool.prepare("misbehaving:BACKEND", [graph("add"), graph("add", 1)], deadline_s=20)
    assert (prepared.status, prepared.held) == ("ok", 0)
    outcomes = pool.run_together([Job("misbehaving:BACKEND", graph("add", n)) for n in range(3)], deadline_s=20)
    assert [o.status for o in outcomes] == ["ok"] * 3


def test_jobs_of_several_platforms_cannot_run_together(make_pool: MakePool) -> None:
    pool = make_pool("misbehaving:BACKEND", BATCHING)
    assert pool.run_together([], deadline_s=1) == []
    with pytest.raises(MindgapError, match="one platform"):
        pool.run_together([*jobs("add"), Job("misbehaving:BACKEND", graph("add"))], deadline_s=1)


def test_a_worker_that_cannot_start_gives_each_job_its_failure(make_pool: MakePool) -> None:
    name = "misbehaving:BACKEND@start=import"
    pool = make_pool(name)
    assert pool.prepare(name, [graph("add")], 20).status == "runtime_error"
    outcomes = pool.run_together([Job(name, graph("add", n)) for n in range(3)], deadline_s=20)
    assert ["zookeeper" in o.message for o in outcomes] == [True] * 3


def test_jobs_with_replaced_inputs_find_their_graphs(make_pool: MakePool, calls: Callable[[], list[str]]) -> None:
    """One graph with two weights, which a platform may fold into it, is two loaded graphs."""
    pool = make_pool(BATCHING)
    made = graph("add")
    made = replace(made, inputs=(replace(made.inputs[0], role="parameter"),))
    weights = [np.full(4, value, np.float32) for value in (3.0, 5.0)]
    asked = [Job(BATCHING, made, want="outputs", inputs={0: weight}) for weight in weights]
    outcomes = pool.run_together(asked, deadline_s=20)
    assert calls() == ["2"]
    for outcome, weight in zip(outcomes, weights, strict=True):
        assert outcome.arrays is not None and np.array_equal(outcome.arrays[0], weight + 1)


def test_jobs_that_wait_at_the_same_time_are_loaded_together(
    make_pool: MakePool, calls: Callable[[], list[str]]
) -> None:
    pool = make_pool(BATCHING)
    gathered = GatheredRuns(pool, [BATCHING])
    asked = jobs(*["add"] * 12)
    with ThreadPoolExecutor(12) as threads:
        outcomes = [*threads.map(gathered.run, asked)]
    alone = [pool.run(job) for job in asked]
    assert [o.outputs for o in outcomes] == [o.outputs for o in alone]
    loads = calls()
    # The first goes ahead; those that come while it runs are one batch, or a few.
    assert sum(1 if load == "one" else int(load) for load in loads) == 12 and len(loads) < 12, loads


def test_bad_input_among_gathered_jobs_costs_itself(make_pool: MakePool, calls: Callable[[], list[str]]) -> None:
    pool = make_pool(BATCHING)
    gathered = GatheredRuns(pool, [BATCHING])
    good = jobs(*["add"] * 6)
    bad = replace(good[0], repeat=0)

    def answer(job: Job) -> str:
        try:
            return gathered.run(job).status
        except MindgapError as error:
            return type(error).__name__

    with ThreadPoolExecutor(7) as threads:
        answers = [*threads.map(answer, [*good, bad])]
    assert answers[:6] == ["ok"] * 6 and answers[6] == "MindgapError"
