"""Computes range, mean and deviation of a tensor, and whether comparing it is informative."""

from __future__ import annotations

import math
from typing import Literal

import torch

from mindgap_campaign.synth.regions.region import ValueStatistics

Informativeness = Literal["useful", "not finite", "constant"]

#: Of means and deviations, which other processors sum in another order, this many digits are kept.
_DIGITS = 3


def statistics_of(tensor: torch.Tensor, *, exact: bool = True) -> ValueStatistics | None:
    """Computes the statistics of a float tensor without NaN or Inf; None for any other and for an empty one.

    `exact`: its bits are the same on every machine, so its least and largest element are given as they are.
    """
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return None
    wide = tensor.detach().to(torch.float64)
    low, high = (float(each) for each in torch.aminmax(wide))
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    mean = float(wide.mean())
    std = math.sqrt(max(float((wide * wide).mean()) - mean * mean, 0.0)) if high > low else 0.0
    if not (math.isfinite(mean) and math.isfinite(std)):
        return None
    if exact:
        return ValueStatistics(low, high, _rounded(mean), _rounded(std))
    return ValueStatistics(_rounded(low), _rounded(high), _rounded(mean), _rounded(std))


def informativeness(tensor: torch.Tensor) -> Informativeness:
    """Tells whether agreement on the tensor is informative: some element is finite, and not all are equal.

    A single number and an empty tensor are useful.
    """
    if tensor.numel() == 0:
        return "useful"
    plain = tensor.detach()
    if plain.is_complex():
        plain = torch.view_as_real(plain.resolve_conj())
    if plain.is_floating_point():
        if plain.dtype.itemsize == 1:
            plain = plain.float()
        if not bool(torch.isfinite(plain.sum())) and not bool(torch.isfinite(plain).any()):
            return "not finite"
    if tensor.numel() == 1:
        return "useful"
    first = plain[(slice(0, 1),) * plain.dim()]
    return "constant" if bool((plain == first).all()) else "useful"


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
