"""Gives a value of a graph being built the memory layout that an operator that reads storage needs."""

from __future__ import annotations

import torch

from mindgap.aten.counterpart import Builder
from mindgap.graph import GraphError, MemoryFormat, Ref


def laid_out_as(builder: Builder, number: int, now: torch.Tensor, wanted: torch.Tensor) -> int:
    """The number of a value with the same elements, the strides of `wanted`, and a memory that begins with it.

    `now`: the value's fake tensor. Raises `GraphError` for strides that no permutation of a contiguous tensor has.
    """
    alike = now.stride() == wanted.stride()
    if alike and not now.storage_offset():
        return number
    order = sorted(range(wanted.dim()), key=lambda d: (-wanted.stride(d), d))
    dense = wanted.permute(order)
    if not dense.is_contiguous():
        raise GraphError(
            "a write or a read through as_strided, whose base has gaps or overlaps, has no functional form"
        )
    turned = builder.emit("aten.permute.default", Ref(number), tuple(order))[0]
    copied = builder.emit("aten.clone.default", Ref(turned), memory_format=MemoryFormat("contiguous_format"))[0]
    return builder.emit("aten.permute.default", Ref(copied), tuple(order.index(d) for d in range(len(order))))[0]
