"""Bounds of decompositions and functions of matrices: backward stable, so relative to the largest element."""

from __future__ import annotations

import math

import torch

from mindgap.judge.oracle.bounds.rules import Bound, OperatorBounds, Site, perturbed, rule


def _largest_bound(site: Site, y: torch.Tensor, order: float, dims: int) -> Bound:
    """u·(√n/2 + 2) times the largest magnitude of a result's last dimensions."""
    sizes = torch.nan_to_num(y.abs(), nan=0.0, posinf=0.0)
    largest = sizes.amax(tuple(range(-dims, 0)), keepdim=True) if y.numel() else sizes
    size = (site.u * (math.sqrt(order) / 2 + 2) * largest).expand(y.shape)
    return Bound(size, size)


@rule("linalg_svdvals", "linalg_eigvalsh")
def spectrum(site: Site) -> list[Bound | None]:
    """|σ̂ - σ| ≤ p(n)·u·σ₁ for every singular value, the small ones too (Golub and Van Loan, §8.6)."""
    order = float(max(site.args[0].shape[-2:]))
    return [_largest_bound(site, site.results[0], order, 1)]


@rule("_linalg_svd", "linalg_svd", "_linalg_eigh", "linalg_eigh")
def spectrum_with_vectors(site: Site) -> OperatorBounds:
    """As above for the values; vectors have no sign, and are not judged."""
    order = float(max(site.args[0].shape[-2:]))
    values = 1 if "svd" in site.call.packet else 0
    bounds = perturbed(site, "no bound is derived for its vectors")
    bounds.slots[values] = _largest_bound(site, site.results[values], order, 1)
    return bounds


@rule("linalg_matrix_exp")
def exponential(site: Site) -> list[Bound | None]:
    """Scaling and squaring: relative to the largest element, n products of matrices deep."""
    y = site.results[0]
    doublings = math.log2(1 + float(site.args[0].abs().sum(-1).max())) if y.numel() else 0.0
    return [_largest_bound(site, y, float(y.shape[-1]) * (1 + doublings), 2)]
