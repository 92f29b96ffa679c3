"""Bounds of elementwise arithmetic and elementary functions."""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
import torch

from mindgap.judge.oracle.bounds.rules import Bound, Site, exact, relative, rule
from mindgap.judge.oracle.bounds.terms import (
    coarse_scalar,
    declared_dtype,
    is_complex,
    magnitude,
    without_noise,
)
from mindgap.judge.oracle.evaluation.formats import FORMATS, rounded


@rule("round")
def rounded_to_decimals(site: Site) -> list[Bound | None]:
    """Whole numbers are exact. `decimals`: round(x·10ᵈ)/10ᵈ, where x·10ᵈ next to a half may fall on either side."""
    decimals = int(site.arg(1, "decimals", 0))
    if decimals == 0:
        return exact(site)
    scaled = site.args[0] * 10.0**decimals
    near = ((scaled - scaled.floor()) - 0.5).abs() <= 4 * max(site.u, site.u_out) * scaled.abs()
    size = torch.where(near & torch.isfinite(scaled), 10.0**-decimals / 8, 0.0) + 3 * site.u * site.results[0].abs()
    return [Bound(size, size)]


@rule("ldexp")
def scaled_by_two(site: Site) -> list[Bound | None]:
    """x·2ⁿ is exact for whole n, and a power of two times x otherwise."""
    exponent = magnitude(site.args[1])
    whole = torch.as_tensor(exponent, dtype=torch.float64)
    return exact(site) if bool((whole == whole.round()).all()) else relative(site, 4.0, 0.0)


_ONE = ("add", "sub", "subtract", "rsub", "mul", "multiply", "square", "leaky_relu", "prelu", "rrelu",
        "_prelu_kernel", "softshrink", "deg2rad", "rad2deg", "sqrt")  # fmt: skip


#: float64 holds each product of two numbers of float32.
_PRODUCTS: Final = frozenset({"mul", "multiply", "square"})
#: Those that are basic operations of IEEE 754.
_SUMS: Final = frozenset({"add", "sub", "subtract", "rsub"})
_IEEE: Final = _SUMS | _PRODUCTS


@rule("abs", "absolute", "sgn")
def magnitudes(site: Site) -> list[Bound | None]:
    """Exact for real numbers, a square root for complex ones."""
    return relative(site, 4.0) if is_complex(site.args[0]) else exact(site)


@rule(*_ONE)
def one_rounding(site: Site) -> list[Bound | None]:
    """u·|y|, and where an operand is scaled by `alpha` the rounding of both, which may be in the declared dtype."""
    packet = site.call.packet
    alpha = site.arg(2, "alpha", 1) if packet in _SUMS else 1
    # The slopes of `prelu` are one per channel: tensors, which are not rounded.
    other = site.arg(1, "other", 0.0) if packet != "prelu" else 0.0
    kept = 1.0 + (site.u_out / site.u if site.u_out > site.u else 0.0)
    factor = magnitude(site.args[0] if packet == "rsub" else other)
    scaled = (kept + coarse_scalar(site, alpha)) * abs(alpha) * factor if alpha not in (1, -1) else 0.0
    scalars = sum(coarse_scalar(site, each) * magnitude(each) for each in (site.args[0], other))
    first, *others = relative(site, 1.0, scaled + scalars)
    exact = _representable(site)
    return [without_noise(first, exact, None if exact is None else exact & _have_whole_operands(site)), *others]


def _have_whole_operands(site: Site) -> torch.Tensor:
    """The elements whose operands are whole numbers. Other forms of the same expression give these exactly too."""
    operands = [torch.as_tensor(each, dtype=torch.float64) for each in site.args[:2]]
    return functools.reduce(torch.logical_and, [each == each.round() for each in operands])


def _representable(site: Site) -> torch.Tensor | None:
    """The elements of a float32 sum or product that need no rounding: IEEE 754 (2019, §4.3) gives them exactly.

    None for other operators, and where a number among the arguments is rounded first.
    """
    y, numbers = site.results[0], site.call.node.args
    if site.call.packet not in _IEEE or declared_dtype(site) != "float32" or site.arg(2, "alpha", 1) not in (1, -1):
        return None
    if any(isinstance(each, float) and float(np.float32(each)) != each for each in numbers):
        return None
    exact = (rounded(y, "float32") == y) & ((y == 0) | (y.abs() >= FORMATS["float32"].tiny))
    return exact if site.call.packet in _PRODUCTS else exact & _exact_sum(site)


def _exact_sum(site: Site) -> torch.Tensor:
    """The elements whose sum float64 holds: what it drops of a small operand with a large one was rounded too."""
    a, b = (torch.as_tensor(each, dtype=torch.float64) for each in site.args[:2])
    alpha, packet, y = site.arg(2, "alpha", 1), site.call.packet, site.results[0]
    a, b = (-alpha * a, b) if packet == "rsub" else (a, alpha * b if packet == "add" else -alpha * b)
    return (y - a == b) & (y - b == a)


@rule("reciprocal", "rsqrt", "arange", "linspace", "range")
def two_roundings(site: Site) -> list[Bound | None]:
    """2u·|y|. Ranges: start + i·step."""
    start = site.arg(0, "start", 0.0) if site.call.packet in ("arange", "linspace", "range") else 0.0
    extra = magnitude(start) * 2
    if site.call.packet in ("linspace", "range"):
        extra = extra + 2 * magnitude(site.arg(1, "end", 0.0))
    return relative(site, 2.0, extra)


@rule("addcmul", "addcdiv", "lerp")
def products_added(site: Site) -> list[Bound | None]:
    """The product is rounded before it is added, twice at most: u·(|y| + 3·|product|)."""
    base = site.args[0]
    product = site.results[0] - base
    bounds = relative(site, 1.0, 3 * product.abs() + (2 * base.abs() if site.call.packet == "lerp" else 0.0))
    if site.call.packet == "addcdiv" and bounds[0] is not None:
        # A subnormal numerator has lost its last bits before it is divided.
        vanished = 4 / site.largest / site.args[2].abs().clamp_min(4 * site.u / site.largest)
        return [Bound(bounds[0].typical + vanished * site.u, bounds[0].hard + vanished * site.u)]
    return bounds


_TRANSCENDENTAL = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "asin", "acos", "atan", "sinh", "cosh",
                   "asinh", "acosh", "atanh", "atan2", "arctan2", "hypot", "arcsin", "arccos", "arctan",
                   "angle", "sinc", "logaddexp", "logaddexp2", "xlogy", "special_xlog1py", "logit")  # fmt: skip


@rule(*_TRANSCENDENTAL)
def transcendental(site: Site) -> list[Bound | None]:
    """2.5u·|y|; sums of two logarithms also carry the larger finite operand, and the rounding of the sum."""
    if site.call.packet in ("logaddexp", "logaddexp2"):
        finite = [torch.nan_to_num(each.abs(), nan=0.0, posinf=0.0) for each in site.args[:2]]
        return relative(site, 4.0, 1.0 + torch.maximum(*finite))
    if site.call.packet == "logit":
        # x/(1 - x) near 1, rounded to the declared dtype before the logarithm.
        return relative(site, 4.0, 1.0 + 2 * max(site.u, site.u_out) / site.u)
    return relative(site, 2.5, 1.0 if site.call.packet == "sinc" else 0.0)


@rule("sin", "cos", "tan")
def periodic(site: Site) -> list[Bound | None]:
    """2.5u·|y| + u·|x·y'|/4: the last bits of a large argument, where they are lost, move the result."""
    x, y = site.args[0], site.results[0]
    slope = {"sin": torch.cos, "cos": torch.sin, "tan": lambda t: 1 + torch.tan(t) ** 2}[site.call.packet](x)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] # torch functions are untyped
    return relative(site, 2.5, (x * slope).abs() / 4 if y.shape == x.shape else 0.0)


@rule("pow", "float_power")
def power(site: Site) -> list[Bound | None]:
    """exp(e·ln x): 2.5u·|y| + u·|e·ln x·y|, and what the rounding of a scalar base or exponent moves."""
    base, exponent = site.args[0], site.args[1]
    y = site.results[0]
    logarithm = (
        torch.log(torch.as_tensor(base, dtype=torch.float64).abs()) if not is_complex(base) else torch.log(base).abs()
    )
    swing = torch.nan_to_num((torch.as_tensor(exponent) * logarithm).abs(), nan=0.0, posinf=0.0)
    raised = coarse_scalar(site, base) * torch.nan_to_num(torch.as_tensor(exponent).abs(), nan=0.0, posinf=0.0)
    return relative(site, 2.5, ((1 + coarse_scalar(site, exponent)) * swing + raised) * y.abs())
