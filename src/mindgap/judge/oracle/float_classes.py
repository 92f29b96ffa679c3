"""The class of an element: finite, NaN, +Inf or -Inf, as one bit each. Payloads and signs of NaN never matter."""

from __future__ import annotations

from typing import Final

import torch

FINITE: Final = 1
NAN: Final = 2
POSITIVE: Final = 4
NEGATIVE: Final = 8
ANY: Final = 15


def all_finite(tensor: torch.Tensor) -> bool:
    """No NaN and no infinity: each would show in the sum, which is quicker to take than to look at every element."""
    return bool(torch.isfinite(tensor.sum())) or bool(torch.isfinite(tensor).all())


def class_bits(tensor: torch.Tensor) -> torch.Tensor:
    """uint8, same shape, one bit set per element. A complex number is NaN if a part is, infinite if a part is."""
    if tensor.is_complex():
        nan = torch.isnan(tensor)
        infinite = torch.isinf(tensor.real) | torch.isinf(tensor.imag)
        bits = torch.full(tensor.shape, FINITE, dtype=torch.uint8)
        bits[infinite] = POSITIVE
        bits[nan] = NAN
        return bits
    bits = torch.full(tensor.shape, FINITE, dtype=torch.uint8)
    if all_finite(tensor):
        return bits
    bits[tensor == torch.inf] = POSITIVE
    bits[tensor == -torch.inf] = NEGATIVE
    bits[torch.isnan(tensor)] = NAN
    return bits
