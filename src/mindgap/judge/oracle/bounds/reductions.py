"""Bounds of sums, means, products and norms over dimensions."""

from __future__ import annotations

import math

import torch

from mindgap.judge.oracle.bounds.overflow import largest_finite
from mindgap.judge.oracle.bounds.rules import Bound, Site, rule
from mindgap.judge.oracle.bounds.terms import (
    exact_sums,
    one_sided,
    summed,
    without_noise,
)


@rule("sum", "nansum", "cumsum", "trace", "sum_to_size")
def sums(site: Site) -> list[Bound | None]:
    """Plain sums of the first operand."""
    x = _real(site.args[0])
    hard = site.again(x.abs())
    two_norm = site.again(x.abs() ** 2).sqrt()
    terms = x.numel() / max(_numel(site), 1) if site.call.packet != "cumsum" else _counted(site, x)
    first, *others = summed(site, hard.abs(), two_norm.abs(), terms)
    exact = exact_sums(site, 1, hard.abs())
    return [without_noise(first, exact, exact), *others]


@rule("mean", "nanmean", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
      "adaptive_avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d")  # fmt: skip
def means(site: Site) -> list[Bound | None]:
    """A sum with weights 1/K: Σ|x|/K and ‖x‖₂/K."""
    x = _real(site.args[0])
    terms = max(x.numel() / max(_numel(site), 1), 1.0)
    hard = site.again(x.abs()).abs()
    two_norm = (site.again(x.abs() ** 2).abs() / terms).sqrt()
    bounds = summed(site, hard, two_norm, terms)
    if site.u_out > site.u and bounds[0] is not None and "pool3d" in site.call.packet:
        # PyTorch's own kernel keeps the sums of these windows in the narrow dtype.
        kept = site.u_out * math.sqrt(terms) * (two_norm + site.results[0].abs())
        bounds[0] = Bound(bounds[0].typical + kept, bounds[0].hard + kept, bounds[0].hazard)
    # What overflows is the sum, and a window may count more terms than there are results for each.
    overflows = hard * (4 * terms) > site.largest / 4
    return [Bound(bounds[0].typical, bounds[0].hard, overflows) if bounds[0] and bool(overflows.any()) else bounds[0],
            *bounds[1:]]  # fmt: skip


@rule("prod", "cumprod")
def multiplied(site: Site) -> list[Bound | None]:
    """Every factor rounds once: √K·u·|y|. PyTorch's own kernels round part of them to a narrow dtype."""
    x = site.args[0]
    terms = x.numel() / max(_numel(site), 1) if site.call.packet == "prod" else _counted(site, x)
    y = site.results[0].abs()
    root = torch.as_tensor(terms, dtype=torch.float64).clamp_min(1.0).sqrt()
    kept = site.u_out * (1 + root / 8) if site.u_out > site.u else 0.0
    size = (site.u * root + site.u + kept) * y
    return [Bound(size, size)]


@rule("var", "std", "var_mean", "std_mean", "norm", "linalg_vector_norm", "frobenius_norm",
      "linalg_matrix_norm", "renorm",
      "pairwise_distance", "nuclear_norm")  # fmt: skip
def spreads(site: Site) -> list[Bound | None]:
    """Sums of squares of one sign: u·(√K + 8)·|y|, of which a root takes half, and their mean as a mean.

    Squares may overflow.
    """
    x = _real(site.args[0])
    terms = max(x.numel() / max(_numel(site), 1), 1.0)
    reach = site.u * (math.sqrt(terms) + 5 + 2 * float(one_sided(terms)))
    reach = reach if site.call.packet in ("var", "var_mean") else reach / 2
    # The mean that is subtracted is itself rounded: its square is what a variance near zero keeps of that.
    worst = largest_finite(x)
    offset = site.u * worst
    around = (
        offset
        if site.call.packet in ("std", "std_mean", "pairwise_distance")
        else offset**2
        if "var" in site.call.packet
        else 0.0
    )
    # Squares of small numbers vanish below the smallest normal, 4/largest.
    around = around + math.sqrt(4 * terms / site.largest)
    hazard = worst > math.sqrt(site.largest / terms) / 2
    bounds: list[Bound | None] = []
    for slot, y in enumerate(site.results):
        if slot == 0:
            size = reach * y.abs() + around
            bounds.append(Bound(size, size, torch.ones(y.shape, dtype=torch.bool) if hazard else None))
        else:
            size = site.u * (math.sqrt(terms) * (x.abs().mean() if x.numel() else torch.zeros(())) + y.abs())
            bounds.append(Bound(size.expand(y.shape), size.expand(y.shape)))
    return bounds


def _real(x: torch.Tensor) -> torch.Tensor:
    return x if x.is_floating_point() or x.is_complex() else x.to(torch.float64)


def _numel(site: Site) -> int:
    return site.results[0].numel()


def _counted(site: Site, x: torch.Tensor) -> torch.Tensor:
    """How many terms each place of a running sum has, shaped to be spread over x."""
    if not x.dim():
        return torch.ones(())
    dim = int(site.arg(1, "dim", 0)) % x.dim()
    return torch.arange(1.0, x.shape[dim] + 1).reshape([-1 if d == dim else 1 for d in range(x.dim())])
