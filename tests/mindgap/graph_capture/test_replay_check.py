"""The proof runs the program as a user would, drawn numbers or not."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import capture

GRIDS: dict[str, torch.Tensor] = {}
LAST: torch.Tensor | None = None


@functools.lru_cache
def table(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    angles = torch.arange(float(length))
    return angles.sin(), angles.cos()


class KeepsTables(torch.nn.Module):
    """Keeps what it computes in a cache of a function, a dictionary, a class and a variable of its file."""

    masks: dict[int, torch.Tensor] = {}
    first: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        global LAST
        sine, cosine = table(x.shape[-1])
        if str(x.shape) not in GRIDS:
            GRIDS[str(x.shape)] = torch.linspace(-1, 1, x.shape[-1])
        if x.shape[-1] not in self.masks:
            self.masks[x.shape[-1]] = torch.ones(x.shape[-1]).cumsum(0)
        if KeepsTables.first is None:
            KeepsTables.first = torch.ones(()).exp()
        if LAST is None:
            LAST = torch.ones(()).sin()
        return x * cosine + sine + GRIDS[str(x.shape)] * self.masks[x.shape[-1]] * KeepsTables.first + LAST


def test_tables_that_code_keeps_are_those_of_real_runs(tmp_path: Path) -> None:
    program, x = KeepsTables(), torch.ones(2, 5)
    graph = capture(program, (x,), tensors=TensorStore(tmp_path))
    assert {"aten.sin.default", "aten.cos.default", "aten.cumsum.default"} <= {node.op for node in graph.nodes}
    kept = [*table(5), *GRIDS.values(), *KeepsTables.masks.values(), KeepsTables.first, LAST]
    assert [type(each) for each in kept] == [torch.Tensor] * 6
    assert program(x).isfinite().all()
    # The tables are there, as in a second call of the program.
    assert "aten.sin.default" not in {node.op for node in capture(program, (x,), tensors=TensorStore(tmp_path)).nodes}


def resampled(x: torch.Tensor) -> Any:
    """PyTorch has Python definitions of both upsamplings, which round otherwise than its kernels."""
    grown = F.interpolate(x, (37, 41), mode="bilinear", align_corners=False)
    return grown + torch.rand(1, 1, 37, 41), F.interpolate(grown, scale_factor=1.7, mode="bicubic")


def test_numbers_drawn_beside_a_call_leave_its_kernel_alone(tmp_path: Path) -> None:
    x = torch.linspace(-1.0, 1.0, 5 * 16 * 13).sin().reshape(1, 5, 16, 13)
    graph = capture(resampled, (x,), tensors=TensorStore(tmp_path))
    assert sum(given.role == "random" for given in graph.inputs) == 1
    assert "aten.upsample_bilinear2d.vec" in {node.op for node in graph.nodes}
