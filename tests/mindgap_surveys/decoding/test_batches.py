"""Subjects of one comparison are loaded together, on platforms that do that faster."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from mindgap.judge.pipeline.time_budget import TimeBudget
from mindgap.run.pool import WorkerPool
from mindgap.workflows.diff import RunSettings, Session, Subject, large_models
from mindgap.workflows.diff.batches import Batches
from mindgap.workflows.diff.subject_runner import CapturedSubject

RUN = str(Path(__file__).parents[2] / "mindgap" / "run")
sys.path.insert(0, RUN)
from misbehaving import graph  # noqa: E402

BATCHING = "batch_platform:BACKEND"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The platform's calls: `one` for each `load`, a number for each `load_many`."""
    monkeypatch.setenv("BATCH_LOG", str(tmp_path / "calls"))
    monkeypatch.setenv("PYTHONPATH", RUN, prepend=os.pathsep)
    return tmp_path / "calls"


def subjects(*what: str) -> list[Subject]:
    made = [graph(name, seed) for seed, name in enumerate(what)]
    return [Subject(f"{number}", lambda one=one: one) for number, one in enumerate(made)]


def run(*what: str, deadline_s: float = 20.0, budget_s: float | None = None) -> list[tuple[str, str]]:
    settings = RunSettings(BATCHING, trace=False, judge=False, repeat=1, deadline_s=deadline_s, budget_s=budget_s)
    with Session() as session:
        report = session.diff_many(subjects(*what), [BATCHING], settings=settings)
    return [(model.name, model.reference_status) for model in report.models]


def test_subjects_are_loaded_in_batches_and_keep_their_order(log: Path) -> None:
    assert run(*["add"] * 6) == [(f"{number}", "ok") for number in range(6)]
    assert log.read_text().split() == ["4", "2"]


@pytest.mark.nightly
def test_one_that_ends_the_worker_costs_only_itself(log: Path) -> None:
    found = run("add", "add", "add", "load_hang", "add", deadline_s=1.0)
    assert found == [("0", "ok"), ("1", "ok"), ("2", "ok"), ("3", "timeout"), ("4", "ok")]
    calls = log.read_text().split()
    assert calls == ["4", *["one"] * 5], "the batch, then each graph of it, then the one that is left"


def test_one_subject_needs_no_batch(log: Path) -> None:
    assert run("add") == [("0", "ok")]
    assert log.read_text().split() == ["one"]


@pytest.mark.nightly
def test_loading_together_takes_half_of_a_budget(log: Path) -> None:
    """Then what can be loaded still runs."""
    started = time.monotonic()
    assert run("add", "add", "load_hang", deadline_s=60.0, budget_s=20.0) == [("0", "ok"), ("1", "ok")]
    assert time.monotonic() - started < 45
    assert log.read_text().split()[0] == "3"


def test_groups_are_limited_in_operators_and_large_graphs_are_alone(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def numbers() -> list[list[int]]:
        return [[each.position for each in group] for group in batches.groups(captured)]

    made = [graph("add", seed) for seed in range(4)]
    captured = [CapturedSubject(n, Subject(f"{n}", lambda: made[0]), one, 0.0) for n, one in enumerate(made)]
    with WorkerPool([]) as pool:
        batches = Batches.of(pool, [BATCHING, "cpu/eager"], 10.0, TimeBudget(None))
    assert batches.platforms == {BATCHING: 4} and numbers() == [[0, 1, 2, 3]]
    monkeypatch.setattr("mindgap.workflows.diff.batches._OPERATORS", 3 * len(made[0].nodes))
    assert numbers() == [[0, 1, 2], [3]]
    monkeypatch.setattr(large_models, "_LARGE_BYTES", 0)
    assert numbers() == [[0], [1], [2], [3]]
