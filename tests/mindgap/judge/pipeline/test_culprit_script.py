"""A finding at one operator comes with an example and a script that shows it without mindgap."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from mindgap.findings.reduction.reproducer import verify
from mindgap.workflows.diff import diff


@pytest.mark.nightly
def test_the_script_of_a_row_runs_its_operator_on_the_operands_that_were_wrong() -> None:
    """ONNX Runtime computes `remainder` by a formula that loses it for large quotients. The operands are exact: where
    they are rounded by more than the divisor, each remainder is rounding."""
    pytest.importorskip("onnxruntime")

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.remainder(torch.relu(x) * 2, 0.375).exp()

    def large_numbers(*sizes: int) -> torch.Tensor:
        return torch.randint(2**24, sizes, generator=torch.Generator().manual_seed(0)).float()

    report = diff(program, (large_numbers(4, 8),), platforms=["onnxruntime/cpu", "cpu/jit"], own_path=False)
    wrong, calm = report.rows
    assert wrong.finding and wrong.culprit is not None and wrong.culprit.op == "aten.remainder.Scalar"
    shown = wrong.example
    assert shown is not None and shown.operands and shown.given.endswith("% 0.375") and shown.got != shown.right
    assert wrong.detail.startswith(shown.sentence)
    assert "torch.remainder(x0, " in wrong.script and "import mindgap" not in wrong.script
    shows, printed, _ = verify(wrong.script)
    assert shows, printed
    assert not calm.finding and calm.script == "" and calm.example is None
    (large,) = diff(program, (large_numbers(64, 64),), platforms=["onnxruntime/cpu"], own_path=False).rows
    assert large.finding and large.example is not None and large.script == "", "4096 numbers are no readable script"


def test_a_platform_in_the_making_has_findings_without_a_script(tmp_path: Path) -> None:
    """A backend named by its module has no line of its own that a script could run."""
    (tmp_path / "faults.toml").write_text('[[fault]]\nkind = "noise"\nulp = 100000\nwhen = { op = "aten.exp*" }\n')
    report = diff(
        lambda x: (x.sin().exp(),), (torch.linspace(-1, 1, 12),),
        platforms=[f"mindgap_campaign.faulty:BACKEND@faults={tmp_path / 'faults.toml'}"],
    )  # fmt: skip
    (row,) = report.rows
    assert row.finding and not row.broken and row.script == ""
    sine, wrong = row.around
    assert (sine.node, sine.role, wrong.role, wrong.reads) == (0, "", "introduces", (0,))
    assert wrong.made == ("float32[12]",) and wrong.label.startswith("test_culprit_script.py:")
    assert sine.value is not None and sine.value.relative == 0 and sine.value.platform == sine.value.reference
    assert wrong.value is not None and wrong.value.relative > 1e-4 and wrong.value.max_abs
    assert wrong.value.reference.largest == pytest.approx(math.exp(math.sin(1)), rel=1e-6)
