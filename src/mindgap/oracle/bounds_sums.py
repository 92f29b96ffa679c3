"""Sums: reductions, matrix products, convolutions, pooling, scatter-adds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch

from mindgap.oracle.bounds import Bound, Site, exact, perturbed, relative, rule
from mindgap.oracle.bounds_range import largest_finite
from mindgap.oracle.precision import FORMATS

#: The part of Σ|x| that a hard bound counts: partial sums are that large only where the terms are sorted by sign.
STRUCTURED: Final = 16.0


#: Up to how many equal terms may be added one after the other in the accumulator's format.
_SEQUENTIAL: Final = 32768.0


def one_sided(terms: float | torch.Tensor) -> torch.Tensor:
    """K/64: of K equal terms summed one after the other all roundings may point one way, u·K/2·|y| in 16 bounds of 2u.

    Under a root, half of that.
    """
    return torch.as_tensor(terms, dtype=torch.float64).clamp_max(_SEQUENTIAL) / 64


def summed(
    site: Site, hard_sum: torch.Tensor, two_norm: torch.Tensor, terms: float | torch.Tensor
) -> list[Bound | None]:
    """The formula of `bounds` for a first result y = Σx with Σ|x|, ‖x‖₂ and K given; other results are exact."""
    y = site.results[0].abs()
    reach = site.u * torch.as_tensor(terms, dtype=torch.float64).clamp_min(1.0).sqrt()
    hazard = (hard_sum > site.largest / 4) if bool((hard_sum > site.largest / 4).any()) else None
    typical = reach * (y + two_norm) + site.u * y
    # Partial sums that grow one way, of equal terms at worst: more than signs at random would leave of them.
    grown = 2 * site.u * one_sided(terms) * (y - 4 * two_norm).clamp_min(0.0)
    first = Bound(typical, typical + reach * hard_sum / STRUCTURED + grown, hazard)
    return [first, *([None] * (len(site.results) - 1))]


def _abs(operand: Any) -> Any:
    if isinstance(operand, torch.Tensor):
        return operand.abs() if operand.dtype != torch.bool else operand
    return abs(operand) if isinstance(operand, (int, float, complex)) else operand


def _square(operand: Any) -> Any:
    return operand.abs() ** 2 if isinstance(operand, torch.Tensor) else operand


def _bilinear(site: Site, operands: int, terms: float) -> list[Bound | None]:
    """The first `operands` arguments enter products (or are added, unsquared terms too): run on magnitudes."""
    hard = site.again(*(_abs(a) for a in site.args[:operands])).abs()
    two_norm = site.again(*(_square(a) for a in site.args[:operands])).abs().sqrt()
    return summed(site, hard, two_norm, terms)


@rule("mm", "matmul", "bmm", "mv", "dot", "inner", "linear", "vdot")
def products(site: Site) -> list[Bound | None]:
    """Contraction over the last dimension of the left operand; a bias is one more term."""
    operands = 3 if site.call.packet == "linear" and len(site.args) > 2 else 2
    return _bilinear(site, operands, float(site.args[0].shape[-1] if site.args[0].dim() else 1))


@rule("einsum")
def einsum(site: Site) -> list[Bound | None]:
    """K is what the same contraction makes of ones."""
    equation, factors = site.args[0], site.args[1]
    hard = site.again(equation, [_abs(f) for f in factors]).abs()
    two_norm = site.again(equation, [_square(f) for f in factors]).abs().sqrt()
    counts = site.again(equation, [torch.ones_like(f) for f in factors]).abs()
    return summed(site, hard, two_norm, float(counts.max()) if counts.numel() else 1.0)


@rule("addmm", "baddbmm", "addmv", "addbmm", "addr", "_addmm_activation")
def products_added(site: Site) -> list[Bound | None]:
    """β·C + α·A·B on magnitudes."""
    left = site.args[1]
    kwargs = {k: _abs(v) for k, v in site.kwargs.items()}
    magnitudes = Site(site.call, site.args, kwargs, site.results, site.u, site.u_out, site.largest)
    terms = float(left.shape[-1]) * (left.shape[0] if site.call.packet == "addbmm" else 1) if left.dim() else 1.0
    found = _bilinear(magnitudes, 3, 1.0 if site.call.packet == "addr" else terms)
    if site.call.packet == "addbmm" and site.u_out > site.u and found[0] is not None:
        # One matrix after the other is added in the narrow dtype.
        size = (found[0].typical / (site.u * math.sqrt(max(terms, 1.0)))) * math.sqrt(left.shape[0])
        found[0] = Bound(found[0].typical + site.u_out * size, found[0].hard + site.u_out * size, found[0].hazard)
    return found


@rule("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
      "_convolution", "conv_tbc")  # fmt: skip
def convolutions(site: Site) -> list[Bound | None]:
    """K: input channels of a group times the kernel's volume (for transposed ones no more than that)."""
    weight = site.args[1]
    transposed = "transpose" in site.call.packet or (len(site.args) > 6 and site.args[6] is True)
    terms = float(weight.numel() // max(weight.shape[1], 1)) if transposed else float(weight[0].numel())
    found = _bilinear(site, 3 if len(site.args) > 2 else 2, terms)
    first = found[0]
    if not transposed or site.u_out <= site.u or first is None:
        return found
    # Columns are scattered back in the declared dtype: every overlapping one rounds there, and may overflow.
    magnitudes = (first.hard - first.typical) * STRUCTURED / (site.u * math.sqrt(max(terms, 1.0)))
    size = (first.typical - site.u * site.results[0].abs()) / (site.u * math.sqrt(max(terms, 1.0)))
    volume = site.u_out * math.sqrt(max(float(weight[0, 0].numel()), 1.0))
    overflows = magnitudes > FORMATS[dtype].largest / 4 if (dtype := _declared(site)) else None
    hard = first.hard + volume * (size + magnitudes / STRUCTURED)
    return [Bound(first.typical + volume * size, hard, overflows), *found[1:]]


def _declared(site: Site) -> str:
    return next((s.dtype for s in site.call.node.outputs if s is not None), "")


@rule("sum", "nansum", "cumsum", "trace", "sum_to_size")
def sums(site: Site) -> list[Bound | None]:
    """Plain sums of the first operand."""
    x = _real(site.args[0])
    hard = site.again(x.abs())
    two_norm = site.again(x.abs() ** 2).sqrt()
    return summed(
        site,
        hard.abs(),
        two_norm.abs(),
        x.numel() / max(_numel(site), 1) if site.call.packet != "cumsum" else _counted(site, x),
    )


@rule("mean", "nanmean", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
      "adaptive_avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d")  # fmt: skip
def means(site: Site) -> list[Bound | None]:
    """A sum with weights 1/K: Σ|x|/K and ‖x‖₂/K."""
    x = _real(site.args[0])
    terms = max(x.numel() / max(_numel(site), 1), 1.0)
    hard = site.again(x.abs()).abs()
    two_norm = (site.again(x.abs() ** 2).abs() / terms).sqrt()
    found = summed(site, hard, two_norm, terms)
    if site.u_out > site.u and found[0] is not None and "pool3d" in site.call.packet:
        # PyTorch's own kernel keeps the sums of these windows in the narrow dtype.
        kept = site.u_out * math.sqrt(terms) * (two_norm + site.results[0].abs())
        found[0] = Bound(found[0].typical + kept, found[0].hard + kept, found[0].hazard)
    # What overflows is the sum, and a window may count more terms than there are results for each.
    overflows = hard * (4 * terms) > site.largest / 4
    return [Bound(found[0].typical, found[0].hard, overflows) if found[0] and bool(overflows.any()) else found[0],
            *found[1:]]  # fmt: skip


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
    """Sums of squares of one sign: u·(√K + 8)·|y|, of which a root takes half, the mean beside them as a mean.

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
    found: list[Bound | None] = []
    for slot, y in enumerate(site.results):
        if slot == 0:
            size = reach * y.abs() + around
            found.append(Bound(size, size, torch.ones(y.shape, dtype=torch.bool) if hazard else None))
        else:
            size = site.u * (math.sqrt(terms) * (x.abs().mean() if x.numel() else torch.zeros(())) + y.abs())
            found.append(Bound(size.expand(y.shape), size.expand(y.shape)))
    return found


@rule("scatter_add", "index_add", "index_put", "scatter_reduce", "index_reduce", "_unsafe_index_put", "put", "histc",
      "bincount", "segment_reduce", "embedding_bag", "_embedding_bag", "_embedding_bag_forward_only",
      "col2im")  # fmt: skip
def scattered(site: Site) -> list[Bound | None]:
    """Where values accumulate, magnitudes and counts do too; where they only land, nothing is computed."""
    accumulates = site.arg(3, "accumulate", True) if "put" in site.call.packet else True
    if not accumulates:
        return exact(site)
    if site.call.packet not in ("scatter_add", "index_add", "index_put", "_unsafe_index_put", "col2im"):
        return perturbed(site)
    hard, square, counts = (_accumulated(site, of) for of in (_abs, _square, torch.ones_like))
    found = summed(site, hard, square.sqrt(), counts)
    narrow = site.u_out > site.u and site.call.packet != "scatter_add"
    if narrow and found[0] is not None and bool((counts > 2).any()):
        # Where several values meet, PyTorch's own kernels round each addition to the narrow dtype.
        reach = site.u_out * counts.clamp_min(1.0).sqrt() * (counts > 2)
        coarse = reach * (site.results[0].abs() + square.sqrt())
        found[0] = Bound(found[0].typical + coarse, found[0].hard + coarse, found[0].hazard)
    return found


def _accumulated(site: Site, of: Callable[[Any], Any]) -> torch.Tensor:
    """The operator on a function of its float operands, and of scalar factors (`alpha`) unless terms are counted."""
    counted = of is torch.ones_like
    args = [of(a) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in site.args]
    kwargs = {
        k: 1 if counted else v * v if of is _square else _abs(v)
        for k, v in site.kwargs.items()
        if isinstance(v, (int, float)) and not isinstance(v, bool)
    }
    kwargs = {**site.kwargs, **kwargs}
    return Site(site.call, args, kwargs, site.results, site.u, site.u_out, site.largest).again(*args).abs()


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
