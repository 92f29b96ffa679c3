"""Calls on fake tensors, which have no data: for shapes, dtypes, strides and shared memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from mindgap.aten.operators import overload_name

#: Operators whose fake kernel knows bfloat16 only, as on a GPU, while the CPU runs them in any dtype.
_BF16_ONLY: Final = frozenset({"aten._grouped_mm.default"})


def imagined(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """`func(*args, **kwargs)` under a fake tensor mode, also where the fake kernel is narrower than the real one."""
    if overload_name(func) not in _BF16_ONLY:
        return func(*args, **kwargs)
    dtype = args[0].dtype
    half = [a.to(torch.bfloat16) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args]
    return func(*half, **kwargs).to(dtype)
