"""Gradients of operators that look places up: sampling grids, distances between points, bags of rows.

Where a coordinate falls between two cells, or two distances tie, the derivative jumps: there any value up to the
size of the terms is legal.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from mindgap.oracle.bounds import Bound, Site, exact, relative, rule
from mindgap.oracle.bounds_sums import STRUCTURED


@rule("linalg_diagonal", "_unsafe_masked_index", "masked_scatter_backward", "_chunk_cat")
def moved(site: Site) -> list[Bound | None]:
    """Elements chosen or moved."""
    return exact(site)


@rule("logit_backward")
def logit_backward(site: Site) -> list[Bound | None]:
    """g/(x·(1 - x)) between two edges, 0 beyond; a narrow dtype may hold the edges as others."""
    g, x, eps = site.args[0], site.args[1], site.arg(2, "eps")
    (plain,) = relative(site, 8.0)
    if eps is None or plain is None:
        return [plain]
    edges = torch.minimum((x - eps).abs(), (x - (1 - eps)).abs()) <= 2 * site.u_out
    size = torch.where(edges, torch.nan_to_num(g / (x * (1 - x)), nan=0.0, posinf=0.0, neginf=0.0).abs(), plain.hard)
    return [Bound(size, size)]


@rule("multi_margin_loss_backward", "multilabel_margin_loss_backward")
def few_factors(site: Site) -> list[Bound | None]:
    """Products and quotients of a few factors; a sum of at most as many equal terms as there are classes."""
    width = site.args[1].shape[-1] if site.args[1].dim() and "margin" in site.call.packet else 1
    return relative(site, 4.0 + math.sqrt(max(width, 1)))


# Bags and windows: linear in the gradient.


@rule("_embedding_bag_backward", "_embedding_bag_dense_backward", "fractional_max_pool3d_backward",
      "_unsafe_masked_index_put_accumulate")  # fmt: skip
def gathered_back(site: Site) -> list[Bound | None]:
    """Gradients, divided by a bag's size or weighted, added up where they came from."""
    y = site.results[0]
    # Weights of a bag's rows may be negative.
    magnitudes = [a.abs() if _is_tensor(a) and a.is_floating_point() else a for a in site.args]
    terms = float(max(site.args[0].numel(), site.args[-1].numel() if _is_tensor(site.args[-1]) else 1))
    hard = site.again(*magnitudes).abs()
    u = max(site.u, site.u_out)
    reach = u * math.sqrt(max(terms, 1.0))
    typical = 4 * u * hard + 2 * u * y.abs()
    return [Bound(typical, typical + reach * hard / STRUCTURED)]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


# Distances.


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


# Sampling grids.


@rule("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def sampled_back(site: Site) -> list[Bound | None]:
    """A source coordinate near n is off by u·n, and so are the weights of the cells around it and their derivatives.

    Derivatives of bilinear weights jump where a coordinate is whole, those of a reflected one where it turns; nearest
    cells change half-way between two.
    """
    g, x, grid, mode, padding, aligned = site.args[:6]
    sizes = torch.tensor([float(n) for n in reversed(x.shape[2:])], dtype=torch.float64)
    places = (grid + 1) / 2 * (sizes - 1) if aligned else ((grid + 1) * sizes - 1) / 2
    coarse = max(site.u, site.u_out)
    drift = coarse * 2 * (torch.nan_to_num(places, nan=0.0, posinf=0.0, neginf=0.0).abs() + sizes)
    steps = 2.0 if mode == 1 or (padding == 2 and not aligned) else 1.0
    jumps = ((places * steps - torch.round(places * steps)).abs() <= steps * drift).any(-1)
    jumps &= mode != 2
    into_input, into_grid = site.results[:2]
    found: list[Bound | None] = [None, None]
    if _is_tensor(into_input):
        found[0] = _into_input(site, drift, jumps & (mode == 1))
    if _is_tensor(into_grid) and mode != 1:
        largest = torch.nan_to_num(x.abs(), nan=0.0, posinf=0.0).flatten(2).amax(-1)
        seen = (g.abs() * largest.reshape(*largest.shape, *[1] * (g.dim() - 2))).sum(1).unsqueeze(-1) * sizes
        seen = seen * (4.0 if mode == 2 else 1.0)
        size = (8 * coarse * math.sqrt(x.shape[1]) + 4 * drift.amax(-1, keepdim=True)) * seen
        size = torch.where(jumps.unsqueeze(-1), seen / 4, size)
        found[1] = Bound(size, size)
    return found


def _into_input(site: Site, drift: torch.Tensor, jumps: torch.Tensor) -> Bound:
    """Gradients land within a cell of their place; the largest sum in a channel bounds what lands anywhere in it."""
    g, y = site.args[0], site.results[0]
    each = (*y.shape[:2], *[1] * (y.dim() - 2))
    landed = site.again(g.abs()).abs().flatten(2).amax(-1) if y.numel() else torch.zeros(y.shape[:2])
    most = torch.maximum(landed, g.abs().flatten(2).amax(-1)) if g.numel() else landed
    size = (8 * max(site.u, site.u_out) + 4 * float(drift.max() if drift.numel() else 0.0)) * most
    if bool(jumps.any()):
        moved_on = (g.abs() * jumps.unsqueeze(1)).flatten(2).sum(-1)
        size = size + moved_on / 8
    return Bound(size.reshape(each).expand(y.shape), size.reshape(each).expand(y.shape))
