"""A program with a custom operator. Its file is opened once: an operator is registered once in a process."""

from __future__ import annotations

import torch
from torch import nn


@torch.library.custom_op("mindgap_tests::tripled", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@torch.library.register_kernel("mindgap_tests::tripled", "cpu")
def _tripled_on_cpu(x: torch.Tensor) -> torch.Tensor:
    return x * 3


@tripled.register_fake
def _tripled_shape(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Tripling(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return tripled(x)


def custom_operator() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """An exporter does not know an operator of the program."""
    return nn.Sequential(nn.Linear(8, 8), Tripling()).eval(), (torch.randn(4, 8),)


_library = torch.library.Library("mindgap_tests_library", "DEF")
_library.define("nearest(Tensor x) -> Tensor")


@torch.library.impl(_library, "nearest", "CPU")
def _nearest_on_cpu(x: torch.Tensor) -> torch.Tensor:
    return torch.cdist(x, x).topk(2, largest=False).values


class Nearest(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.mindgap_tests_library.nearest(x)


def operator_without_shapes() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """No export knows the shapes of an operator that has a kernel alone; the exporter refuses what the kernel calls."""
    return nn.Sequential(nn.Linear(8, 8), Nearest()).eval(), (torch.randn(4, 8),)
