"""What records of real models once made a false alarm, or none, as minimal programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from mindgap.graph import TensorStore
from mindgap.graph_capture import capture
from mindgap.workflows.diff import Row, RunSettings, Subject, diff_many

X = torch.linspace(-2.0, 2.0, 12).reshape(3, 4)


def judged(tmp_path: Path, platform: str, program: Callable[..., Any], *args: torch.Tensor) -> Row:
    store = TensorStore(tmp_path)
    subject = Subject("case", lambda: capture(program, args, tensors=store))
    report = diff_many([subject], [platform], settings=RunSettings(trace=False), tensors=store, jobs=1)
    assert not report.refused
    return report.rows[0]


@pytest.mark.nightly
def test_nobody_sees_the_shape_of_an_empty_intermediate(tmp_path: Path) -> None:
    """Falcon joins an empty cached mask; in 16 bits every operator is looked at alone."""
    pytest.importorskip("openvino")

    def mask(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.zeros(3, 0, dtype=torch.float16), x], -1).exp().softmax(-1)

    row = judged(tmp_path, "openvino/cpu@precision=f32", mask, X.half())
    assert row.verdict == "rounding", row


@pytest.mark.nightly
def test_an_empty_output_of_another_shape_is_a_finding(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    row = judged(tmp_path, "openvino/cpu@frontend=onnx,precision=f32", lambda x: (torch.zeros(3, 0), x + 1), X)
    assert row.verdict == "structural" and row.blame == "platform", row


def test_a_power_in_place_is_no_failure_of_the_platform(tmp_path: Path) -> None:
    """LightGCN normalises by degrees so."""
    pytest.importorskip("onnxruntime")
    row = judged(tmp_path, "onnxruntime/cpu", lambda x: x.abs().add(1).pow_(-0.5), X)
    assert row.verdict in ("identical", "rounding"), row
