"""Repeated runs: how often each result occurred."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mindgap.graph import Graph, Input, MindgapError, Node, Normal, Ref, TensorSpec, TensorStore
from mindgap.platforms.protocol import Array, PlatformError
from mindgap.run.local import run_job
from mindgap.run.outcome import Job
from mindgap.workflows.diff.tracing import repeat_graph, with_threads

X = TensorSpec.contiguous("float32", (4,))


def sine() -> Graph:
    return Graph((Input(X, Normal(0)),), (Node("aten.sin.default", (Ref(0),), (), (X,)),), (1,))


class Alternating:
    """Gives another result in every third run."""

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Any:
        runs: list[int] = []

        def call(given: Sequence[Array]) -> list[Array]:
            runs.append(0)
            return [np.full(4, len(runs) % 3 == 0, np.float32)]

        return call

    def describe(self) -> dict[str, Any]:
        return {}


def test_every_run_is_counted_once() -> None:
    outcome = run_job(Alternating(), Job("here", sine(), want="counts", repeat=9))
    assert outcome.status == "nondeterministic" and outcome.counts is not None
    assert list(outcome.counts.values()) == [6, 3] and outcome.arrays is None
    assert run_job(Alternating(), Job("here", sine(), repeat=9)).counts is None


@pytest.mark.nightly
def test_ten_thousand_repeats_of_one_operator_in_every_process(tmp_path: Path) -> None:
    report = repeat_graph(
        sine(), "cpu/eager", 10_000, processes=2, threads=[1, 2], tensors=TensorStore(tmp_path), model="sin"
    )
    assert [(r.platform, r.process) for r in report.runs] == [
        (f"cpu/eager@threads={n}", p) for n in (1, 2) for p in (1, 2)
    ]
    assert all(sum(run.counts.values()) == 10_000 for run in report.runs) and list(report.results.values()) == [40_000]


def test_noise_gives_many_results(tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text('[[fault]]\nkind = "nondeterministic"\nwhen = { op = "aten.sin*" }')
    platform = f"faulty/eager@faults={tmp_path / 'f.toml'}"
    report = repeat_graph(sine(), platform, 100, tensors=TensorStore(tmp_path))
    assert len(report.results) > 5 and sum(report.results.values()) == 100


def test_thread_counts_that_cannot_be_set_are_refused(tmp_path: Path) -> None:
    assert with_threads("cpu/eager@isa=avx2", 2) == "cpu/eager@isa=avx2,threads=2"
    with pytest.raises(MindgapError, match="names its threads already"):
        with_threads("cpu/eager@threads=1", 2)
    with pytest.raises(PlatformError, match="threads"):
        repeat_graph(sine(), "faulty/eager", 2, threads=[2], tensors=TensorStore(tmp_path))
