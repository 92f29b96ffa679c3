"""What mindgap itself fails on while a platform is held against itself."""

from __future__ import annotations

import pytest
import torch

from mindgap.capture import capture
from mindgap.diff.alone import _Alone, alone
from mindgap.diff.session import Comparison, Subject
from mindgap.graph import Graph


def chain() -> Graph:
    return capture(torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.GELU()), (torch.ones(5, 8),))


def raises() -> Graph:
    raise ZeroDivisionError("in the capture")


def test_a_failure_of_the_judge_or_of_a_capture_costs_no_other_row(monkeypatch: pytest.MonkeyPatch) -> None:
    settled = Comparison.settled

    def fails(comparison: Comparison, outcome: object) -> object:
        if "batch turned" in comparison.name:
            raise ZeroDivisionError("in the judge")
        return settled(comparison, outcome)

    monkeypatch.setattr(_Alone, "_as_before", lambda *_: False)
    monkeypatch.setattr(Comparison, "settled", fails)
    found = alone([Subject("broken", raises), Subject("chain", chain)], "cpu/eager", jobs=2)
    (refused,) = found.refused
    assert refused.source == "broken" and refused.broken and "mindgap failed: in the capture" in refused.reason
    broken = [row for row in found.rows if row.broken]
    assert {row.model for row in broken} == {"chain ~ batch turned"} and "in the judge" in broken[0].broken
    judged = [row for row in found.rows if not row.broken]
    assert judged and all(row.verdict in ("identical", "rounding") for row in judged)
