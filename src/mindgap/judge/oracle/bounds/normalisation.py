"""Bounds of normalisations and of their gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from mindgap.judge.oracle.bounds.overflow import largest_finite
from mindgap.judge.oracle.bounds.rules import Bound, Site, relative, rule
from mindgap.judge.oracle.bounds.terms import (
    STRUCTURED,
    one_sided,
    sum_of_terms,
)


@dataclass(frozen=True, slots=True)
class _Statistics:
    """What x is normalised by, shaped to be spread over x: its mean and the inverse of its deviation.

    `mean`, `scale`: float64. `terms`: K, the numbers that each is taken over, 1 where they are given. `rms`: root mean
    square of these numbers; `size`: mean of their magnitudes. Both are 0 where the statistics are given.
    """

    mean: Any
    scale: Any
    terms: float = 1.0
    rms: Any = 0.0
    size: Any = 0.0


@rule("layer_norm", "native_layer_norm")
def layer_norm(site: Site) -> list[Bound | None]:
    """Statistics over the trailing dimensions."""
    x, shape = site.args[0], site.args[1]
    weight, bias = site.arg(2, "weight"), site.arg(3, "bias")
    statistics = _statistics(x, tuple(range(-len(shape), 0)), float(site.arg(4, "eps", 1e-5)))
    return _normalised(site, x, statistics, 1.0 if weight is None else weight, 0.0 if bias is None else bias)


@rule("rms_norm", "_fused_rms_norm")
def rms_norm(site: Site) -> list[Bound | None]:
    """As layer_norm without a mean."""
    x, shape = site.args[0], site.args[1]
    dims = tuple(range(-len(shape), 0))
    y = site.results[0].abs()
    terms = float(math.prod(shape))
    hazard = _squares_overflow(x, terms, site)
    bounds = relative(site, math.sqrt(terms) / 2 + 3 + float(one_sided(terms)))
    first = bounds[0]
    return (
        [
            Bound(first.typical, first.hard, hazard.expand(y.shape) if hazard is not None else None) if first else None,
            *bounds[1:],
        ]
        if dims
        else bounds
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
    of = _statistics(grouped, (-1,), float(eps))
    mean, scale, rms, size = (t.expand_as(grouped).reshape(x.shape) for t in (of.mean, of.scale, of.rms, of.size))
    statistics = _Statistics(mean, scale, of.terms, rms, size)
    return _normalised(site, x, statistics, _per_channel(weight, x), _per_channel(bias, x, 0.0))


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
        statistics = _statistics(x, dims, eps)
    else:
        scale = 1 / (_per_channel(site.args[4], x) + eps).sqrt()
        statistics = _Statistics(_per_channel(site.args[3], x), scale)
    return _normalised(site, x, statistics, _per_channel(weight, x), _per_channel(bias, x, 0.0))


def _statistics(x: torch.Tensor, dims: tuple[int, ...], eps: float) -> _Statistics:
    """The statistics of x over some dimensions."""
    mean = x.mean(dims, keepdim=True)
    scale = 1 / (((x - mean) ** 2).mean(dims, keepdim=True) + eps).sqrt()
    terms = float(math.prod(x.shape[d] for d in dims))
    return _Statistics(mean, scale, terms, (x**2).mean(dims, keepdim=True).sqrt(), x.abs().mean(dims, keepdim=True))


def _normalised(site: Site, x: torch.Tensor, of: _Statistics, weight: Any, bias: Any) -> list[Bound | None]:
    """(x - m)·s·w + b, folded or not: |x·a| + |m·a| + |b| with a = s·w, and the errors of m and s themselves.

    A mean of K numbers has the error of their sum (see `bounds`) divided by K: u·(r + |m|) typically, r their root mean
    square, and u·(r + √K·(|m| + mean|x|/16)) at worst. It moves every element by a times as much, also those next to
    zero. s is off by u typically and by u·√K at worst, relative, and by more where its variance is E[x²] - m².
    """
    mean, scale, terms = of.mean, of.scale, of.terms
    gain = scale * weight
    gain = gain.abs() if isinstance(gain, torch.Tensor) else abs(gain)
    folded = (x * gain).abs() + (mean * gain).abs() + (bias.abs() if isinstance(bias, torch.Tensor) else abs(bias))
    y = site.results[0]
    typical = hard = 3 * site.u * folded
    if terms > 1:
        # A variance taken as E[x²] - m² loses what m² is larger than it.
        centred = ((x - mean) * gain).abs() * (1 + (mean * scale) ** 2)
        root, drift = math.sqrt(terms), float(one_sided(terms))
        grown = 2 * drift * (mean.abs() - 4 * of.rms / root).clamp_min(0.0)
        worst = of.rms + root * (mean.abs() + of.size / STRUCTURED) + grown
        typical = typical + site.u * ((of.rms + mean.abs()) * gain + centred)
        hard = hard + site.u * (worst * gain + (root + drift) * centred)
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


def _per_channel(values: Any, x: torch.Tensor, missing: float = 1.0) -> Any:
    if values is None:
        return missing
    return values.reshape(1, -1, *([1] * (x.dim() - 2))) if isinstance(values, torch.Tensor) else values


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
    bounds: list[Bound | None] = []
    for y, part in zip(site.results[1:], parts, strict=False):
        if not isinstance(y, torch.Tensor):
            bounds.append(None)
            continue
        hard = part.sum(dims) if dims else part
        norm = (part**2).sum(dims).sqrt() if dims else part
        hard, norm = hard.reshape(y.shape), norm.reshape(y.shape)
        bound = sum_of_terms(site, y, hard, norm, terms, u)
        bounds.append(Bound(bound.typical + 4 * u * norm, bound.hard + 4 * u * hard, bound.hazard))
    return bounds
