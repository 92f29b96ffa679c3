"""Calls operators on fake tensors, which have shapes, dtypes, strides and shared memory, and no data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from mindgap.aten.operators import overload_name
from mindgap.aten.torch_private.fake_tensors import suggest_memory_format

#: Operators whose fake kernel knows bfloat16 only, as on a GPU, while the CPU runs them in any dtype.
_BF16_ONLY: Final = frozenset({"aten._grouped_mm.default"})

#: Batch norms, and which operand's memory format the first result has: the fake kernels give it that operand's own
#: strides instead, which are other ones where it is neither contiguous nor channels-last.
_NORMS: Final[Mapping[str, int]] = {
    "aten.batch_norm.default": 0,
    "aten.native_batch_norm.default": 0,
    "aten._native_batch_norm_legit.default": 0,
    "aten._native_batch_norm_legit.no_stats": 0,
    "aten._native_batch_norm_legit_no_training.default": 0,
    "aten.native_batch_norm_backward.default": 1,
}

#: The real kernel gives a contiguous first result, the fake one the strides of its operand.
_CONTIGUOUS: Final = frozenset({"aten.native_layer_norm_backward.default"})


def fake_call(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Calls `func` under a fake tensor mode, also where the fake kernel takes less than the real one."""
    name = overload_name(func)
    if name in _NORMS:
        return _laid_out(func(*args, **kwargs), args[_NORMS[name]])
    if name in _CONTIGUOUS:
        first, *others = func(*args, **kwargs)
        return (first if first is None else first.contiguous(), *others)
    if name not in _BF16_ONLY:
        return func(*args, **kwargs)
    dtype = args[0].dtype
    half = [a.to(torch.bfloat16) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args]
    return func(*half, **kwargs).to(dtype)


def _laid_out(result: Any, operand: torch.Tensor) -> Any:
    first = result if isinstance(result, torch.Tensor) else result[0]
    if first is None:  # a gradient that is not wanted
        return result
    laid = first.contiguous(memory_format=suggest_memory_format(operand))
    return laid if isinstance(result, torch.Tensor) else (laid, *result[1:])
