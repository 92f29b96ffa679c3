"""Bounds of softmax, attention and their gradients."""

from __future__ import annotations

import math

import torch

from mindgap.judge.oracle.bounds.rules import Bound, Site, relative, rule
from mindgap.judge.oracle.bounds.terms import (
    STRUCTURED,
)
from mindgap.judge.oracle.evaluation.formats import FORMATS


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
