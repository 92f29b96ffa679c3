"""Converts the arguments of a graph's node to those that PyTorch's operators take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from mindgap.graph import Arg, Device, DType, Layout, MemoryFormat, Ref

_CPU = torch.device("cpu")


def attribute(arg: Arg, device: torch.device = _CPU) -> Any:
    """Converts a dtype, layout, memory format or device; returns any other argument as it is."""
    if isinstance(arg, (DType, MemoryFormat, Layout)):
        return getattr(torch, arg.name)
    return device if isinstance(arg, Device) else arg


def bind(arg: Arg, values: Sequence[Any] | Callable[[int], Any], device: torch.device = _CPU) -> Any:
    """Converts an argument, with references replaced by `values`: a sequence, or a function of the index."""
    if isinstance(arg, Ref):
        return values(arg.index) if callable(values) else values[arg.index]
    if isinstance(arg, tuple):
        return [bind(item, values, device) for item in arg]
    return attribute(arg, device)
