"""Gives a value of a graph being built the memory layout that an operator that reads storage needs."""

from __future__ import annotations

import torch

from mindgap.aten.counterpart import Builder
from mindgap.graph import GraphError, MemoryFormat, Ref


def laid_out_as(builder: Builder, number: int, now: torch.Tensor, layout: torch.Tensor) -> int:
    """Returns a value with the same elements, the strides of `layout`, and no offset; emits a copy if needed.

    `now`: the value's fake tensor. Raises `GraphError` for strides that no permutation of a contiguous tensor has.
    """
    alike = now.stride() == layout.stride()
    if alike and not now.storage_offset():
        return number
    order = sorted(range(layout.dim()), key=lambda d: (-layout.stride(d), d))
    dense = layout.permute(order)
    if not dense.is_contiguous():
        raise GraphError(
            "a write or a read through as_strided, whose base has gaps or overlaps, has no functional form"
        )
    turned = builder.emit("aten.permute.default", Ref(number), tuple(order))[0]
    copied = builder.emit("aten.clone.default", Ref(turned), memory_format=MemoryFormat("contiguous_format"))[0]
    return builder.emit("aten.permute.default", Ref(copied), tuple(order.index(d) for d in range(len(order))))[0]
