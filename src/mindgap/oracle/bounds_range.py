"""Where a correct implementation may leave the range of its accumulator on the way to a result that is in range.

A variance of numbers near 1e19 overflows in float32 although the normalised values do not; x·(x + 3)/6 overflows
before the division. What comes out of such a path, a NaN, an infinity or zero, is no error of rounding and no
fault either: these elements are not judged. Infinite operands are: every implementation sees them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch

from mindgap.oracle.precision import FORMATS, is_real

_SQUARES: Final = frozenset(
    {
        "layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm", "group_norm", "native_group_norm",
        "batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional",
        "instance_norm", "cdist", "_cdist_forward", "_euclidean_dist", "cosine_similarity", "pairwise_distance", "var",
        "std", "var_mean", "std_mean", "norm", "linalg_vector_norm", "mse_loss", "kl_div", "huber_loss",
        "smooth_l1_loss", "trapezoid", "trapz", "cumulative_trapezoid",
    }
)  # fmt: skip
_SUMS: Final = frozenset(
    {
        "l1_loss", "cross_entropy_loss", "nll_loss", "nll_loss_nd", "binary_cross_entropy_with_logits", "fft_fft",
        "fft_ifft", "fft_rfft", "fft_irfft", "fft_fft2", "fft_ifft2", "fft_fftn", "fft_ifftn", "_fft_c2c", "_fft_r2c",
        "_fft_c2r", "fft_rfft2", "fft_irfft2", "stft", "istft", "scatter_add", "scatter_reduce", "index_add",
        "index_reduce", "segment_reduce",
    }
)  # fmt: skip
#: They round each step to the declared dtype on some platform, so that its range counts.
_STEP_BY_STEP: Final = frozenset(
    {
        "mse_loss", "kl_div", "huber_loss", "smooth_l1_loss", "l1_loss", "cross_entropy_loss", "cosine_similarity",
        "nll_loss", "nll_loss_nd", "binary_cross_entropy_with_logits", "scatter_reduce", "index_reduce",
        "trapezoid", "trapz", "cumulative_trapezoid",
    }
)  # fmt: skip
_ELEMENTWISE: Final = frozenset(
    {
        "hardswish", "gelu", "silu", "mish", "sinh", "cosh", "i0", "special_i1", "lerp", "addcmul", "addcdiv", "sinc",
        "softplus", "logaddexp", "logaddexp2", "glu",
    }
)  # fmt: skip
_COMPLEX: Final = frozenset(
    {
        "mul", "div", "reciprocal", "pow", "exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sigmoid", "log", "sqrt",
        "rsqrt", "asin", "acos", "atan", "asinh", "acosh", "atanh", "sgn", "prod", "cumprod", "addcmul", "addcdiv",
        "square", "angle", "expm1",
    }
)  # fmt: skip


#: Their second operand times `alpha` overflows by itself where the two are not one fused multiply-add.
_SCALED: Final = frozenset({"add", "sub", "subtract", "rsub"})
#: Sums of products with weights of which some are negative: cubic interpolation.
_RESAMPLED: Final = frozenset({"grid_sampler", "grid_sampler_2d", "upsample_bicubic2d", "_upsample_bicubic2d_aa"})


def out_of_range(
    packet: str, args: Sequence[Any], result: torch.Tensor, dtype: str, acc: float, ruled: bool, alpha: Any = 1
) -> torch.Tensor | None:
    """Mask of the elements of a result whose intermediates may overflow or vanish; None where there are none.

    `acc`: largest finite number of the accumulator; `ruled`: a family has a bound for the operator; `alpha`: by which
    a sum multiplies its second operand.
    """
    operands = [a for a in args if isinstance(a, torch.Tensor) and (a.is_floating_point() or a.is_complex())]
    if not operands:
        return None
    worst = max(largest_finite(a) for a in operands)
    if packet not in _SUMS and (result.is_complex() or any(a.is_complex() for a in operands)):
        return _complex(packet, operands, worst, result, acc)
    if packet in ("prod", "cumprod"):
        return _products(operands[0], result, acc)
    if packet in _ELEMENTWISE:
        return _elementwise(args, result, FORMATS[dtype].largest)
    if packet in _SCALED:
        return _scaled(args, alpha, result, FORMATS[dtype].largest)
    if packet in _RESAMPLED:
        return _resampled(operands[0], result, FORMATS[dtype].largest)
    terms = float(max(a.numel() for a in operands))
    narrow = FORMATS[dtype].largest if is_real(dtype) and (packet in _STEP_BY_STEP or not ruled) else math.inf
    if packet in _SQUARES or not ruled:
        power = 2.0
    elif packet in _SUMS:
        power = 1.0
    else:
        return None
    steps = worst > (narrow ** (1 / power) / 2 if ruled or packet in _STEP_BY_STEP else narrow / 16)
    vanishing = not ruled and 0 < worst < 4 / acc ** (1 / 2)
    return _all(result) if vanishing or steps or worst > (acc / max(terms, 1.0)) ** (1 / power) / 4 else None


def largest_finite(x: torch.Tensor) -> float:
    """The largest finite magnitude, 0 where there is none."""
    if not x.numel():
        return 0.0
    worst = float(x.abs().amax())
    return worst if math.isfinite(worst) else float(torch.nan_to_num(x.abs(), nan=0.0, posinf=0.0).amax())


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
    packet: str, operands: Sequence[torch.Tensor], worst: float, result: torch.Tensor, acc: float
) -> torch.Tensor | None:
    """Products of parts, quotients written out: |z|² must stay in range, and e to the real part."""
    if packet not in _COMPLEX:
        return None
    smallest = min((float(a.abs()[a != 0].amin()) for a in operands if bool((a != 0).any())), default=1.0)
    limit = math.sqrt(acc) / 4
    exponential = packet in ("exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sigmoid", "pow", "expm1", "prod")
    if worst > (min(limit, math.log(acc) / 2) if exponential else limit) or smallest < 4 / limit:
        return _all(result)
    return None if all(bool(torch.isfinite(a).all()) for a in operands) else _all(result)
