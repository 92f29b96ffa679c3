"""Computes the powers ±1/2 in float64 as IEEE 754 defines them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch


def half_power(packet: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """`x**0.5` or `x**-0.5` of real numbers, for a scalar exponent; None for any other call.

    PyTorch's float64 kernel takes a square root there, which gives NaN for -∞ and -∞ for the reciprocal at -0. IEEE 754
    (2019, §9.2.1) and C99 (F.9.4.4) define +∞ and 0 for -∞, +0 and +∞ for -0, which the float16 kernel gives.
    """
    if packet != "pow" or len(args) != 2 or kwargs:
        return None
    base, exponent = args
    if not isinstance(base, torch.Tensor) or not base.is_floating_point() or isinstance(exponent, torch.Tensor):
        return None
    if isinstance(exponent, complex) or abs(exponent) != 0.5:
        return None
    root = torch.sqrt(base)
    root = torch.where(base == -torch.inf, torch.inf, torch.where(base == 0, 0.0, root))
    return root if exponent > 0 else root.reciprocal()
