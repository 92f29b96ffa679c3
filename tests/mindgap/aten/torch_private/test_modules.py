"""Smoke tests of the private parts of modules."""

from __future__ import annotations

import sys

import torch
from torch import nn

from mindgap.aten.torch_private.modules import (
    MODULE_CALL,
    BatchNorm,
    Convolution,
    TransposedConvolution,
    unwrap_compiled,
)


def test_base_classes_of_layers() -> None:
    assert isinstance(nn.BatchNorm2d(2), BatchNorm)
    assert isinstance(nn.SyncBatchNorm(2), BatchNorm)
    assert isinstance(nn.Conv1d(1, 1, 1), Convolution)
    assert not isinstance(nn.Conv1d(1, 1, 1), TransposedConvolution)
    assert isinstance(nn.ConvTranspose3d(1, 1, 1), TransposedConvolution)


def test_the_frame_of_a_call_holds_the_module() -> None:
    found: list[object] = []

    class Seen(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            frame = sys._getframe(1)
            while frame is not None and frame.f_code is not MODULE_CALL:
                frame = frame.f_back
            found.append(frame and frame.f_locals["self"])
            return x

    module = Seen()
    module(torch.ones(1))
    assert found == [module]


def test_compiled_programs_are_unwrapped() -> None:
    module = nn.Linear(1, 1)

    def function(x: torch.Tensor) -> torch.Tensor:
        return x

    assert unwrap_compiled(torch.compile(module)) is module
    assert unwrap_compiled(torch.compile(function)) is function
    assert unwrap_compiled(function) is function
