"""The pass that `mindgap reduce` names for faults of public threads, written anew; the threads have the right answers.

24711, IREE's linker and others are in `test_at_fault.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.command_line import mindgap
from rewrites import thread_models

ATTENTION = """
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))

    def forward(self, x):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, 4, 8).permute(0, 2, 1, 3)
        k = self.k(x).view(b, t, 4, 8).permute(0, 2, 3, 1)
        v = self.v(x).view(b, t, 4, 8).permute(0, 2, 1, 3)
        return ((q @ k) * 0.35).softmax(-1) @ v


def make():
    torch.manual_seed(0)
    return Attention().eval(), (torch.randn(4, 4, 32),)
"""


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("make", "version", "named"),
    [
        # Each of the two alone makes it right, by the thread.
        pytest.param(thread_models.same_cast, "", ("CastElimination", "DivMulFusion"), id="onnxruntime 32416"),
        pytest.param(thread_models.idle_dropout, "", ("EliminateDropout", "DivMulFusion"), id="onnxruntime 32414"),
        pytest.param(thread_models.wide_scale, "", ("SimplifiedLayerNormFusion",), id="onnx 8203"),
        pytest.param(thread_models.padded_maximum, "", ("Pad_Fusion",), id="onnxsim 290"),
        pytest.param(thread_models.padded_mean, "1.20.1", ("Pad_Fusion",), id="onnxruntime 22177"),
        pytest.param(thread_models.idle_transpose, "1.23.2", ("GemmTransposeFusion",), id="onnxruntime 32417"),
    ],
)
def test_the_optimizer_of_onnxruntime(
    make: Callable[[Path], None], version: str, named: tuple[str, ...], tmp_path: Path
) -> None:
    make(tmp_path / "model.onnx")
    platform = "onnxruntime/cpu"
    if version:
        assert mindgap("env", "create", "ort", f"onnxruntime=={version}", cwd=tmp_path).status == 0
        platform += "@env=ort"
    ran = mindgap("reduce", "model.onnx", "-p", platform, "--seconds", "30", "--out", "r", cwd=tmp_path)
    lines = [f"right with: onnxruntime.InferenceSession(…, disabled_optimizers=['{each}'])" for each in named]
    assert any(line in ran.out for line in lines), ran.out + ran.err


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_the_pass_of_inductor(tmp_path: Path) -> None:
    """https://github.com/pytorch/pytorch/issues/195320: attention is fused with keys that are permuted, not
    transposed."""
    (tmp_path / "attention.py").write_text(ATTENTION)
    ran = mindgap("reduce", "attention.py:make", "-p", "cpu/inductor", "--seconds", "60", "--out", "r", cwd=tmp_path)
    assert 'right with: torch._inductor.config.disabled_passes = "pass_pattern_0"' in ran.out, ran.out + ran.err
