"""Bounds of distances and of their gradients.

Where two distances tie the derivative jumps: there any value up to the size of the terms is legal.
"""

from __future__ import annotations

import math

import torch

from mindgap.judge.oracle.bounds.rules import Bound, Site, relative, rule
from mindgap.judge.oracle.bounds.terms import (
    STRUCTURED,
    one_sided,
)


@rule("cdist", "_cdist_forward", "_euclidean_dist")
def distances(site: Site) -> list[Bound | None]:
    """|a|² + |b|² - 2ab cancels for close points: u·√K·(|a|² + |b|²)/d, no more than its square root."""
    a, b, y = site.args[0], site.args[1], site.results[0]
    squares = (a**2).sum(-1)[..., :, None] + (b**2).sum(-1)[..., None, :]
    reach = 2 * site.u * math.sqrt(max(a.shape[-1], 1)) * squares
    size = torch.minimum(reach.sqrt(), reach / (2 * y).clamp_min(1e-300)) + 2 * site.u * y
    size = size + math.sqrt(4 * a.shape[-1] / site.largest)
    return [Bound(size, size)]


@rule("cosine_similarity")
def cosines(site: Site) -> list[Bound | None]:
    """A sum of products of two normalised vectors. In narrow dtypes vectors and products may be rounded to them."""
    dim: int = site.arg(2, "dim", 1)
    shape = torch.broadcast_shapes(site.args[0].shape, site.args[1].shape)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] # untyped
    a, b = site.args[0].expand(shape), site.args[1].expand(shape)
    if not a.dim():
        return relative(site, 8.0, 8.0 * max(site.u, site.u_out) / site.u)
    eps = float(site.arg(3, "eps", 1e-8))
    parts = a / a.norm(dim=dim, keepdim=True).clamp_min(eps) * (b / b.norm(dim=dim, keepdim=True).clamp_min(eps))
    parts = torch.nan_to_num(parts.abs(), nan=0.0)
    norm, y = (parts**2).sum(dim).sqrt(), site.results[0].abs()
    terms = float(a.shape[dim])
    reach = site.u * (math.sqrt(terms) / 2 + 4) + (4 * site.u_out if site.u_out > site.u else 0.0)
    typical = reach * (y + norm)
    return [Bound(typical, typical + reach * parts.sum(dim) / STRUCTURED + 2 * site.u * float(one_sided(terms)) * y)]


@rule("_cdist_backward")
def distance_gradients(site: Site) -> list[Bound | None]:
    """Σ over the other points of g·sign(d)·(|d|/D)^(p-1), d a difference of coordinates and D the distance."""
    g, a, b, p, distance = site.args[:5]
    apart = (a.unsqueeze(-2) - b.unsqueeze(-3)).abs()
    terms = _parts(apart, g.unsqueeze(-1).abs(), distance.unsqueeze(-1), float(p))
    hard, norm = terms.sum(-2), (terms**2).sum(-2).sqrt()
    return [_added(site, hard, norm, float(p), float(b.shape[-2]))]


@rule("_pdist_backward")
def pair_gradients(site: Site) -> list[Bound | None]:
    """The same over all pairs of one set; each pair adds to both of its points."""
    g, a, p, distance = site.args[:4]
    first, second = torch.triu_indices(a.shape[0], a.shape[0], 1)
    terms = _parts((a[first] - a[second]).abs(), g.unsqueeze(-1).abs(), distance.unsqueeze(-1), float(p))

    def gathered(t: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(a).index_add(0, first, t).index_add(0, second, t)

    return [_added(site, gathered(terms), gathered(terms**2).sqrt(), float(p), float(a.shape[0]))]


def _parts(apart: torch.Tensor, g: torch.Tensor, distance: torch.Tensor, p: float) -> torch.Tensor:
    """Magnitudes of the terms. The largest norm passes the gradient to whichever coordinate is the distance."""
    if math.isinf(p):
        return g.expand(apart.shape)
    safe = torch.where(distance > 0, distance, 1.0)
    share = torch.where((apart > 0) & (distance > 0), (apart / safe).clamp_min(1e-300) ** (p - 1), 0.0)
    return torch.nan_to_num(g * share, nan=0.0, posinf=0.0)


def _added(site: Site, hard: torch.Tensor, norm: torch.Tensor, p: float, terms: float) -> Bound:
    y = site.results[0]
    # One set of points against several batches of the other, or against none.
    hard, norm = hard.sum_to_size(y.shape), (norm**2).sum_to_size(y.shape).sqrt()
    if math.isinf(p):
        return Bound(hard, hard)
    # Powers p-1 of the difference and of the distance, each with the rounding of a logarithm.
    own = (8 + 64 * abs(p - 2)) * site.u
    reach = site.u * math.sqrt(max(terms, 1.0))
    return Bound((reach + own) * norm + 2 * site.u * y.abs(), (reach + own) * hard + 2 * site.u * y.abs())
