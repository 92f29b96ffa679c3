"""Parameters of floating-point formats (unit roundoff, range), and rounding to a format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.graph import kind_of


@dataclass(frozen=True, slots=True)
class Format:
    """`u`: unit roundoff (half the gap after 1). `u_acc`: that of the format sums are kept in.

    `tiny`: smallest normal. `largest`: largest finite. `narrow`: 16 bits or fewer.
    """

    u: float
    u_acc: float
    tiny: float
    largest: float
    largest_acc: float
    narrow: bool


def _format(name: str) -> Format:
    real = {"complex64": "float32", "complex128": "float64"}.get(name, name)
    info = torch.finfo(TORCH_DTYPES[real])
    narrow = info.bits <= 16
    wide = torch.finfo(torch.float32) if narrow else info
    return Format(info.eps / 2, wide.eps / 2, info.tiny, info.max, wide.max, narrow)


FORMATS: Final[dict[str, Format]] = {
    name: _format(name) for name in TORCH_DTYPES if kind_of(name) in ("float", "complex")
}


def is_real(dtype: str) -> bool:
    """Float or complex: a dtype whose values round."""
    return dtype in FORMATS


def widen(tensor: torch.Tensor) -> torch.Tensor:
    """Floats as float64, complex numbers as complex128, everything else as it is."""
    if tensor.is_floating_point():
        return tensor.to(torch.float64)
    return tensor.to(torch.complex128) if tensor.is_complex() else tensor


def rounded(tensor: torch.Tensor, dtype: str) -> torch.Tensor:
    """The nearest values of `dtype` (ties to even), held in float64 or complex128."""
    target = TORCH_DTYPES[dtype]
    return tensor if target == tensor.dtype else tensor.to(target).to(tensor.dtype)


def in_range(tensor: torch.Tensor, dtype: str) -> torch.Tensor:
    """Unrounded, except that what overflows `dtype` becomes infinite."""
    if tensor.is_complex() or TORCH_DTYPES[dtype] == tensor.dtype:
        return tensor
    narrowed = tensor.to(TORCH_DTYPES[dtype]).to(tensor.dtype)
    return torch.where(torch.isfinite(narrowed) | ~torch.isfinite(tensor), tensor, narrowed)
