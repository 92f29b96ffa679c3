"""Outputs of one run that do not fit each other are named, even where each is within rounding."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch

from mindgap.cli.tables import print_report
from mindgap.graph.compare.verdict import Contradiction
from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import capture
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.judge.trace.contradictions import contradictions
from mindgap.judge.trace.subgraphs import Array
from mindgap.platforms.name import CPU_EAGER, parse
from mindgap.report.page import html_page
from mindgap.results.from_store import report_of
from mindgap.results.recording import recording
from mindgap.results.report_json import decode_report
from mindgap.results.rows import PlatformFacts, Report
from mindgap.results.settings import RunSettings
from mindgap.results.store import Store
from mindgap_campaign.selftest.trial import InProcessExecutor

OPERANDS = torch.tensor([[1.0, 300.0, 0.5], [255.9, 2.0, 3.0]])


def square(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * x
    return y, torch.isinf(y), y.abs().t(), y.sum()


def found(tmp_path: Path, change: dict[int, Array]) -> list[Contradiction]:
    """Of the outputs of `square`, some of them changed."""
    graph = capture(square, (OPERANDS,))
    theirs = [np.asarray(each) for each in square(OPERANDS)]
    ours = [change.get(position, array) for position, array in enumerate(theirs)]
    execute = InProcessExecutor(TensorStore(tmp_path))
    return contradictions(graph, [OPERANDS.numpy()], ours, theirs, execute, CPU_EAGER)


def test_a_test_of_an_element_that_does_not_fit(tmp_path: Path) -> None:
    squares = (OPERANDS * OPERANDS).numpy()
    squares[0, 1] = np.inf
    (of_isinf, of_abs) = found(tmp_path, {0: squares})
    assert (of_isinf.output, of_isinf.of, of_isinf.op) == (1, (0,), "aten.isinf.default")
    assert (of_isinf.count, of_isinf.elements) == (1, 6)
    assert of_isinf.example == "at [0, 1] output 0 is inf, output 1 is False where True follows"
    assert (of_abs.output, of_abs.count, of_abs.example) == (2, 1, "at [1, 0] output 2 is 90000.0 where inf follows")


def test_outputs_that_fit_or_differ_by_rounding_alone(tmp_path: Path) -> None:
    more = (OPERANDS * OPERANDS).numpy() * np.float32(1 + 2**-20)
    assert found(tmp_path, {}) == []
    assert found(tmp_path, {0: more, 2: np.abs(more).T, 3: more.sum()}) == []
    # A NaN is not less than itself, and equals itself where it is moved.
    nowhere = np.full_like(more, np.nan)
    assert found(tmp_path, {0: nowhere, 2: nowhere.T}) == []


def test_outputs_of_another_shape_dtype_or_number_are_left_to_the_judge(tmp_path: Path) -> None:
    squares = (OPERANDS * OPERANDS).numpy()
    assert found(tmp_path, {0: squares[:1] + 1}) == found(tmp_path, {0: squares.astype(np.float64) + 1}) == []
    graph = capture(square, (OPERANDS,))
    execute = InProcessExecutor(TensorStore(tmp_path))
    assert contradictions(graph, [OPERANDS.numpy()], [squares + 1], [squares], execute, CPU_EAGER) == []


@pytest.mark.nightly
@pytest.mark.timeout(120)
def test_inductor_says_that_an_infinite_result_is_finite(tmp_path: Path) -> None:
    """It squares in float32: output 0 is rounded to float16, and the test reads it before."""
    store, tensors = Store(tmp_path / "store"), TensorStore(tmp_path / "tensors")
    graph = capture(square, (OPERANDS.half(),))
    settings, platform = RunSettings(), parse("cpu/inductor")
    comparison = GraphComparison(RunContext(InProcessExecutor(tensors), settings, tensors), "square", graph)
    facts = [PlatformFacts(name, name, True) for name in (CPU_EAGER, platform)]
    with recording(store, settings, lambda _: {}) as record:
        record.begin("2026-11-25T00:00:00+00:00", "0", facts, [platform])
        record.graph("square", graph)
        record.model(0, comparison.model({}), comparison.reference)
        row = comparison.row(platform)
        record.row(graph, row, comparison.outcomes[platform])
        record.finish(1.0)
    assert row.verdict == "rounding"
    (one,) = row.contradictions
    assert (one.output, one.of, one.count) == (1, (0,), 1)
    report = Report(CPU_EAGER, tuple(facts), (comparison.model({}),), (row,))
    assert decode_report(report.to_json()).rows[0].contradictions == (one,)
    assert report_of(store).rows[0].contradictions == (one,)
    out = io.StringIO()
    print_report(report, out)
    said = "output 1 contradicts output 0: aten.isinf.default of it gives something else in 1 of 6 elements"
    assert said in " ".join(out.getvalue().split()) and said in html_page(report)
