"""The proof runs the program as a user would, drawn numbers or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import capture


def resampled(x: torch.Tensor) -> Any:
    """PyTorch has Python definitions of both upsamplings, which round otherwise than its kernels."""
    grown = F.interpolate(x, (37, 41), mode="bilinear", align_corners=False)
    return grown + torch.rand(1, 1, 37, 41), F.interpolate(grown, scale_factor=1.7, mode="bicubic")


def test_numbers_drawn_beside_a_call_leave_its_kernel_alone(tmp_path: Path) -> None:
    x = torch.linspace(-1.0, 1.0, 5 * 16 * 13).sin().reshape(1, 5, 16, 13)
    graph = capture(resampled, (x,), tensors=TensorStore(tmp_path))
    assert sum(given.role == "random" for given in graph.inputs) == 1
    assert "aten.upsample_bilinear2d.vec" in {node.op for node in graph.nodes}
