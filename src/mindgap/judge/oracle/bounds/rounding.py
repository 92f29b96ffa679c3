"""Bounds of rounding to decimals and of scaling by powers of two."""

from __future__ import annotations

import torch

from mindgap.judge.oracle.bounds.rules import Bound, Site, exact, relative, rule
from mindgap.judge.oracle.bounds.terms import (
    magnitude,
)


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
