"""Backward operators: what autograd hands to a backend, bounded as the formulas that they are.

Most are a product of the incoming gradient with a derivative, or a sum that is linear in it; normalisations are both.
The bound follows the magnitudes of the terms that an implementation adds, in whichever order it adds them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from mindgap.oracle.bounds import Bound, Site, exact, relative, rule
from mindgap.oracle.bounds_sums import STRUCTURED, one_sided
from mindgap.oracle.float64 import evaluate

_SQRT_2PI: Final = math.sqrt(2 * math.pi)


def _sum(site: Site, y: torch.Tensor, hard: torch.Tensor, norm: torch.Tensor, terms: float, u: float) -> Bound:
    """A sum of `terms` terms with Σ|x| = `hard` and ‖x‖₂ = `norm`; see `bounds`."""
    reach = u * math.sqrt(max(terms, 1.0))
    over = hard > site.largest / 4
    hazard = over if bool(over.any()) else None
    typical = reach * (y.abs() + norm) + u * y.abs()
    grown = 2 * u * one_sided(terms) * (y.abs() - 4 * norm).clamp_min(0.0)
    return Bound(typical, typical + reach * hard / STRUCTURED + grown, hazard)


# Elementwise: gradient times derivative.


@rule("threshold_backward", "hardtanh_backward", "hardshrink_backward", "softshrink_backward")
def passed_or_stopped(site: Site) -> list[Bound | None]:
    """The gradient or zero."""
    return exact(site)


@rule("native_dropout_backward", "leaky_relu_backward", "hardsigmoid_backward", "_prelu_kernel_backward",
      "rrelu_with_noise_backward", "nll_loss_backward", "nll_loss2d_backward", "mse_loss_backward",
      "smooth_l1_loss_backward", "huber_loss_backward", "sigmoid_backward",
      "binary_cross_entropy_backward")  # fmt: skip
def few_factors(site: Site) -> list[Bound | None]:
    """Products and quotients of a few exact factors, each at most a difference of two operands: 4u·|y|."""
    return relative(site, 4.0)


@rule("tanh_backward")
def tanh_backward(site: Site) -> list[Bound | None]:
    """g·(1 - y²): the square is rounded before it is subtracted from a 1 that it may cancel."""
    g, y = site.args[0], site.args[1]
    return relative(site, 4.0, 2 * g.abs() * y.abs() ** 2)


@rule("hardswish_backward")
def hardswish_backward(site: Site) -> list[Bound | None]:
    """g·(x/3 + ½): cancels at x = -3/2."""
    g, x = site.args[0], site.args[1]
    return relative(site, 4.0, torch.where(x.abs() <= 3, 3 * g.abs() * (x.abs() / 3 + 0.5), 0.0))


@rule("silu_backward")
def silu_backward(site: Site) -> list[Bound | None]:
    """g·s·(1 + x·(1 - s)): the terms of the bracket have opposite signs for negative x."""
    g, x = site.args[0], site.args[1]
    s = torch.sigmoid(x)
    return relative(site, 8.0, 16 * _finite(g.abs() * s * (1 + x.abs() * (1 - s))))


@rule("mish_backward")
def mish_backward(site: Site) -> list[Bound | None]:
    """g·(t + x·s·(1 - t²)) with t = tanh(softplus x): 1 - t² is off by a rounding of 1."""
    g, x = site.args[0], site.args[1]
    return relative(site, 8.0, 8 * _finite(g.abs() * torch.sigmoid(x) * (1 + x.abs())))


@rule("gelu_backward")
def gelu_backward(site: Site) -> list[Bound | None]:
    """g·(Φ(x) + x·φ(x)): Φ of a negative number is a difference from 1; φ carries the rounding of x².

    The approximation by tanh multiplies 1 - tanh² by x·(1 + 0.134·x²), and is off by a rounding of that.
    """
    g, x = site.args[0].abs(), site.args[1].abs()
    if site.arg(2, "approximate", "none") == "tanh":
        return relative(site, 8.0, 4 * _finite(g * (1 + x * (1 + 0.134 * x**2))))
    density = torch.exp(-(x**2) / 2) / _SQRT_2PI
    return relative(site, 8.0, 8 * _finite(g * (1 + x * density * (1 + x**2))))


@rule("elu_backward")
def elu_backward(site: Site) -> list[Bound | None]:
    """g·α·exp(x), the argument of the exponential rounded."""
    return relative(site, 6.0, _finite(site.args[5].abs() * site.results[0].abs()))


@rule("softplus_backward", "log_sigmoid_backward")
def logistic_backward(site: Site) -> list[Bound | None]:
    """g·σ(x), or g·(1 - σ(x)) by way of an exponential that is subtracted from 1."""
    g, x = site.args[0], site.args[1]
    return relative(site, 6.0, _finite(3 * g.abs() if "log" in site.call.packet else x.abs() * site.results[0].abs()))


@rule("glu_backward")
def glu_backward(site: Site) -> list[Bound | None]:
    """(g·σ(b), g·a·σ(b)·(1 - σ(b))): 1 - σ is off by a rounding of 1."""
    g, x, dim = site.args[0], site.args[1], site.arg(2, "dim", -1)
    a, b = x.chunk(2, dim)
    lost = (g * a * torch.sigmoid(b)).abs()
    return relative(site, 8.0, 8 * _finite(torch.cat([torch.zeros_like(lost), lost], dim)))


def _finite(t: torch.Tensor) -> torch.Tensor:
    return torch.nan_to_num(t, nan=0.0, posinf=0.0, neginf=0.0)


# Linear in the gradient.


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
    return [_sum(site, y, site.again(g.abs()).abs(), site.again(g.abs() ** 2).abs().sqrt(), terms, u)]


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
    found = _sum(site, y, hard, hard, overlap, site.u if overlap <= 1 else max(site.u, site.u_out))
    return [Bound(found.typical + 2 * site.u * hard, found.hard + 2 * site.u * hard, found.hazard)]


def _spread(sizes: Sequence[int], rank: int) -> list[int]:
    return list(sizes) * max(rank, 1) if len(sizes) == 1 else list(sizes)


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


@rule("convolution_backward")
def convolution_backward(site: Site) -> list[Bound | None]:
    """Three contractions: gradient with weight, gradient with input, and the gradient's own sum.

    Without oneDNN, PyTorch adds up the parts of a kernel's places, and of the samples of a batch, in the narrow dtype.
    """
    g, weight = site.args[0], site.args[2]
    transposed, groups = bool(site.args[7]), max(int(site.args[9]), 1)
    hard = _three(site, lambda t: t.abs())
    norm = _three(site, lambda t: t.abs() ** 2)
    channels = weight.shape[1] if transposed else weight.shape[0] // groups
    into_input = float(channels * math.prod(weight.shape[2:]))
    channel = 1 if g.dim() == weight.dim() else 0
    seen = float(g.numel() / max(g.shape[channel], 1))
    if transposed:
        seen = max(seen, float(site.args[1].numel() / max(site.args[1].shape[channel], 1)))
    found: list[Bound | None] = []
    for y, total, square, terms in zip(site.results, hard, norm, (into_input, seen, seen), strict=True):
        usable = isinstance(y, torch.Tensor) and y.is_floating_point() | y.is_complex()
        found.append(_sum(site, y, total.abs(), square.abs().sqrt(), terms, site.u) if usable else None)
    if site.u_out <= site.u:
        return found
    batch = float(g.shape[0]) if g.dim() == weight.dim() else 1.0
    steps = (float(math.prod(weight.shape[2:])), batch, batch)
    for slot, (bound, parts) in enumerate(zip(found, steps, strict=True)):
        if bound is not None:
            reach = site.u_out * math.sqrt(parts)
            typical = reach * norm[slot].abs().sqrt()
            worst = typical + reach * hard[slot].abs() / STRUCTURED
            found[slot] = Bound(bound.typical + typical, bound.hard + worst, bound.hazard)
    return found


def _three(site: Site, of: Callable[[torch.Tensor], torch.Tensor]) -> list[Any]:
    return evaluate(site.call, [*(of(t) for t in site.args[:3]), *site.args[3:]], site.kwargs)


# Softmax and normalisations.


@rule("_softmax_backward_data")
def softmax_backward(site: Site) -> list[Bound | None]:
    """y·(g - Σ g·y)."""
    g, y, dim = site.args[0], site.args[1], site.args[2]
    product, terms = g * y, float(y.shape[dim]) if y.dim() else 1.0
    total = product.sum(dim, keepdim=True).abs() if y.dim() else product.abs()
    norm = (product**2).sum(dim, keepdim=True).sqrt() if y.dim() else product.abs()
    size = product.abs().sum(dim, keepdim=True) if y.dim() else product.abs()
    own = site.u * y.abs() * (4 * g.abs() + 4 * total)
    reach = site.u * math.sqrt(terms) * y.abs()
    return [Bound(own + reach * (total + norm), own + reach * size)]


@rule("_log_softmax_backward_data")
def log_softmax_backward(site: Site) -> list[Bound | None]:
    """g - exp(y)·Σ g."""
    g, y, dim = site.args[0], site.args[1], site.args[2]
    terms = float(y.shape[dim]) if y.dim() else 1.0
    total = g.sum(dim, keepdim=True).abs() if y.dim() else g.abs()
    norm = (g**2).sum(dim, keepdim=True).sqrt() if y.dim() else g.abs()
    size = g.abs().sum(dim, keepdim=True) if y.dim() else g.abs()
    share = torch.exp(y)
    depth = torch.nan_to_num(y.abs() * share, nan=0.0, posinf=0.0)
    own = site.u * (2 * g.abs() + 8 * share * total + depth * total)
    reach = site.u * math.sqrt(terms) * share
    return [Bound(own + reach * (total + norm), own + reach * size)]


@rule("native_layer_norm_backward")
def layer_norm_backward(site: Site) -> list[Bound | None]:
    """Statistics over the trailing dimensions; parameters over the leading ones."""
    g, x, shape, mean, rstd, weight = site.args[:6]
    rank = x.dim() - len(shape)
    dims, rows = tuple(range(rank, x.dim())), tuple(range(rank))
    gain = weight if weight is not None else torch.ones(())
    own = _through_statistics(site, g * gain, x, mean, rstd, dims)
    return [own, *_parameters(site, g, x, mean, rstd, rows)]


@rule("native_batch_norm_backward", "batch_norm_backward")
def batch_norm_backward(site: Site) -> list[Bound | None]:
    """Statistics over batch and space: the batch's own in training, else constants."""
    g, x, weight, running_mean, running_var, mean, rstd, train, eps = site.args[:9]
    if not train:
        mean, rstd = running_mean, 1 / (running_var + eps).sqrt()
    each = (1, -1, *[1] * (x.dim() - 2))
    mean, rstd = mean.reshape(each), rstd.reshape(each)
    gain = weight.reshape(each) if weight is not None else torch.ones(())
    dims = (0, *range(2, x.dim()))
    own = _through_statistics(site, g * gain, x, mean, rstd, dims) if train else relative(site, 8.0)[0]
    return [own, *_parameters(site, g, x, mean, rstd, dims)]


@rule("native_group_norm_backward")
def group_norm_backward(site: Site) -> list[Bound | None]:
    """Statistics over the channels of a group and space; parameters over batch and space."""
    g, x, mean, rstd, weight, batch, channels, space, groups = site.args[:9]
    apart = (batch, groups, channels // max(groups, 1), space)
    g, x = g.reshape(apart), x.reshape(apart)
    mean, rstd = mean.reshape(batch, groups, 1, 1), rstd.reshape(batch, groups, 1, 1)
    gain = weight.reshape(1, groups, -1, 1) if weight is not None else torch.ones(())
    own = _through_statistics(site, g * gain, x, mean, rstd, (2, 3))
    flat = [b and Bound(b.typical.flatten(), b.hard.flatten()) for b in _parameters(site, g, x, mean, rstd, (0, 3))]
    y = site.results[0]
    return [own and Bound(own.typical.reshape(y.shape), own.hard.reshape(y.shape)), *flat]


def _through_statistics(
    site: Site, g: torch.Tensor, x: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor, dims: tuple[int, ...]
) -> Bound | None:
    """r·(g - ḡ - x̂·mean(g·x̂)), x̂ = (x - m)·r, also as r·g + b·x + c with b = (m·Σg - Σg·x)·r³/K.

    Both sums are off by u·rms of their terms typically and u·√K·mean of their magnitudes at worst; b multiplies
    x and m without their difference having been taken.
    """
    if not isinstance(site.results[0], torch.Tensor):
        return None
    root = math.sqrt(max(math.prod(x.shape[d] for d in dims), 1))

    def rms(t: torch.Tensor) -> torch.Tensor:
        return (t**2).mean(dims, keepdim=True).sqrt()

    def size(t: torch.Tensor) -> torch.Tensor:
        return root * t.abs().mean(dims, keepdim=True)

    slope = ((g * (x - mean) * rstd).mean(dims, keepdim=True) * rstd**2).abs()
    reach = x.abs() + mean.abs()
    bounds = [
        site.u * (4 * rstd * g.abs() + 4 * reach * (slope + rstd**3 * (of(g * x) + mean.abs() * of(g)))
                  + 4 * rstd * (of(g) + g.mean(dims, keepdim=True).abs()))
        for of in (rms, size)
    ]  # fmt: skip
    return Bound(bounds[0], torch.maximum(bounds[0], bounds[1]))


def _parameters(
    site: Site, g: torch.Tensor, x: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor, dims: tuple[int, ...]
) -> list[Bound | None]:
    """Σ g·x̂ with x̂ folded or not, and Σ g. PyTorch's own kernel keeps these sums in bfloat16 where the tensors are."""
    u = max(site.u, site.u_out)
    terms = float(math.prod(x.shape[d] for d in dims))
    parts = (g.abs() * rstd * (x.abs() + mean.abs()), g.abs())
    found: list[Bound | None] = []
    for y, part in zip(site.results[1:], parts, strict=False):
        if not isinstance(y, torch.Tensor):
            found.append(None)
            continue
        hard = part.sum(dims) if dims else part
        norm = (part**2).sum(dims).sqrt() if dims else part
        hard, norm = hard.reshape(y.shape), norm.reshape(y.shape)
        bound = _sum(site, y, hard, norm, terms, u)
        found.append(Bound(bound.typical + 4 * u * norm, bound.hard + 4 * u * hard, bound.hazard))
    return found
