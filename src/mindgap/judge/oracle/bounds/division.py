"""Bounds of quotients and remainders, whose results are whole numbers or what those leave over.

IEEE 754 and Python define them for exact operands: a remainder is the exact one rounded once, a floor quotient the
floor of the exact quotient rounded once. In float32 `x - floor(x/y)*y` loses the remainder where an ulp of x is a
sizeable part of y, and `floor(x/y)` of a rounded quotient is one off next to a whole number. Neither is rounding.
"""

from __future__ import annotations

import torch

from mindgap.judge.oracle.bounds.rules import Bound, Site, exact, relative, rule
from mindgap.judge.oracle.bounds.terms import (
    coarse_scalar,
    declared_dtype,
    magnitude,
    without_noise,
)
from mindgap.judge.oracle.evaluation.formats import FORMATS


@rule("fmod")
def truncated_remainder(site: Site) -> list[Bound | None]:
    """Representable wherever both operands are, so exact."""
    return _rounded_divisor_bounds(site) or exact(site)


@rule("remainder")
def remainder(site: Site) -> list[Bound | None]:
    """`fmod` plus the divisor where their signs differ: one rounding, u·|r|."""
    return _rounded_divisor_bounds(site) or relative(site, 1.0)


def _rounded_divisor_bounds(site: Site) -> list[Bound | None] | None:
    """Bounds a remainder whose divisor, a Python number, may first be rounded to the narrow dtype of the dividend.

    Rounding the divisor moves the remainder by the quotient times the divisor's error. Near a multiple of the divisor
    the remainder may jump by the whole divisor. Returns None if the divisor is not rounded.
    """
    coarse = coarse_scalar(site, site.args[1])
    if not coarse:
        return None
    r, y = site.results[0].abs(), torch.as_tensor(magnitude(site.args[1]), dtype=torch.float64)
    error = site.u * (r + coarse * magnitude(site.args[0]))
    near = (r <= 16 * error) | ((y - r).abs() <= 16 * error)
    error = torch.minimum(torch.where(near & torch.isfinite(r), y, error), y)
    return [Bound(error, error)]


@rule("floor_divide")
def floor_quotient(site: Site) -> list[Bound | None]:
    """The quotient of a multiple of the divisor, 2u·|q|: below 2¹⁹ in float32 that leaves one whole number."""
    if not coarse_scalar(site, site.args[1]):
        return relative(site, 2.0)
    q = site.args[0] / torch.as_tensor(site.args[1], dtype=torch.float64)
    near = (q - q.round()).abs() <= 2 * site.u_out * q.abs()
    return relative(site, 2.0, torch.where(near & torch.isfinite(q), (0.125 + site.u_out * q.abs()) / site.u, 0.0))


@rule("div", "divide", "true_divide")
def quotient(site: Site) -> list[Bound | None]:
    """2u·|y|: a reciprocal rounded, then multiplied. `rounding_mode="floor"` is floor division.

    `rounding_mode="trunc"` is documented to cut off the result of a division. That result is rounded, in the declared
    dtype on some platforms, and may have become the next whole number.
    """
    mode = site.kwargs.get("rounding_mode")
    if mode is None:
        return [without_noise(bound, _have_power_of_two_divisor(site)) for bound in relative(site, 2.0)]
    if mode != "trunc":
        return floor_quotient(site)
    x, divisor = (torch.as_tensor(a, dtype=torch.float64) for a in site.args[:2])
    ratio = x / divisor
    near = (ratio - ratio.round()).abs() <= 4 * max(site.u, site.u_out) * ratio.abs()
    size = torch.where(near & torch.isfinite(ratio), 0.125, 0.0) + 2 * site.u * site.results[0].abs()
    return [Bound(size, size)]


def _have_power_of_two_divisor(site: Site) -> torch.Tensor | None:
    """The elements of a float32 quotient whose divisor is a power of two: only the exponent changes."""
    y, divisor = site.results[0], site.args[1]
    if declared_dtype(site) != "float32" or isinstance(divisor, complex):
        return None
    whole = torch.frexp(torch.as_tensor(divisor, dtype=torch.float64)).mantissa.abs() == 0.5
    return (whole & ((y == 0) | (y.abs() >= FORMATS["float32"].tiny)) & torch.isfinite(y)).expand(y.shape)
