"""What mindgap itself fails on while a platform is held against itself."""

from __future__ import annotations

import pytest
import torch

from mindgap.graph import Graph
from mindgap.graph_capture import capture
from mindgap.judge.pipeline.comparison import GraphComparison
from mindgap.workflows.diff import Subject
from mindgap_campaign.metamorphic import _MutantRunner, metamorphic


def chain() -> Graph:
    return capture(torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.GELU()), (torch.ones(5, 8),))


def raises() -> Graph:
    raise ZeroDivisionError("in the capture")


def test_a_failure_of_the_judge_or_of_a_capture_costs_no_other_row(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = GraphComparison.decide

    def fails(comparison: GraphComparison, outcome: object) -> object:
        if "batch turned" in comparison.name:
            raise ZeroDivisionError("in the judge")
        return decide(comparison, outcome)

    monkeypatch.setattr(_MutantRunner, "_as_before", lambda *_: False)
    monkeypatch.setattr(GraphComparison, "decide", fails)
    found = metamorphic([Subject("broken", raises), Subject("chain", chain)], "cpu/eager", jobs=2)
    (refused,) = found.refused
    assert refused.source == "broken" and refused.broken and "mindgap failed: in the capture" in refused.reason
    broken = [row for row in found.rows if row.broken]
    assert {row.model for row in broken} == {"chain ~ batch turned"} and "in the judge" in broken[0].broken
    judged = [row for row in found.rows if not row.broken]
    assert judged and all(row.verdict in ("identical", "rounding") for row in judged)
