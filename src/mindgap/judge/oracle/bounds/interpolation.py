"""Bounds of resampling and of its gradients.

Where a coordinate falls between two cells the derivative jumps: there any value up to the size of the terms is legal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from mindgap.judge.oracle.bounds.rules import Bound, Site, rule
from mindgap.judge.oracle.bounds.terms import (
    sum_of_terms,
)


@rule("avg_pool2d_backward", "avg_pool3d_backward", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def averaged_back(site: Site) -> list[Bound | None]:
    """Each gradient divided by its window's size, then added where windows overlap."""
    g, y = site.args[0], site.results[0]
    overlap = 1.0
    if site.call.packet.startswith("avg"):
        kernel, stride = site.args[2], site.arg(3, "stride", []) or site.args[2]
        rank = len(y.shape) - (2 if site.call.packet == "avg_pool2d_backward" else 3)
        sides = zip(_spread(kernel, rank), _spread(stride, rank), strict=False)
        overlap = float(math.prod(math.ceil(k / max(s, 1)) for k, s in sides))
    elif g.numel():
        overlap = 2.0 ** (2 if "2d" in site.call.packet else 3)
    hard = site.again(g.abs()).abs()
    # Where windows overlap, each addition may round to a narrow dtype.
    bounds = sum_of_terms(site, y, hard, hard, overlap, site.u if overlap <= 1 else max(site.u, site.u_out))
    return [Bound(bounds.typical + 2 * site.u * hard, bounds.hard + 2 * site.u * hard, bounds.hazard)]


def _spread(sizes: Sequence[int], rank: int) -> list[int]:
    return list(sizes) * max(rank, 1) if len(sizes) == 1 else list(sizes)


@rule("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
      "_upsample_bilinear2d_aa",
      "_upsample_bicubic2d_aa", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d")  # fmt: skip
def resampled(site: Site) -> list[Bound | None]:
    """A source coordinate near n carries an error of u·n, and so do the weights it is split into."""
    x = site.args[0]
    size = max(x.shape[2:]) if x.dim() > 2 else 1
    nearby = _neighbourhood(x.abs(), site.results[0].shape)
    # Sampling grids are computed in the dtype of the grid itself, weights may be rounded to that of the image.
    coarse = max(site.u, site.u_out) if "grid" in site.call.packet else site.u
    kept = 2 * site.u_out if "upsample" in site.call.packet and site.u_out > site.u else 0.0
    step = (coarse * (4 + float(size)) + kept) * nearby
    return [Bound(step, step)]


def _neighbourhood(x: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """An upper bound of |x| per channel: interpolation never reaches across channels."""
    x = torch.nan_to_num(x, nan=0.0, posinf=0.0)
    per_channel = x.flatten(2).amax(-1) if x.numel() else x.new_zeros(x.shape[:2])
    return per_channel.reshape(*per_channel.shape, *([1] * (len(shape) - 2))).expand(shape)


@rule("upsample_linear1d_backward", "upsample_bilinear2d_backward", "upsample_trilinear3d_backward",
      "upsample_bicubic2d_backward", "_upsample_bilinear2d_aa_backward",
      "_upsample_bicubic2d_aa_backward")  # fmt: skip
def resampled_back(site: Site) -> list[Bound | None]:
    """Weights carry the rounding of source coordinates, u·n, and so does all that lands in a channel."""
    g, y = site.args[0], site.results[0]
    landed = site.again(g.abs()).abs()
    nearby = landed.flatten(2).amax(-1) if y.numel() else landed.new_zeros(y.shape[:2])
    nearby = nearby.reshape(*nearby.shape, *([1] * (y.dim() - 2))).expand(y.shape)
    step = site.u * (8 + 2 * float(max([*y.shape[2:], *g.shape[2:]]))) * nearby
    return [Bound(step, step)]


@rule("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def sampled_back(site: Site) -> list[Bound | None]:
    """A source coordinate near n is off by u·n, and so are the weights of the cells around it and their derivatives.

    Derivatives of bilinear weights jump where a coordinate is whole, those of a reflected one where it turns; nearest
    cells change half-way between two.
    """
    g, x, grid, mode, padding, aligned = site.args[:6]
    sizes = torch.tensor([float(n) for n in reversed(x.shape[2:])], dtype=torch.float64)
    positions = (grid + 1) / 2 * (sizes - 1) if aligned else ((grid + 1) * sizes - 1) / 2
    coarse = max(site.u, site.u_out)
    drift = coarse * 2 * (torch.nan_to_num(positions, nan=0.0, posinf=0.0, neginf=0.0).abs() + sizes)
    steps = 2.0 if mode == 1 or (padding == 2 and not aligned) else 1.0
    jumps = ((positions * steps - torch.round(positions * steps)).abs() <= steps * drift).any(-1)
    jumps &= mode != 2
    into_input, into_grid = site.results[:2]
    bounds: list[Bound | None] = [None, None]
    if isinstance(into_input, torch.Tensor):
        bounds[0] = _into_input(site, drift, jumps & (mode == 1))
    if isinstance(into_grid, torch.Tensor) and mode != 1:
        largest = torch.nan_to_num(x.abs(), nan=0.0, posinf=0.0).flatten(2).amax(-1)
        seen = (g.abs() * largest.reshape(*largest.shape, *[1] * (g.dim() - 2))).sum(1).unsqueeze(-1) * sizes
        seen = seen * (4.0 if mode == 2 else 1.0)
        size = (8 * coarse * math.sqrt(x.shape[1]) + 4 * drift.amax(-1, keepdim=True)) * seen
        size = torch.where(jumps.unsqueeze(-1), seen / 4, size)
        bounds[1] = Bound(size, size)
    return bounds


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
