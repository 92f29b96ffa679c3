"""A large model runs on one platform at a time, and what does not fit into memory is not run, and said so."""

from __future__ import annotations

import copy
import dataclasses
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from judge.oracle.bench import Bench
from mindgap.graph import Constant, Graph, Input, TensorSpec, TensorStore, materialise_all
from mindgap.graph.sizes import half_share
from mindgap.graph_capture import capture
from mindgap.judge.oracle import oracle as oracle_module
from mindgap.judge.pipeline import estimate
from mindgap.judge.pipeline.comparison import RunContext
from mindgap.judge.pipeline.estimate import MemoryEstimate
from mindgap.platforms.protocol import HALF_WEIGHT_COPIES
from mindgap.run.outcome import Job, Outcome
from mindgap.workflows.diff import ProgressEvent, RunSettings, Session, Subject, large_models
from mindgap.workflows.diff.large_models import LargeGraphGate, expected_seconds

PLATFORMS = ["cpu/jit", "onnxruntime/cpu"]


@pytest.fixture
def graph(tmp_path, monkeypatch) -> Graph:
    """A graph that counts as large from here on: more than 256 KiB of weights."""
    monkeypatch.setattr(large_models, "_LARGE_BYTES", 256 << 10)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.Linear(512, 8)).eval()
    return capture(model, (torch.randn(4, 512),), tensors=TensorStore(tmp_path))


def test_the_judge_takes_no_more_for_many_layers_than_for_few(tmp_path):
    """It holds three copies of the largest weight and one segment of values: all other weights stay mapped."""

    def estimate_of(layers: int) -> MemoryEstimate:
        linear = torch.nn.Linear(1024, 1024)
        parts = [part for _ in range(layers) for part in (copy.deepcopy(linear), torch.nn.GELU())]
        graph = capture(torch.nn.Sequential(*parts).eval(), (torch.randn(4, 1024),), tensors=TensorStore(tmp_path))
        return MemoryEstimate(graph)

    few, many = estimate_of(2), estimate_of(8)
    assert many.inputs > 3.9 * few.inputs and many.judging < 1.15 * few.judging
    assert 3 << 22 < many.judging < 4 << 22


@pytest.mark.nightly
def test_platforms_run_one_after_the_other_and_their_workers_end(tmp_path, graph):
    with Session(tensors=TensorStore(tmp_path)) as session:
        running: list[dict[str, int]] = []
        wants: list[tuple[str, str]] = []
        run = session._pool.run

        def noted(job: Job) -> Outcome:
            outcome = run(job)
            if job.graph is graph:
                wants.append((job.platform, job.want))
                running.append(session._pool.pids())
            return outcome

        session._pool.run = noted  # type: ignore[method-assign]
        told: list[ProgressEvent] = []
        report = session.diff_many([Subject("large", lambda: graph)], PLATFORMS, progress=told.append)
        (expected,) = [event.text for event in told if event.stage == "expected"]
        assert expected.startswith("about 1.") and "GiB of memory and 1 min expected; " in expected
        assert [row.word for row in report.rows] == ["identical", "rounding"]
        # One run each: whole outputs come with the first, as loading again would cost more than they do.
        assert wants == [(platform, "outputs") for platform in ("cpu/eager", *PLATFORMS)]
        assert [set(pids) for pids in running] == [{"cpu/eager"}, {"cpu/jit"}, {"onnxruntime/cpu"}]
        assert session._pool.pids() == {}, "the workers end with the graph that had the machine to itself"
        limits = {supervisor.limits for supervisor in session._pool._supervisors.values()}
        assert limits == {session._pool._one}


@pytest.mark.nightly
def test_a_platform_that_the_graph_does_not_fit_on_is_not_run(tmp_path, graph, monkeypatch):
    needed = MemoryEstimate(graph)
    monkeypatch.setattr(estimate, "memory_bytes", lambda: needed.on(1))
    with Session(tensors=TensorStore(tmp_path)) as session:
        report = session.diff_many([Subject("large", lambda: graph)], PLATFORMS)
    calm, late = report.rows
    assert (calm.word, late.word, late.status) == ("identical", "not_run", "not_run")
    assert "GiB of memory, and the machine has" in late.detail and "--inside" in late.detail
    monkeypatch.setattr(estimate, "memory_bytes", lambda: 1 << 20)
    with Session(tensors=TensorStore(tmp_path)) as session:
        report = session.diff_many([Subject("large", lambda: graph)], PLATFORMS)
    assert not report.rows and report.nothing
    assert report.refused[0].reason.startswith("not run: it takes about")


def test_a_runtime_that_widens_weights_of_16_bits_makes_more_copies_of_them():
    context = RunContext(lambda job: pytest.fail(job), RunSettings(), describe=lambda name: {HALF_WEIGHT_COPIES: 4.0})
    assert [context.weight_copies("onnxruntime/cpu", half) for half in (0.0, 0.5, 1.0)] == [2.0, 3.0, 4.0]
    plain = RunContext(lambda job: pytest.fail(job), RunSettings())
    assert plain.weight_copies("cpu/inductor", 1.0) == 2.0
    bytes_ = {"float16": 100, "float32": 300}
    inputs = [
        Input(TensorSpec(kind, (size // np.dtype(kind).itemsize,), (1,)), Constant(0.0))
        for kind, size in bytes_.items()
    ]
    assert half_share(Graph(tuple(inputs), (), (0,))) == 0.25


def test_too_little_memory_for_a_large_model_is_no_finding(tmp_path, graph):
    """Workers are not started: the reference computes here, and the other platform has no memory."""
    with Session(tensors=TensorStore(tmp_path)) as session:

        def run(job: Job) -> Outcome:
            if job.platform != "cpu/eager":
                return Outcome(job.platform, "", "oom", message="out of memory while loading", signature="oom")
            given = dict(enumerate(materialise_all(job.graph, TensorStore(tmp_path))))
            return Bench().execute(dataclasses.replace(job, inputs=given | dict(job.inputs)))

        session._pool.run = run  # type: ignore[method-assign]
        report = session.diff_many([Subject("large", lambda: graph)], ["cpu/jit"])
    (row,) = report.rows
    assert (row.word, row.finding) == ("not_run", False)
    assert row.detail.startswith("out of memory while loading: about ") and "--inside" in row.detail


def test_an_estimate_counts_weights_once_and_copies_for_each(graph):
    found = MemoryEstimate(graph)
    assert found.inputs == sum(given.spec.nbytes for given in graph.inputs) > 1 << 20
    assert found.on(2) - found.on(0) == 2 * found.inputs
    assert found.judging > 0 and found.too_large(0) is None
    assert found.judged() == found.on(0) + found.judging


@pytest.mark.parametrize(("dtype", "advised"), [("float32", True), ("bfloat16", False)])
def test_a_model_in_bfloat16_is_not_told_to_be_in_bfloat16(dtype, advised):
    large = Graph((Input(TensorSpec.contiguous(dtype, (1 << 40,)), Constant(0.0)),), (), (0,))
    said = MemoryEstimate(large).too_large(2)
    assert said is not None and said.startswith("it takes about ") and ("bfloat16" in said) == advised


@pytest.mark.nightly
def test_a_graph_that_only_the_judge_has_no_memory_for_runs(tmp_path, graph, monkeypatch):
    """Equal bits need no judge; a difference is unjudged, with the reason."""
    monkeypatch.setattr(MemoryEstimate, "judged", lambda self: 1 << 40)
    monkeypatch.setattr(
        oracle_module.psutil, "virtual_memory", lambda: SimpleNamespace(available=1 << 10, total=1 << 40)
    )
    told: list[ProgressEvent] = []
    with Session(tensors=TensorStore(tmp_path)) as session:
        report = session.diff_many([Subject("large", lambda: graph)], PLATFORMS, progress=told.append)
    assert [row.word for row in report.rows] == ["identical", "unjudged"]
    (expected,) = [event.text for event in told if event.stage == "expected"]
    assert expected.endswith("; 1024.0 GiB to judge a difference")


def test_a_large_program_says_before_its_capture_what_is_expected(tmp_path, graph):
    order: list[str] = []
    subject = Subject("large", lambda: order.append("captured") or graph, weights=lambda: 3 << 30)
    with Session(tensors=TensorStore(tmp_path)) as session:
        told: list[ProgressEvent] = []
        session.diff_many(
            [subject], ["cpu/jit"], progress=lambda event: told.append(event) or order.append(event.stage),
            settings=RunSettings(judge=False),
        )  # fmt: skip
    first, second = (event.text for event in told if event.stage == "expected")
    assert first == "weights of 3.0 GiB: about 2 min expected, with the capture"
    assert second.endswith("GiB of memory and 1 min expected")
    assert order.index("expected") < order.index("captured")
    assert large_models.expected_before_capture(1 << 10, 3, judged=True) == ""
    # One of 1.1 billion parameters took 205 s of processor time, one of 0.4 billion 100 s (each within a factor of 2).
    assert "4 min" in large_models.expected_before_capture(int(4.1 * 2**30), 1, judged=True)


def test_seconds_expected_grow_with_a_run_with_weights_and_with_outputs(graph):
    gib = sum(given.spec.nbytes for given in graph.inputs) / 2**30
    millions = 4 * 8 / 1e6
    assert expected_seconds(graph, 2.0, judged=True) == pytest.approx(30 + 22 * gib + millions)
    assert expected_seconds(graph, 2.0, judged=False) == pytest.approx(20 * gib)


@pytest.mark.nightly
def test_too_little_free_memory_for_the_judge_is_no_calm_verdict(tmp_path, graph, monkeypatch):
    monkeypatch.setattr(
        oracle_module.psutil, "virtual_memory", lambda: SimpleNamespace(available=1 << 10, total=1 << 40)
    )
    with Session(tensors=TensorStore(tmp_path)) as session:
        (row,) = session.diff_many([Subject("large", lambda: graph)], ["onnxruntime/cpu"]).rows
    assert (row.word, row.verdict) == ("unjudged", None) and row.unknown
    assert row.detail.startswith("judging it takes about") and "are free" in row.detail


def test_small_graphs_run_side_by_side_and_a_large_one_alone(graph):
    class Pool:
        alone = 0

        @contextmanager
        def one_at_a_time(self) -> Iterator[None]:
            self.alone += 1
            yield

    pool = Pool()
    turns = LargeGraphGate(pool, 2)  # type: ignore[arg-type] # of a pool it needs this much
    small = capture(torch.sin, (torch.ones(3),))

    def run(which: Graph, until: threading.Event) -> threading.Thread:
        def one() -> None:
            with turns.turn(which):
                until.wait(30)

        thread = threading.Thread(target=one)
        thread.start()
        return thread

    free, done = threading.Event(), threading.Event()
    with turns.turn(small) as first, turns.turn(small) as second:
        large = run(graph, free)
        large.join(0.3)
        assert (first, second) == (False, False) and large.is_alive() and pool.alone == 0
    while pool.alone == 0:
        large.join(0.01)
    # A small one waits until the large one is through.
    last = run(small, done)
    done.set()
    last.join(0.3)
    assert last.is_alive() and pool.alone == 1
    free.set()
    large.join(30)
    last.join(30)
    assert not large.is_alive() and not last.is_alive()


@pytest.mark.nightly
def test_without_a_judge_rows_say_how_far_outputs_are_apart_and_prove_nothing(tmp_path, graph):
    told: list[ProgressEvent] = []
    with Session(tensors=TensorStore(tmp_path)) as session:
        report = session.diff_many(
            [Subject("large", lambda: graph)], PLATFORMS, settings=RunSettings(judge=False), progress=told.append
        )
    same, apart = report.rows
    assert (same.word, apart.word, apart.verdict) == ("identical", "unjudged", None)
    assert apart.detail.startswith("not judged (--no-judge)") and apart.unknown
    assert 0 < (apart.metrics.get("max_abs") or 0) < 1e-4 and apart.profiles["assert_close"]
    assert any(event.stage == "doing" and event.text == "running" for event in told)
    assert report.nothing is None, "outputs were compared, if not judged"
