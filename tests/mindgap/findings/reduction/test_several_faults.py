"""Each fault of a row is reduced to a graph of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mindgap.findings.reduction import ReductionLimits
from mindgap.findings.reduction.finding import reduce_finding
from mindgap.graph import Graph
from mindgap.graph_capture import capture
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.name import parse
from mindgap.results.report_json import decode_report, encode_report
from mindgap.results.rows import Report, Row

FAULT = '[[fault]]\nkind = "wrong_element"\nadd = 0.5\nwhen = {{ op = "aten.{}*" }}\n'


@pytest.mark.nightly
def test_each_fault_of_a_row_is_reduced_to_its_operator(context: RunContext, tmp_path: Path) -> None:
    (tmp_path / "faults.toml").write_text(FAULT.format("exp") + FAULT.format("tanh"))
    platform = f"faulty/eager@faults={tmp_path / 'faults.toml'}"
    graph = capture(lambda x: (torch.tanh(torch.exp(x) * 0.5) + 1,), (torch.randn(4, 6),), tensors=context.tensors)
    row = GraphComparison(context, "case", graph).row(parse(platform))
    limits = ReductionLimits(100, 60.0, stage=False, condition_s=0.0)
    found = [reduce_finding(context, graph, each, limits) for each in row.by_fault]
    assert [[node.op for node in each.reduction.graph.nodes] for each in found] == [
        ["aten.exp.default"], ["aten.tanh.default"],
    ]  # fmt: skip
    assert [each.row.culprit.op for each in found if each.row.culprit] == ["aten.exp.default", "aten.tanh.default"]


def two_that_openvino_does_not_convert(context: RunContext) -> tuple[Graph, Row]:
    """The row of a program with `index_add` and `linalg.cross`, which OpenVINO's front end reports in one message."""

    def program(x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(4, 3).index_add(0, index, x).sum() + 1, torch.linalg.cross(x, x.flip(0)).relu()

    graph = capture(program, (torch.randn(4, 3), torch.tensor([0, 2, 1, 0])), tensors=context.tensors)
    return graph, GraphComparison(context, "case", graph).row(parse("openvino/cpu@precision=f32"))


def test_each_failure_of_one_report_is_a_fault_with_its_own_message(context: RunContext) -> None:
    pytest.importorskip("openvino")
    _, row = two_that_openvino_does_not_convert(context)
    report = Report(parse("cpu/eager"), (), (), (row,))
    for each in (row, decode_report(encode_report(report)).rows[0]):
        culprits = ["aten.index_add.default", "aten.linalg_cross.default"]
        assert [fault.culprit.op for fault in each.by_fault if fault.culprit] == culprits
        for fault, other in zip(each.by_fault, ("linalg_cross", "index_add"), strict=True):
            assert "fails by itself" in fault.detail and other not in fault.message and other not in fault.signature
    assert all(name in row.message for name in ("index_add", "linalg_cross")), "of the whole graph"


@pytest.mark.nightly
def test_each_failure_of_one_report_is_reduced_to_its_operator(context: RunContext) -> None:
    pytest.importorskip("openvino")
    graph, row = two_that_openvino_does_not_convert(context)
    limits = ReductionLimits(100, 60.0, stage=False, condition_s=0.0)
    found = [reduce_finding(context, graph, each, limits) for each in row.by_fault]
    assert [[node.op for node in each.reduction.graph.nodes] for each in found] == [
        ["aten.index_add.default"], ["aten.linalg_cross.default"],
    ]  # fmt: skip
