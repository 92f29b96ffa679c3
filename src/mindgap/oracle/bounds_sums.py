"""Sums: reductions, matrix products, convolutions, pooling, scatter-adds, Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch

from mindgap.oracle.bounds import Bound, Site, exact, perturbed, relative, rule
from mindgap.oracle.bounds_range import largest_finite
from mindgap.oracle.precision import FORMATS


def summed(site: Site, hard_sum: torch.Tensor, two_norm: torch.Tensor, terms: float) -> list[Bound | None]:
    """The module's formula for a first result y = Σx with Σ|x|, ‖x‖₂ and K given; other results are exact."""
    y = site.results[0].abs()
    reach = site.u * math.sqrt(max(terms, 1.0))
    hazard = (hard_sum > site.largest / 4) if bool((hard_sum > site.largest / 4).any()) else None
    first = Bound(reach * (y + two_norm) + site.u * y, reach * hard_sum + site.u * y, hazard)
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


@rule("mm", "matmul", "bmm", "mv", "dot", "inner", "linear", "vdot", "__matmul__")
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
    return _bilinear(magnitudes, 3, 1.0 if site.call.packet == "addr" else terms)


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
    magnitudes = (first.hard - site.u * site.results[0].abs()) / (site.u * math.sqrt(max(terms, 1.0)))
    volume = math.sqrt(max(float(weight[0, 0].numel()), 1.0))
    coarse = site.u_out * volume * magnitudes
    overflows = magnitudes > FORMATS[dtype].largest / 4 if (dtype := _declared(site)) else None
    return [Bound(first.typical + coarse, first.hard + coarse, overflows), *found[1:]]


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
        x.numel() / max(_numel(site), 1) if site.call.packet != "cumsum" else _length(site, x),
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
    # What overflows is the sum, and a window may count more terms than there are results for each.
    overflows = hard * (4 * terms) > site.largest / 4
    return [Bound(found[0].typical, found[0].hard, overflows) if found[0] and bool(overflows.any()) else found[0],
            *found[1:]]  # fmt: skip


@rule("prod", "cumprod")
def multiplied(site: Site) -> list[Bound | None]:
    """Every factor rounds once: √K·u·|y| typical, K·u·|y| hard."""
    x = site.args[0]
    terms = x.numel() / max(_numel(site), 1) if site.call.packet == "prod" else _length(site, x)
    y = site.results[0].abs()
    return [Bound(site.u * math.sqrt(max(terms, 1)) * y, site.u * max(terms, 1) * y)]


@rule("var", "std", "var_mean", "std_mean", "norm", "linalg_vector_norm", "frobenius_norm",
      "linalg_matrix_norm", "renorm",
      "pairwise_distance", "nuclear_norm")  # fmt: skip
def spreads(site: Site) -> list[Bound | None]:
    """Sums of squares of one sign: u·(√K + 8)·|y|, the mean beside them as a mean; squares may overflow."""
    x = _real(site.args[0])
    terms = max(x.numel() / max(_numel(site), 1), 1.0)
    reach = site.u * (math.sqrt(terms) + 8)
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
      "bincount", "segment_reduce", "embedding_bag", "_embedding_bag", "_embedding_bag_forward_only", "col2im",
      "fold")  # fmt: skip
def scattered(site: Site) -> list[Bound | None]:
    """Where values accumulate, magnitudes and counts do too; where they only land, nothing is computed."""
    accumulates = site.arg(3, "accumulate", True) if "put" in site.call.packet else True
    if not accumulates:
        return exact(site)
    if site.call.packet not in ("scatter_add", "index_add", "index_put", "_unsafe_index_put", "col2im"):
        return perturbed(site)
    args = [_abs(a) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in site.args]
    hard = evaluate_abs(site, args)
    terms = float(max(1, max((a.numel() for a in _flat(site.args) if isinstance(a, torch.Tensor)), default=1)))
    return summed(site, hard, hard, min(terms, 4096.0))


def evaluate_abs(site: Site, args: list[Any]) -> torch.Tensor:
    """The operator on magnitudes, `alpha` and other scalar factors included."""
    kwargs = {
        k: _abs(v) if isinstance(v, (int, float)) and not isinstance(v, bool) else v for k, v in site.kwargs.items()
    }
    return Site(site.call, args, kwargs, site.results, site.u, site.u_out, site.largest).again(*args).abs()


@rule("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
      "_upsample_bilinear2d_aa",
      "_upsample_bicubic2d_aa", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "interpolate")  # fmt: skip
def resampled(site: Site) -> list[Bound | None]:
    """A source coordinate near n carries an error of u·n, and so do the weights it is split into."""
    x = site.args[0]
    size = max(x.shape[2:]) if x.dim() > 2 else 1
    nearby = _neighbourhood(x.abs(), site.results[0].shape)
    # Sampling grids are computed in the dtype of the grid itself, bicubic weights are rounded to that of the image.
    coarse = max(site.u, site.u_out) if "grid" in site.call.packet else site.u
    kept = 2 * site.u_out if "bicubic" in site.call.packet and site.u_out > site.u else 0.0
    step = (coarse * (8 + 2 * float(size)) + kept) * nearby
    return [Bound(step, step)]


def _neighbourhood(x: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """An upper bound of |x| per channel: interpolation never reaches across channels."""
    x = torch.nan_to_num(x, nan=0.0, posinf=0.0)
    per_channel = x.flatten(2).amax(-1) if x.numel() else x.new_zeros(x.shape[:2])
    return per_channel.reshape(*per_channel.shape, *([1] * (len(shape) - 2))).expand(shape)


@rule("_fft_c2c", "_fft_r2c", "_fft_c2r", "fft_fft", "fft_ifft", "fft_rfft", "fft_irfft", "fft_fft2", "fft_ifft2",
      "fft_rfft2", "fft_irfft2", "fft_fftn", "fft_ifftn", "fft_rfftn", "fft_irfftn", "fft_hfft", "fft_ihfft",
      "stft", "istft")  # fmt: skip
def fourier(site: Site) -> list[Bound | None]:
    """Every element carries u·log₂K of the transform's root mean square (Higham, §24)."""
    y = site.results[0]
    size = float((torch.nan_to_num(y.abs(), nan=0.0, posinf=0.0) ** 2).mean().sqrt()) if y.numel() else 0.0
    bound = 4 * site.u * math.log2(max(y.numel(), 2)) * size
    return [Bound(torch.full(y.shape, bound, dtype=torch.float64), torch.full(y.shape, 4 * bound, dtype=torch.float64))]


@rule("cdist", "_cdist_forward", "_euclidean_dist")
def distances(site: Site) -> list[Bound | None]:
    """|a|² + |b|² - 2ab cancels for close points: u·(|a|² + |b|²)/d, no more than its square root."""
    a, b, y = site.args[0], site.args[1], site.results[0]
    squares = (a**2).sum(-1)[..., :, None] + (b**2).sum(-1)[..., None, :]
    reach = 4 * site.u * math.sqrt(max(a.shape[-1], 1)) * squares
    size = torch.minimum(reach.sqrt(), reach / y.clamp_min(1e-300)) + 4 * site.u * y
    size = size + math.sqrt(4 * a.shape[-1] / site.largest)
    return [Bound(size, size)]


@rule("cosine_similarity")
def cosines(site: Site) -> list[Bound | None]:
    """A quotient of sums: the products' magnitudes over the same norms."""
    terms = float(site.args[0].shape[site.arg(2, "dim", 1)]) if site.args[0].dim() else 1.0
    # Composed of smaller operators, each of which rounds to the declared dtype.
    coarse = max(site.u, site.u_out) / site.u
    return relative(site, math.sqrt(terms) + 8, (math.sqrt(terms) + 8) * coarse)


def _real(x: torch.Tensor) -> torch.Tensor:
    return x if x.is_floating_point() or x.is_complex() else x.to(torch.float64)


def _numel(site: Site) -> int:
    return site.results[0].numel()


def _length(site: Site, x: torch.Tensor) -> float:
    dim = int(site.arg(1, "dim", 0))
    return float(x.shape[dim]) if x.dim() else 1.0


def _flat(args: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for arg in args:
        if isinstance(arg, (list, tuple)):
            found.extend(_flat(cast("Sequence[Any]", arg)))
        else:
            found.append(arg)
    return found
