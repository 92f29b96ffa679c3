"""Finds elements whose intermediate values may overflow in a correct implementation although the result is in range.

A variance of numbers near 1e19 overflows in float32 although the normalised values do not; x·(x + 3)/6 overflows
before the division. What comes out of such a path, a NaN, an infinity or zero, is no error of rounding and no
fault either: these elements are not judged. Infinite operands are: every implementation sees them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from mindgap.graph.operators import Traits
from mindgap.judge.oracle.evaluation.formats import FORMATS, is_real


def out_of_range(
    known: Traits, args: Sequence[Any], result: torch.Tensor, dtype: str, acc: float, ruled: bool, alpha: Any = 1
) -> torch.Tensor | None:
    """Mask of the elements of a result whose intermediates may overflow or vanish; None where there are none.

    `acc`: largest finite number of the accumulator; `ruled`: a family has a bound for the operator; `alpha`: by which
    a sum multiplies its second operand.
    """
    operands = [a for a in args if isinstance(a, torch.Tensor) and (a.is_floating_point() or a.is_complex())]
    if not operands:
        return None
    worst = max(largest_finite(a) for a in operands)
    kind = known.intermediates
    if kind != "sums" and (result.is_complex() or any(a.is_complex() for a in operands)):
        return _complex(known, operands, worst, result, acc)
    if kind == "products":
        return _products(operands[0], result, acc)
    if kind == "elementwise":
        return _elementwise(args, result, FORMATS[dtype].largest)
    if kind == "scaled operand":
        return _scaled(args, alpha, result, FORMATS[dtype].largest)
    if kind == "signed weights":
        return _resampled(operands[0], result, FORMATS[dtype].largest)
    terms = float(max(a.numel() for a in operands))
    narrow = FORMATS[dtype].largest if is_real(dtype) and (known.rounds_each_step or not ruled) else math.inf
    if kind == "squares" or not ruled:
        power = 2.0
    elif kind == "sums":
        power = 1.0
    else:
        return None
    steps = worst > (narrow ** (1 / power) / 2 if ruled or known.rounds_each_step else narrow / 16)
    vanishing = not ruled and 0 < worst < 4 / acc ** (1 / 2)
    return _all(result) if vanishing or steps or worst > (acc / max(terms, 1.0)) ** (1 / power) / 4 else None


def largest_finite(x: torch.Tensor) -> float:
    """The largest finite magnitude, 0 where there is none."""
    if not x.numel():
        return 0.0
    worst = float(x.abs().amax()) if x.is_complex() else _largest(x)
    return worst if math.isfinite(worst) else float(torch.nan_to_num(x.abs(), nan=0.0, posinf=0.0).amax())


def _largest(x: torch.Tensor) -> float:
    """The largest magnitude, NaN where there is one. Copies nothing: a weight may take gigabytes."""
    least, most = torch.aminmax(x)
    return max(abs(float(least)), float(most)) if not torch.isnan(most) else math.nan


def _all(result: torch.Tensor) -> torch.Tensor:
    return torch.ones(result.shape, dtype=torch.bool)


def _any(mask: torch.Tensor) -> torch.Tensor | None:
    return mask if bool(mask.any()) else None


def _elementwise(args: Sequence[Any], result: torch.Tensor, largest: float) -> torch.Tensor | None:
    size = torch.nan_to_num(result.abs(), nan=0.0, posinf=0.0)
    mask = size > largest / 64
    for operand in args:
        if isinstance(operand, torch.Tensor):
            # Not every kind of integer has an absolute value.
            operand = operand if operand.is_floating_point() or operand.is_complex() else operand.to(torch.float64)
            reach = torch.isfinite(operand) & (operand.abs() > largest / 16)
            mask = mask | (reach if _shape(operand, result) == result.shape else reach.any())
    return _any(mask)


def _scaled(args: Sequence[Any], alpha: Any, result: torch.Tensor, largest: float) -> torch.Tensor | None:
    if not isinstance(alpha, (int, float)) or abs(alpha) <= 1 or len(args) < 2 or not isinstance(args[1], torch.Tensor):
        return None
    other = args[1].to(torch.float64)
    return _any((torch.isfinite(other) & (other.abs() * abs(alpha) > largest / 2)).expand(result.shape))


def _resampled(x: torch.Tensor, result: torch.Tensor, largest: float) -> torch.Tensor | None:
    """Every element of a channel that holds an infinity or a number near the largest one.

    The sign and the zeros of a weight are decided by rounded coordinates, and with them what an infinity becomes.
    """
    if x.dim() < 3 or result.dim() != x.dim():
        return None
    reach = (x.abs() > largest / 16).flatten(2).any(-1)
    return _any(reach.reshape(*reach.shape, *[1] * (x.dim() - 2)).expand(result.shape))


def _shape(operand: torch.Tensor, result: torch.Tensor) -> torch.Size:
    try:
        # PyTorch's own function of this name imports a symbolic algebra system first.
        return torch.Size(np.broadcast_shapes(operand.shape, result.shape))
    except ValueError:
        return operand.shape


def _products(x: torch.Tensor, result: torch.Tensor, acc: float) -> torch.Tensor | None:
    """In one order the factors may overflow first, in another vanish."""
    logs = torch.nan_to_num(x.abs().log2(), nan=0.0, posinf=math.log2(acc), neginf=-math.log2(acc))
    grown, shrunk = float(logs.clamp_min(0).sum()), float(logs.clamp_max(0).sum())
    limit = math.log2(acc) - 2
    return _all(result) if (grown > limit or shrunk < -limit) and grown > 0 > shrunk else None


def _complex(
    known: Traits, operands: Sequence[torch.Tensor], worst: float, result: torch.Tensor, acc: float
) -> torch.Tensor | None:
    """Products of parts, quotients written out: |z|² must stay in range, and e to the real part."""
    if not known.complex_intermediates:
        return None
    smallest = min((float(a.abs()[a != 0].amin()) for a in operands if bool((a != 0).any())), default=1.0)
    limit = math.sqrt(acc) / 4
    exponential = known.complex_intermediates == "exponential"
    if worst > (min(limit, math.log(acc) / 2) if exponential else limit) or smallest < 4 / limit:
        return _all(result)
    return None if all(bool(torch.isfinite(a).all()) for a in operands) else _all(result)
