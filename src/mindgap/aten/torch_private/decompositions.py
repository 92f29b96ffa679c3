"""PyTorch's decompositions of operators into smaller ones, and its reference implementations in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def decomposition_of(function: Any) -> Callable[..., Any] | None:
    """The registered decomposition of an operator overload, such as `torch.ops.aten.silu.default`."""
    from torch import _decomp

    table: dict[Any, Callable[..., Any]] = vars(_decomp)["decomposition_table"]
    return table.get(function)


def reference_of(packet: str) -> Callable[..., Any] | None:
    """The reference implementation of an operator packet, such as `softmax`."""
    import torch._refs as refs
    import torch._refs.nn.functional as functional

    for module in (refs, functional):
        found: Callable[..., Any] | None = getattr(module, packet, None)
        if found is not None:
            return found
    return None
