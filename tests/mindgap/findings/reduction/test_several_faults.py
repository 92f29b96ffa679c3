"""Each fault of a row is reduced to a graph of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mindgap.findings.reduction import ReductionLimits
from mindgap.findings.reduction.finding import reduce_finding
from mindgap.graph_capture import capture
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.name import parse

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
