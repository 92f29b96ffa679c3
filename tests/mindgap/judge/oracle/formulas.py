"""Operators by formulations that share no kernel with PyTorch's: numpy, scipy, and definitions written out.

Which results of eager are wrong depends on the processor: float16 `gelu(inf)` is NaN with AVX512-FP16 alone. So the
tests keep no list of them, and compute them here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy import special

Array = np.ndarray[Any, np.dtype[Any]]

_UNARY: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "tanh": np.tanh, "sqrt": np.sqrt,
    "erf": special.erf, "erfc": special.erfc, "erfinv": special.erfinv, "sigmoid": special.expit,
    "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x, "abs": np.abs, "neg": np.negative,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.round, "square": np.square,
    "relu": lambda x: np.where(x < 0, 0.0, x), "deg2rad": np.deg2rad, "rad2deg": np.rad2deg,
    "special_erfcx": special.erfcx, "special_i0e": special.i0e, "special_i1e": special.i1e,
    "special_ndtr": special.ndtr, "special_ndtri": special.ndtri,
    "special_entr": lambda x: np.where(np.isnan(x), x, special.entr(x)),
    "softplus": lambda x: np.where(x > 20, x, np.log1p(np.exp(x))), "log_sigmoid": special.log_expit,
}  # fmt: skip
_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "div": np.divide, "mul": np.multiply, "atan2": np.arctan2, "hypot": np.hypot, "maximum": np.maximum,
    "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin, "copysign": np.copysign,
}  # fmt: skip


def formulations(op: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Array] | None:
    """Results in float64, one array for each defensible reading of the definition; None for an operator without one.

    Readings differ at infinities: `gelu(-inf)` is the limit 0, or the NaN of -inf·0.
    """
    if any(isinstance(a, torch.Tensor) and not a.is_floating_point() for a in args):
        return None
    packet = op.split(".")[1]
    plain = [a.double().numpy() if isinstance(a, torch.Tensor) else a for a in args]
    with np.errstate(all="ignore"):
        if packet in _UNARY and len(args) == 1 and not kwargs:
            return [np.asarray(_UNARY[packet](plain[0]))]
        if packet in _BINARY and len(args) == 2 and not kwargs:
            return [np.asarray(_BINARY[packet](plain[0], plain[1]))]
        if packet in ("add", "sub") and len(args) == 2:
            scaled = kwargs.get("alpha", 1) * np.asarray(plain[1], np.float64)
            return [plain[0] + scaled if packet == "add" else plain[0] - scaled]
        if packet == "gelu":
            return _gelu(plain[0], kwargs.get("approximate", "none"))
        if packet in ("remainder", "fmod") and len(args) == 2:
            return [(np.mod if packet == "remainder" else np.fmod)(plain[0], plain[1])]
        if op == "aten.pow.Tensor_Scalar":
            return [np.power(plain[0], np.full_like(plain[0], plain[1]))]  # a scalar ½ would take a square root
    return None


def _gelu(x: Array, approximate: str) -> list[Array]:
    """x·Φ(x), written out and with its limits at infinities."""
    inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    gate = special.ndtr(x) if approximate == "none" else 0.5 * (1 + np.tanh(inner))
    return [x * gate, np.where(np.isinf(x), np.maximum(x, 0.0), x * gate)]


def wrong_elements(got: torch.Tensor, readings: Sequence[Array]) -> tuple[torch.Tensor, torch.Tensor]:
    """(wrong, inexact): elements of another class (NaN, +Inf, -Inf, finite) than in every reading, where no
    intermediate of the declared dtype can overflow; finite elements more than eight units in the last place off every
    reading.

    An alarm is due on the first, and right on the second.
    """
    limits = torch.finfo(got.dtype)
    wrong = torch.ones(got.shape, dtype=torch.bool)
    inexact = torch.ones(got.shape, dtype=torch.bool)
    open_question = torch.zeros(got.shape, dtype=torch.bool)
    for reading in readings:
        exact = torch.from_numpy(np.ascontiguousarray(np.broadcast_to(reading, got.shape)))
        open_question |= exact.isfinite() & (exact.abs() > limits.max / 64)
        rounded = exact.to(got.dtype)
        wrong &= ~((rounded == got) | (rounded.isnan() & got.isnan()) | (got.isfinite() & rounded.isfinite()))
        off = (got.double() - exact).abs() > 8 * limits.eps * exact.abs() + limits.tiny
        inexact &= off & got.isfinite() & rounded.isfinite()
    return wrong & ~open_question, inexact
