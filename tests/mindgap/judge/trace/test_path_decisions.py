"""Platforms whose values lead a program another way are told: a finding, or a decision that rounding makes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import input_tensors, to_numpy
from mindgap.cli.tables import print_report
from mindgap.graph import Graph, materialise_all
from mindgap.graph.compare.verdict import OtherDecision
from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import capture
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.judge.trace.judge import Judge
from mindgap.judge.trace.judgement import Judgement
from mindgap.judge.trace.subgraphs import Array
from mindgap.platforms.name import CPU_EAGER, PlatformName, parse
from mindgap.report.page import html_page
from mindgap.results.from_store import report_of
from mindgap.results.recording import recording
from mindgap.results.report_json import decode_report
from mindgap.results.rows import PlatformFacts, Report
from mindgap.results.settings import RunSettings
from mindgap.results.store import Store
from mindgap.run.outcome import Outcome
from mindgap_campaign.selftest.trial import InProcessExecutor

X = torch.linspace(-1.0, 2.0, 12).reshape(3, 4) ** 3 / 4
pytestmark = pytest.mark.filterwarnings("ignore")


def branches(x: torch.Tensor) -> torch.Tensor:
    return x.sin() if x.exp().sum() > 20 else x.cos()  # the sum is 30.03


def near(x: torch.Tensor) -> torch.Tensor:
    y = x.exp()
    return y + 1 if y.log().sum() - x.sum() > 1e-7 else y - 1


def selects(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.exp().log() - x
    z = y[y > 0]
    return z + 1, z.sum()


def loops(x: torch.Tensor) -> torch.Tensor:
    while x.abs().max().item() > 0.3:
        x = x / 2
    return x


def captured(program: Any, tensors: TensorStore) -> Graph:
    return capture(program, (X,), tensors=tensors, path_taken=True)


def outputs(graph: Graph, tensors: TensorStore) -> list[Array]:
    return [to_numpy(each) for each in Tape(graph).run(input_tensors(graph, materialise_all(graph, tensors)))]


def judged(program: Any, change: dict[int, Array], tmp_path: Path) -> tuple[Judgement, Graph]:
    """The judgement of the reference's outputs, of which some are changed."""
    tensors = TensorStore(tmp_path)
    graph = captured(program, tensors)
    theirs = outputs(graph, tensors)
    ours = [change.get(position, array) for position, array in enumerate(theirs)]
    judge = Judge(graph, [X.numpy()], InProcessExecutor(tensors), CPU_EAGER, trace=False)
    platform = parse("cpu/jit")
    sides = [Outcome(each, "", "ok", arrays=tuple(arrays)) for each, arrays in ((platform, ours), (CPU_EAGER, theirs))]
    return judge.judge(*sides), graph


def _report(tmp_path: Path) -> Report:
    """The report of a platform that takes another branch, as it was read again from JSON and store, and printed."""
    faults = tmp_path / "faults.toml"
    faults.write_text('[[fault]]\nkind = "scaled"\nfactor = 0.5\nwhen = { op = "aten.exp.default" }\n')
    platform: PlatformName = parse(f"faulty/eager@faults={faults}")
    store, tensors, settings = Store(tmp_path / "store"), TensorStore(tmp_path / "tensors"), RunSettings(trace=False)
    graph = captured(branches, tensors)
    comparison = GraphComparison(RunContext(InProcessExecutor(tensors), settings, tensors), "branches", graph)
    facts = [PlatformFacts(name, name, True) for name in (CPU_EAGER, platform)]
    with recording(store, settings, lambda _: {}) as record:
        record.begin("2026-11-25T00:00:00+00:00", "0", facts, [platform])
        record.graph("branches", graph)
        record.model(0, comparison.model({}), comparison.reference)
        row = comparison.row(platform)
        record.row(graph, row, comparison.outcomes[platform])
        record.finish(1.0)
    assert row.verdict == "discrepant" and row.culprit is not None and row.culprit.op == "aten.exp.default"
    (one,) = row.decisions
    assert (one.kind, one.taken, one.came, one.stable, one.text) == (
        "branch", "True", "False", True, "x.exp().sum() > 20",
    )  # fmt: skip
    assert row.detail.startswith(f"would take the other branch at line {one.line}: `x.exp().sum() > 20` is False there")
    report = Report(CPU_EAGER, tuple(facts), (comparison.model({}),), (row,))
    assert decode_report(report.to_json()).rows[0].decisions == report_of(store).rows[0].decisions == (one,)
    out = io.StringIO()
    print_report(report, out)
    said = "would take the other branch at line"
    assert said in " ".join(out.getvalue().split())
    return report


@pytest.mark.nightly
def test_the_page_says_what_a_platform_decides(tmp_path: Path) -> None:
    assert "would take the other branch at line" in html_page(_report(tmp_path))


def test_a_condition_far_from_its_boundary_is_a_finding(tmp_path: Path) -> None:
    assert _report(tmp_path).totals.findings == 1


def test_a_condition_that_rounding_decides_is_not_stable_and_calm(tmp_path: Path) -> None:
    taken = near(X).sum() > X.exp().sum()
    found, graph = judged(near, {1: np.asarray(not taken)}, tmp_path)
    assert found.verdict == "rounding" and graph.labels.decisions[0].taken == str(bool(taken))
    (one,) = found.decisions
    assert one.came == str(not taken) and not one.stable
    # It is told also where the platform decides alike.
    noisy = outputs(graph, TensorStore(tmp_path))[0] * np.float32(1 + 2**-23)
    again, _ = judged(near, {0: noisy}, tmp_path)
    assert again.verdict == "rounding" and [(each.came, each.stable) for each in again.decisions] == [
        (str(bool(taken)), False)
    ]


def test_a_size_that_rounding_decides_is_calm_and_what_follows_from_it_is_not_compared(tmp_path: Path) -> None:
    mask = (X.exp().log() - X > 0).numpy()
    flipped = mask.copy()
    flipped[1, 1] = ~flipped[1, 1]
    values = (X.exp().log() - X).numpy()[flipped]
    found, graph = judged(selects, {0: values + 1, 1: np.asarray(values.sum()), 2: flipped}, tmp_path)
    assert (graph.labels.decisions[0].kind, graph.labels.decisions[0].taken) == ("count", str(mask.sum()))
    assert found.verdict == "rounding" and found.verdicts == ("ill_conditioned", "ill_conditioned", "rounding")
    assert [(each.came, each.stable) for each in found.decisions] == [(str(flipped.sum()), False)]


def test_each_iteration_of_a_loop_is_a_decision(tmp_path: Path) -> None:
    found, graph = judged(loops, {4: np.asarray(False)}, tmp_path)
    conditions = [each for each in graph.labels.decisions if each.kind == "branch"]
    assert [each.taken for each in conditions] == ["True"] * 3 + ["False"]
    assert [(each.time, each.came, each.stable) for each in found.decisions] == [(2, "False", True)]
    assert isinstance(found.decisions[0], OtherDecision)
