"""Normalisations, softmax, attention, losses."""

from __future__ import annotations

import math
from typing import Any

import torch

from mindgap.oracle.bounds import Bound, Site, relative, rule
from mindgap.oracle.bounds_range import largest_finite
from mindgap.oracle.bounds_sums import STRUCTURED, one_sided
from mindgap.oracle.precision import FORMATS


@rule("layer_norm", "native_layer_norm")
def layer_norm(site: Site) -> list[Bound | None]:
    """Statistics over the trailing dimensions."""
    x, shape = site.args[0], site.args[1]
    dims = tuple(range(-len(shape), 0))
    weight, bias = site.arg(2, "weight"), site.arg(3, "bias")
    return _with_statistics(site, x, dims, weight, bias, float(site.arg(4, "eps", 1e-5)))


@rule("rms_norm", "_fused_rms_norm")
def rms_norm(site: Site) -> list[Bound | None]:
    """As layer_norm without a mean."""
    x, shape = site.args[0], site.args[1]
    dims = tuple(range(-len(shape), 0))
    y = site.results[0].abs()
    terms = float(math.prod(shape))
    hazard = _squares_overflow(x, terms, site)
    found = relative(site, math.sqrt(terms) / 2 + 3 + float(one_sided(terms)))
    first = found[0]
    return (
        [
            Bound(first.typical, first.hard, hazard.expand(y.shape) if hazard is not None else None) if first else None,
            *found[1:],
        ]
        if dims
        else found
    )


@rule("group_norm", "native_group_norm")
def group_norm(site: Site) -> list[Bound | None]:
    """Statistics over the channels of a group and space."""
    x = site.args[0]
    if site.call.packet == "group_norm":
        groups, weight, bias, eps = site.args[1], site.arg(2, "weight"), site.arg(3, "bias"), site.arg(4, "eps", 1e-5)
    else:
        weight, bias, groups, eps = site.args[1], site.args[2], site.args[6], site.args[7]
    grouped = x.reshape(x.shape[0], groups, -1)
    per_group = _statistics(grouped, (-1,), float(eps))
    mean, scale = (t.expand_as(grouped).reshape(x.shape) for t in per_group)
    return _normalised(site, x, mean, scale, _per_channel(weight, x), _per_channel(bias, x), grouped.shape[-1])


@rule("batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training",
      "_native_batch_norm_legit_functional", "instance_norm", "cudnn_batch_norm",
      "_batch_norm_with_update_functional")  # fmt: skip
def batch_norm(site: Site) -> list[Bound | None]:
    """Statistics per channel: given ones in evaluation, the batch's own in training; updated ones are means."""
    x, weight, bias = site.args[0], site.args[1], site.args[2]
    training = site.arg(5, "training", False) if site.call.packet != "_native_batch_norm_legit_no_training" else False
    if site.call.packet == "instance_norm":
        training = site.arg(5, "use_input_stats", True)
    eps = next((a for a in reversed(site.args) if isinstance(a, float)), 1e-5)
    if training:
        dims = tuple(range(2, x.dim())) if site.call.packet == "instance_norm" else (0, *range(2, x.dim()))
        mean, scale = _statistics(x, dims, eps)
        terms = float(math.prod(x.shape[d] for d in dims))
    else:
        mean = _per_channel(site.args[3], x)
        scale = 1 / (_per_channel(site.args[4], x) + eps).sqrt()
        terms = 1.0
    return _normalised(site, x, mean, scale, _per_channel(weight, x), _per_channel(bias, x), terms)


def _with_statistics(
    site: Site, x: torch.Tensor, dims: tuple[int, ...], weight: Any, bias: Any, eps: float
) -> list[Bound | None]:
    mean, scale = _statistics(x, dims, eps)
    terms = float(math.prod(x.shape[d] for d in dims))
    return _normalised(
        site, x, mean, scale, weight if weight is not None else 1.0, bias if bias is not None else 0.0, terms
    )


def _statistics(x: torch.Tensor, dims: tuple[int, ...], eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    mean = x.mean(dims, keepdim=True)
    return mean, 1 / (((x - mean) ** 2).mean(dims, keepdim=True) + eps).sqrt()


def _normalised(
    site: Site, x: torch.Tensor, mean: Any, scale: Any, weight: Any, bias: Any, terms: float
) -> list[Bound | None]:
    """(x - m)·s·w + b, folded or not: |x·a| + |m·a| + |b| with a = s·w, and the error of m and s themselves.

    A mean of K numbers of size r is off by u·r typically and u·√K·r at worst; s by as much, relative.
    """
    gain = scale * weight
    gain = gain.abs() if isinstance(gain, torch.Tensor) else abs(gain)
    folded = (x * gain).abs() + (mean * gain).abs() + (bias.abs() if isinstance(bias, torch.Tensor) else abs(bias))
    y = site.results[0]
    centred = ((x - mean) * gain).abs()
    offset = (mean * gain).abs() + centred
    # A variance taken as E[x²] - m² loses what m² is larger than it.
    lost = 1.0 if terms <= 1 else 1 + (mean * scale) ** 2
    typical = site.u * (3 * folded + (offset + centred * lost if terms > 1 else 0.0))
    hard = site.u * (3 * folded + (math.sqrt(terms) * (offset + centred * lost) if terms > 1 else 0.0))
    hazard = _squares_overflow(x, terms, site) if terms > 1 else None
    if terms > 1 and "layer" not in site.call.packet and site.u_out > site.u:
        # A mean may be handed on in the declared dtype, and so may what it is folded into.
        kept = site.u_out * ((mean * gain).abs() + folded / 8)
        typical, hard = typical + kept, hard + kept
    first = Bound(typical.expand(y.shape), hard.expand(y.shape), hazard)
    return [first, *relative(site, math.sqrt(max(terms, 1.0)) + 8, _size_of_mean(x, terms))[1:]]


def _size_of_mean(x: torch.Tensor, terms: float) -> float:
    return math.sqrt(terms) * float(x.abs().mean()) if x.numel() and terms > 1 else 0.0


def _squares_overflow(x: torch.Tensor, terms: float, site: Site) -> torch.Tensor | None:
    worst = largest_finite(x)
    return torch.ones_like(x, dtype=torch.bool) if worst > math.sqrt(site.largest / max(terms, 1.0)) / 2 else None


def _per_channel(values: Any, x: torch.Tensor) -> Any:
    if values is None:
        return 1.0
    return values.reshape(1, -1, *([1] * (x.dim() - 2))) if isinstance(values, torch.Tensor) else values


@rule("softmax", "_softmax", "_safe_softmax")
def softmax(site: Site) -> list[Bound | None]:
    """exp(x - max)/Σ: u·(4 + √K/2 + |x - max|)·|y|."""
    x, dim = site.args[0], site.args[1]
    depth = _depth(x, dim)
    return relative(site, 4 + math.sqrt(x.shape[dim] if x.dim() else 1) / 2, depth * site.results[0].abs())


@rule("log_softmax", "_log_softmax")
def log_softmax(site: Site) -> list[Bound | None]:
    """x - max - ln Σ: u·(|y| + |x - max| + 4 + √K) absolute. PyTorch's kernel keeps Σ in bfloat16 where x is."""
    x, dim = site.args[0], site.args[1]
    kept = site.u_out / site.u if site.u_out > site.u else 0.0
    return relative(site, 2.0, _depth(x, dim) + 4 + kept + math.sqrt(x.shape[dim] if x.dim() else 1))


@rule("logsumexp", "logcumsumexp")
def logsumexp(site: Site) -> list[Bound | None]:
    """max + ln Σ exp(x - max)."""
    x = site.args[0]
    return relative(site, 3.0, 3 + math.sqrt(x.numel() / max(site.results[0].numel(), 1)) / 2)


def _depth(x: torch.Tensor, dim: int) -> torch.Tensor:
    if not x.numel():
        return torch.zeros_like(x)
    return torch.nan_to_num(x - x.amax(dim, keepdim=True), nan=0.0, posinf=0.0, neginf=0.0).abs()


@rule("scaled_dot_product_attention", "_scaled_dot_product_attention_math")
def attention(site: Site) -> list[Bound | None]:
    """softmax(q·kᵀ·s + m)·v with the error of each stage carried into the next.

    Scores are off by u·√E/2·Σ|q·k|·s; a probability by its own size times that; the product by both. In narrow
    dtypes scores and probabilities may be rounded to them on the way.
    """
    q, k, v = site.args[0], site.args[1], site.args[2]
    if site.arg(6, "enable_gqa", False) and k.shape[-3] != q.shape[-3]:
        times = q.shape[-3] // k.shape[-3]
        k, v = k.repeat_interleave(times, -3), v.repeat_interleave(times, -3)
    scale = site.arg(7, "scale", None) or site.kwargs.get("scale") or 1 / math.sqrt(max(q.shape[-1], 1))
    scores = q @ k.transpose(-2, -1) * scale + _mask(site, q, k)
    probabilities = torch.nan_to_num(torch.softmax(scores, -1), nan=0.0)
    coarse = site.u_out if site.u_out > site.u else 0.0
    finite = torch.nan_to_num(scores, nan=0.0, posinf=0.0, neginf=0.0).abs()
    reach = site.u * math.sqrt(max(q.shape[-1], 1)) / 2
    magnitude = q.abs() @ k.abs().transpose(-2, -1) * abs(scale)
    norm = ((q**2) @ (k**2).transpose(-2, -1)).sqrt() * abs(scale)
    keys = math.sqrt(max(k.shape[-2], 1))
    rounding = site.u * (2 + _depth(scores, -1)) + coarse
    y = site.results[0].abs()
    # What the sum of the exponentials is off by is common to a row of probabilities.
    typical = _weighted(probabilities, reach * (finite + norm) + coarse * finite + rounding, v, site, keys, norm=True)
    typical = typical + site.u * (keys + 2) * y + coarse * y
    worst = _weighted(probabilities, reach * magnitude + coarse * finite + rounding, v, site, keys, norm=False)
    hard = typical + worst / STRUCTURED
    hazard = _scores_overflow(site, magnitude / max(abs(scale), 1e-300))
    first = Bound(typical, hard, hazard if hazard is None else hazard.expand(y.shape))
    return [first, *([None] * (len(site.results) - 1))]


def _scores_overflow(site: Site, unscaled: torch.Tensor) -> torch.Tensor | None:
    """Rows whose scores, before they are scaled, may leave the range of the declared dtype. A mask is no score."""
    spec = site.call.node.outputs[0]
    largest = FORMATS[spec.dtype].largest if spec is not None and spec.dtype in FORMATS else site.largest
    over = (unscaled > largest / 4).any(-1, keepdim=True)
    return over if bool(over.any()) else None


def _weighted(
    p: torch.Tensor, error: torch.Tensor, v: torch.Tensor, site: Site, keys: float, norm: bool
) -> torch.Tensor:
    """Σ p·|v|·error over the keys, as a 2-norm or a plain sum; twice, since the normaliser moves as well."""
    spread = p * error
    if norm:
        return (
            2 * (((spread**2) @ (v**2)).sqrt() + spread.square().sum(-1, keepdim=True).sqrt() * (p @ v.abs()))
            + site.u * keys * ((p**2) @ (v**2)).sqrt()
        )
    return 2 * (spread @ v.abs() + spread.sum(-1, keepdim=True) * (p @ v.abs())) + site.u * keys * (p @ v.abs())


def _mask(site: Site, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    mask, causal = site.arg(3, "attn_mask"), site.arg(5, "is_causal", False)
    total = torch.zeros(q.shape[-2], k.shape[-2], dtype=torch.float64)
    if causal:
        total = total.masked_fill(torch.ones_like(total, dtype=torch.bool).tril().logical_not(), -math.inf)
    if isinstance(mask, torch.Tensor):
        allowed = (
            torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -math.inf)
            if mask.dtype == torch.bool
            else mask
        )
        total = total + allowed
    return total


@rule("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
def losses_of_differences(site: Site) -> list[Bound | None]:
    """A mean or sum of terms of one sign, each of a difference of rounded operands."""
    x, target = site.args[0], site.args[1]
    terms = max(x.numel() / max(site.results[0].numel(), 1), 1.0)
    gap = torch.nan_to_num((x - target).abs(), nan=0.0, posinf=0.0)
    unreduced = gap.shape == site.results[0].shape
    return relative(site, math.sqrt(terms) + 5 + 2 * float(one_sided(terms)), gap if unreduced else 0.0)


@rule("cross_entropy_loss", "nll_loss", "nll_loss_nd", "nll_loss2d", "kl_div", "binary_cross_entropy",
      "binary_cross_entropy_with_logits", "nll_loss_forward", "nll_loss2d_forward", "soft_margin_loss")  # fmt: skip
def losses_of_logarithms(site: Site) -> list[Bound | None]:
    """Logarithms of normalised exponentials, then a mean."""
    x = site.args[0]
    terms = max(x.numel() / max(site.results[0].numel(), 1), 1.0)
    size = largest_finite(x)
    if site.call.packet == "cross_entropy_loss" and x.dim():
        classes = float(x.shape[1 if x.dim() > 1 else 0])
        terms = max(terms / max(classes, 1.0), 1.0)
        return relative(site, math.sqrt(terms) + 2, 3 + math.sqrt(classes) / 2 + size)
    # Probabilities are no larger than 1; other operands enter an exponential, or are added up as they are.
    extra = 3.0 if site.call.packet == "binary_cross_entropy" else 3 + 2 * size
    return relative(site, math.sqrt(terms) + 4, extra)
