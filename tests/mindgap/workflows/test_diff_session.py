"""A session keeps its workers between comparisons, and a store that fails costs only itself."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from mindgap.graph import Graph, MindgapError, TensorStore
from mindgap.graph_capture import capture
from mindgap.own_path.runs import OwnRun, Sensitivity
from mindgap.platforms.name import PlatformName
from mindgap.platforms.protocol import PlatformError
from mindgap.results.settings import RunSettings
from mindgap.results.store import Store
from mindgap.run.outcome import Job, Outcome
from mindgap.source_worker.client import FileUntranslated, ProgramRefused
from mindgap.workflows.diff import Session, StoreNotWritten, Subject, diff, diff_many
from mindgap.workflows.diff.collected import Collected
from mindgap.workflows.diff.session import DiffInterrupted


class Exits(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise SystemExit(0)


def test_a_platform_that_cannot_be_opened_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    platform = "run.misbehaving:BACKEND@start=import"
    with Session() as session:
        with pytest.raises(
            PlatformError, match=r"start=import cannot be opened: ImportError: no module named zookeeper"
        ):
            session.diff(torch.sin, (torch.ones(2),), platforms=["cpu/jit", platform])
        assert [row.platform for row in session.diff(torch.sin, (torch.ones(2),), platforms=["cpu/jit"]).rows] == [
            "cpu/jit"
        ]


def test_autocast_around_the_comparison_is_named() -> None:
    with torch.autocast("cpu", torch.bfloat16), pytest.warns(UserWarning, match="enter it in the program"):
        (row,) = diff(torch.nn.Linear(4, 4), (torch.ones(2, 4),), platforms="cpu/jit", own_path=False).rows
    assert (row.platform, row.verdict) == ("cpu/jit", "identical"), "one platform by its name alone"
    with pytest.raises(MindgapError, match="no platform to compare on"):
        diff(torch.sin, (torch.ones(2),), platforms=[])
    with pytest.raises(MindgapError, match=r"takes a list of mindgap\.Subject"):
        diff_many({"a": torch.sin}, ["cpu/jit"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(MindgapError, match="path_taken: not for a graph"):
        diff(capture(torch.sin, (torch.ones(2),)), platforms=["cpu/jit"], path_taken=True)


@pytest.mark.nightly
def test_workers_stay_between_comparisons_and_weights_do_not() -> None:
    model, x = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()), torch.ones(2, 64)
    with Session() as session:
        (first,) = session.diff(model, (x,), platforms=["cpu/jit"]).rows
        pids = session._pool.pids()
        (second,) = session.diff(torch.sin, (x,), platforms=["cpu/jit"], name="sine").rows
        assert (first.platform, first.finding, second.model, second.finding) == ("cpu/jit", False, "sine", False)
        assert session._pool.pids() == pids and len(pids) == 2
        sets = session.diff(torch.sqrt, [(x,), (x[:1] - 2,)], platforms=["cpu/jit"], name="root")
        (row,), (about,) = sets.rows, sets.models
        assert (row.model, about.argument_sets, len(row.digests)) == ("root", 2, 2)
        (pair,) = session.diff(lambda both: both[0] + both[1], [(x, x)], platforms=["cpu/jit"]).models
        assert pair.argument_sets == 1, "one tuple in a list is an argument"
        layers = session.diff(model, (x,), platforms=["cpu/jit"], reference_model=model[0]).models[0]
        cost = layers.quantisation_cost
        with torch.no_grad():
            right = (model[0](x) - model(x)).abs().max() / model[0](x).abs().max()
        assert cost is not None and (cost.source, cost.reason) == ("Linear", "")
        assert cost.largest == pytest.approx(float(right), rel=1e-5)
        (wider,) = session.diff(torch.sin, (x,), platforms=["cpu/jit"], reference_model=lambda y: y[:1]).models
        assert wider.quantisation_cost is not None and "it returns float32[1,64]" in wider.quantisation_cost.reason
        kept = session._tensors.path
        assert not any(kept.glob("*.safetensors"))
        with pytest.raises(MindgapError, match=r"SystemExit: 0 \(test_diff_session.py:\d+\)"):
            session.diff(Exits(), (x,), platforms=["cpu/jit"])
        (alone,) = session.diff(torch.sin, x, platforms=["cpu/jit"]).rows  # pyright: ignore[reportArgumentType] # as users do
        assert alone.verdict == "identical"
    assert not kept.exists()


def test_a_store_that_fails_during_the_run_costs_only_itself(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")

    def graph() -> Graph:
        shutil.rmtree(tmp_path / "store")
        (tmp_path / "store").write_text("a file where the store was")
        return capture(torch.sin, (torch.ones(3),))

    with (
        Session(tensors=TensorStore(tmp_path / "tensors")) as session,
        pytest.raises(StoreNotWritten, match="cannot be written") as failed,
    ):
        session.diff_many([Subject("sine", graph)], ["cpu/jit"], store=store)
    assert [row.model for row in failed.value.report.rows] == ["sine"]


def test_a_worker_that_an_interrupt_ends_is_no_failure_of_its_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupt comes while a platform runs. Closing the pool ends its worker, whose job gets a crash."""
    ended, told = threading.Event(), threading.Event()
    with Session(tensors=TensorStore(tmp_path)) as session:
        run, close = session._pool.run, session._pool.close

        def interrupted(job: Job) -> Outcome:
            if job.platform == "cpu/eager":
                return run(job)
            os.kill(os.getpid(), signal.SIGINT)
            assert ended.wait(60)
            threading.Timer(1.0, told.set).start()
            return Outcome(job.platform, "", "crash", message="killed by SIGKILL", signature="SIGKILL")

        def closed() -> None:
            close()
            ended.set()
            assert told.wait(60)  # the comparison has the outcome

        monkeypatch.setattr(session._pool, "run", interrupted)
        monkeypatch.setattr(session._pool, "close", closed)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(DiffInterrupted) as stopped:
                session.diff(torch.sin, (torch.ones(3),), platforms=["cpu/jit"])
        finally:
            signal.signal(signal.SIGINT, before)
    (row,) = stopped.value.report.rows
    assert (row.word, row.finding, row.detail) == ("not_run", False, "interrupted")


class _Waited:
    """A program whose own export is waited for by its capture."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    def run(self, platform: PlatformName) -> OwnRun:
        self.begun.set()
        return OwnRun(platform, "torch.jit.trace", None, reason="not tried", fed=False)

    def run_sizes(self, platform: PlatformName, declared: bool) -> None:
        del platform, declared

    def reads(self, platform: PlatformName) -> bool:
        del platform
        return False

    def locate(self, *_: object) -> None:
        raise AssertionError("nothing ran")

    eager_again = sensitivity = stop = locate


@pytest.mark.parametrize(("weights", "beside"), [(64, True), (1 << 40, False)])
def test_the_own_export_of_a_small_program_begins_beside_its_capture(weights: int, beside: bool) -> None:
    graph = capture(torch.nn.GELU(), (torch.ones(2, 3),))
    program, seen = _Waited(), list[bool]()

    def captured() -> Graph:
        seen.append(program.begun.wait(10.0 if beside else 0.2))
        return graph

    subject = Subject("one", captured, program=cast("Any", program), weights=lambda: weights)
    with Session() as session:
        (row,) = session.diff_many([subject], ["cpu/jit"]).rows
    assert seen == [beside]
    assert row.own_path is not None and row.own_path.detail == "not tried"


class _File(_Waited):
    """A model file that eager mode computes otherwise than runtimes, which all give the same. One way to it is
    broken."""

    def run(self, platform: PlatformName) -> OwnRun:
        if platform == "openvino/cpu":
            raise RuntimeError("its worker sent nonsense")
        ones = np.ones(3, np.float32)
        return OwnRun(platform, "m.onnx", (ones,), (ones * 2,), file=True, source_file=True)

    def locate(self, *_: object) -> None:
        pass

    def reads(self, platform: PlatformName) -> bool:
        return platform.mode != "eager"

    def sensitivity(self, *_: object) -> Sensitivity:
        return Sensitivity(0.0)


@pytest.mark.parametrize("error", [ProgramRefused, FileUntranslated])
def test_runs_of_a_file_are_compared_with_each_other_only_without_a_translation(
    error: type[ProgramRefused], monkeypatch: pytest.MonkeyPatch
) -> None:
    def graph() -> Graph:
        raise error("m.onnx: nothing was captured")

    doing: list[tuple[str, str]] = []
    monkeypatch.setattr(Collected, "report_activity", lambda _, __, platform, text: doing.append((platform, text)))
    subject = Subject("m", graph, program=cast("Any", _File()))
    platforms = ["onnxruntime/cpu", "openvino/cpu", "cpu/jit"]
    with Session() as session:
        report = session.diff_many([subject], platforms)
    first, broken, second = report.rows
    assert broken.broken is not None and "its worker sent nonsense" in broken.broken
    if error is FileUntranslated:
        assert (first.word, second.word) == ("identical", "identical")
        assert "gives the bits that it gives on" in first.detail and not report.refused
    else:
        assert (first.verdict, second.verdict) == ("export", "export")
        assert "eager mode" in first.detail
    said = "running the file" if error is FileUntranslated else "comparing the program's own export"
    assert [each for each in doing if each[0]] == [(platform, said) for platform in platforms]


def test_what_does_not_end_with_a_time_budget_is_left_to_itself() -> None:
    released = threading.Event()

    def endless() -> Graph:
        released.wait(120)
        return capture(torch.nn.GELU(), (torch.ones(2, 3),))

    graph = capture(torch.sin, (torch.ones(3),))
    started = time.monotonic()
    with Session() as session:
        settings = RunSettings(budget_s=1.0)
        subjects = [Subject("endless", endless), Subject("after", lambda: graph)]
        report = session.diff_many(subjects, ["cpu/jit"], settings=settings)
        took = time.monotonic() - started
        assert {each.source for each in report.refused} >= {"endless"}
        assert "the time budget was used up" in report.refused[0].reason
        # The session has new workers, and takes nothing of what ran on.
        again = session.diff(graph, platforms=["cpu/jit"])
        released.set()
    assert took < 60
    assert [row.verdict for row in again.rows] == ["identical"]
