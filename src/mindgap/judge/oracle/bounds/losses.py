"""Bounds of loss functions."""

from __future__ import annotations

import math

import torch

from mindgap.judge.oracle.bounds.overflow import largest_finite
from mindgap.judge.oracle.bounds.rules import Bound, Site, relative, rule
from mindgap.judge.oracle.bounds.terms import (
    one_sided,
)


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


@rule("multi_margin_loss_backward", "multilabel_margin_loss_backward")
def margin_gradients(site: Site) -> list[Bound | None]:
    """Products and quotients of a few factors; a sum of at most as many equal terms as there are classes."""
    width = site.args[1].shape[-1] if site.args[1].dim() and "margin" in site.call.packet else 1
    return relative(site, 4.0 + math.sqrt(max(width, 1)))
