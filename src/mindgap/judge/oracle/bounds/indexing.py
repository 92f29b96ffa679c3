"""Bounds of writes at indices, and of gradients added up where elements were read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from mindgap.judge.oracle.bounds.rules import Bound, OperatorBounds, Site, exact, perturbed, rule
from mindgap.judge.oracle.bounds.terms import (
    STRUCTURED,
    absolute,
    squared,
    sum_of_terms,
    summed,
)

# Those that move data or cast are exact by their traits; these choose, fill, or round to steps as well.
rule(
    "as_strided", "view_as_real", "view_as_complex", "real", "imag", "conj", "_conj", "as_strided_copy", "to_dense",
    "combinations", "cartesian_prod", "masked_fill", "masked_scatter", "index_copy", "index_fill",
    "as_strided_scatter", "fill", "zero", "constant_pad_nd", "pad", "_pad_circular", "max_unpool2d", "max_unpool3d",
    "unique_consecutive", "nonzero", "one_hot", "complex", "_conj_physical", "_unique2", "resize", "resize_as",
    "relu6", "clamp", "clip", "clamp_min", "clamp_max", "hardtanh", "sign", "floor", "ceil", "trunc", "fix",
    "argsort", "mode", "median", "nanmedian", "threshold", "nan_to_num", "copysign", "heaviside", "hardshrink",
    "signbit", "frac", "nextafter", "frexp", "zeros", "ones", "full", "empty", "zeros_like", "ones_like",
    "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty", "empty_strided",
    "new_empty_strided", "eye", "scalar_tensor", "empty_permuted", "dropout", "feature_dropout", "alpha_dropout",
    "native_dropout", "isnan", "isinf", "isfinite", "conj_physical", "_efficientzerotensor",
)(exact)  # fmt: skip


@rule("linalg_diagonal", "_unsafe_masked_index", "masked_scatter_backward", "_chunk_cat")
def moved(site: Site) -> list[Bound | None]:
    """Elements chosen or moved."""
    return exact(site)


@rule("scatter_add", "index_add", "index_put", "scatter_reduce", "index_reduce", "_unsafe_index_put", "put", "histc",
      "bincount", "segment_reduce", "embedding_bag", "_embedding_bag", "_embedding_bag_forward_only",
      "col2im")  # fmt: skip
def scattered(site: Site) -> list[Bound | None] | OperatorBounds:
    """Bounds writes at indices: sums of the values that meet at an element, exact where they replace each other.

    The magnitudes, squares and counts of the terms are summed by the same operator.
    """
    accumulates = site.arg(3, "accumulate", True) if "put" in site.call.packet else True
    if not accumulates:
        return exact(site)
    if site.call.packet not in ("scatter_add", "index_add", "index_put", "_unsafe_index_put", "col2im"):
        return perturbed(site, "no bound is derived for how it reduces")
    hard, square, counts = (_accumulated(site, of) for of in (absolute, squared, torch.ones_like))
    bounds = summed(site, hard, square.sqrt(), counts)
    narrow = site.u_out > site.u and site.call.packet != "scatter_add"
    if narrow and bounds[0] is not None and bool((counts > 2).any()):
        # Where several values meet, PyTorch's own kernels round each addition to the narrow dtype.
        reach = site.u_out * counts.clamp_min(1.0).sqrt() * (counts > 2)
        coarse = reach * (site.results[0].abs() + square.sqrt())
        bounds[0] = Bound(bounds[0].typical + coarse, bounds[0].hard + coarse, bounds[0].hazard)
    return bounds


def _accumulated(site: Site, of: Callable[[Any], Any]) -> torch.Tensor:
    """The operator on a function of its float operands, and of scalar factors (`alpha`) unless terms are counted."""
    counted = of is torch.ones_like
    args = [of(a) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in site.args]
    kwargs = {
        k: 1 if counted else v * v if of is squared else absolute(v)
        for k, v in site.kwargs.items()
        if isinstance(v, (int, float)) and not isinstance(v, bool)
    }
    kwargs = {**site.kwargs, **kwargs}
    return Site(site.call, args, kwargs, site.results, site.u, site.u_out, site.largest).again(*args).abs()


@rule("scatter")
def placed(site: Site) -> list[Bound | None] | OperatorBounds:
    """Elements put in place; with `reduce`, added or multiplied there."""
    reduces = site.kwargs.get("reduce") is not None or len(site.args) > 4
    return perturbed(site, "no bound is derived for how it reduces") if reduces else exact(site)


@rule("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward", "adaptive_max_pool2d_backward",
      "adaptive_max_pool3d_backward", "fractional_max_pool2d_backward", "embedding_dense_backward", "unfold_backward",
      "upsample_nearest1d_backward", "upsample_nearest2d_backward", "upsample_nearest3d_backward",
      "_upsample_nearest_exact1d_backward", "_upsample_nearest_exact2d_backward", "_upsample_nearest_exact3d_backward",
      "reflection_pad1d_backward", "reflection_pad2d_backward", "reflection_pad3d_backward",
      "replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward")  # fmt: skip
def scattered_back(site: Site) -> list[Bound | None]:
    """Gradients added up where they came from, K the most that meet; each addition may round to a narrow dtype."""
    g, y = site.args[0], site.results[0]
    counts = site.again(torch.ones_like(g))
    terms = float(counts.max()) if counts.numel() else 1.0
    u = max(site.u, site.u_out) if terms > 1 else site.u
    return [sum_of_terms(site, y, site.again(g.abs()).abs(), site.again(g.abs() ** 2).abs().sqrt(), terms, u)]


@rule("_embedding_bag_backward", "_embedding_bag_dense_backward", "fractional_max_pool3d_backward",
      "_unsafe_masked_index_put_accumulate")  # fmt: skip
def gathered_back(site: Site) -> list[Bound | None]:
    """Gradients, divided by a bag's size or weighted, added up where they came from."""
    y = site.results[0]
    # Weights of a bag's rows may be negative.
    magnitudes = [a.abs() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in site.args]
    terms = float(max(site.args[0].numel(), site.args[-1].numel() if isinstance(site.args[-1], torch.Tensor) else 1))
    hard = site.again(*magnitudes).abs()
    u = max(site.u, site.u_out)
    reach = u * math.sqrt(max(terms, 1.0))
    typical = 4 * u * hard + 2 * u * y.abs()
    return [Bound(typical, typical + reach * hard / STRUCTURED)]
