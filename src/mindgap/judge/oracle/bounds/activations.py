"""Bounds of activation functions and of their gradients."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import torch

from mindgap.judge.oracle.bounds.rules import Bound, OperatorBounds, Site, exact, perturbed, relative, rule
from mindgap.judge.oracle.bounds.terms import (
    finite,
)


@rule("erf", "erfc", "erfinv", "tanh", "sigmoid", "silu", "hardswish", "hardsigmoid", "special_expit",
      "lgamma", "digamma", "special_erf", "special_ndtr", "i0", "special_erfcx",
      "glu")  # fmt: skip
def smooth(site: Site) -> list[Bound | None]:
    """2.5u·|y|, and one rounding of an intermediate of size 1 for those that subtract from it.

    4u·|y| for functions that are pieced together or recur, 16u·|y| for logistic ones: vectorised libraries approximate
    them to an absolute error of u/4, which is 200 ulps at -7. x·(x/6 + ½), as ONNX defines hardswish, cancels at -3.
    """
    extra = {"erfc": 1.0, "lgamma": 3.0, "digamma": 4.0, "special_ndtr": 1.0, "hardsigmoid": 0.5}
    more = extra.get(site.call.packet, 0.0)
    if site.call.packet == "special_ndtr":
        # Composed of smaller operators, each of which rounds to the declared dtype.
        more = max(site.u, site.u_out) / site.u
    if site.call.packet == "hardswish":
        return relative(site, 2.5, torch.where(site.args[0].abs() <= 3, site.args[0].abs() / 2, 0.0))
    if site.call.packet in ("sigmoid", "special_expit", "silu"):
        return relative(site, 16.0)
    pieced = site.call.packet in ("lgamma", "digamma", "erfinv", "special_erfcx", "special_ndtr", "erfc")
    return relative(site, 4.0 if pieced else 2.5, more)


@rule("lstm", "gru", "lstm_cell", "gru_cell", "rnn_tanh", "rnn_tanh_cell")
def recurrent(site: Site) -> OperatorBounds:
    """The measured response, and u for the gates, which are at most 1: implementations approximate them to an absolute
    error, and a state may be far smaller."""
    bounds = perturbed(site, "the operator's bound is measured")
    slots = [each and replace(each, typical=each.typical + site.u, hard=each.hard + site.u) for each in bounds.slots]
    return OperatorBounds(slots, bounds.missing)


@rule("gelu", "mish")
def gated(site: Site) -> list[Bound | None]:
    """x·Φ(x): the gate is a sum that cancels for negative x, so its error is u, and u·|x| after the product."""
    return relative(site, 8.0, site.args[0].abs())


@rule("softplus", "log_sigmoid", "log_sigmoid_forward")
def soft(site: Site) -> list[Bound | None]:
    """log(1 + eˣ) written out rounds the 1 + eˣ: u absolute, once more."""
    return relative(site, 3.0, 1.0)


@rule("elu", "selu", "celu")
def exponential_linear(site: Site) -> list[Bound | None]:
    """α·(eˣ - 1) written out cancels near 0: u·α/2 absolute."""
    alpha = site.arg(1, "alpha", 1.0) if site.call.packet != "selu" else 1.76
    return relative(site, 2.0, abs(float(alpha)) / 2)


_SQRT_2PI: Final = math.sqrt(2 * math.pi)


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
    return relative(site, 8.0, 16 * finite(g.abs() * s.abs() * (1 + x.abs() * (1 - s).abs())))


@rule("mish_backward")
def mish_backward(site: Site) -> list[Bound | None]:
    """g·(t + x·s·(1 - t²)) with t = tanh(softplus x): 1 - t² is off by a rounding of 1."""
    g, x = site.args[0], site.args[1]
    return relative(site, 8.0, 8 * finite(g.abs() * torch.sigmoid(x) * (1 + x.abs())))


@rule("gelu_backward")
def gelu_backward(site: Site) -> list[Bound | None]:
    """g·(Φ(x) + x·φ(x)): Φ of a negative number is a difference from 1; φ carries the rounding of x².

    The approximation by tanh multiplies 1 - tanh² by x·(1 + 0.134·x²), and is off by a rounding of that.
    """
    g, x = site.args[0].abs(), site.args[1].abs()
    if site.arg(2, "approximate", "none") == "tanh":
        return relative(site, 8.0, 4 * finite(g * (1 + x * (1 + 0.134 * x**2))))
    density = torch.exp(-(x**2) / 2) / _SQRT_2PI
    return relative(site, 8.0, 8 * finite(g * (1 + x * density * (1 + x**2))))


@rule("elu_backward")
def elu_backward(site: Site) -> list[Bound | None]:
    """g·α·exp(x), the argument of the exponential rounded."""
    return relative(site, 6.0, finite(site.args[5].abs() * site.results[0].abs()))


@rule("softplus_backward", "log_sigmoid_backward")
def logistic_backward(site: Site) -> list[Bound | None]:
    """g·σ(x), or g·(1 - σ(x)) by way of an exponential that is subtracted from 1."""
    g, x = site.args[0], site.args[1]
    return relative(site, 6.0, finite(3 * g.abs() if "log" in site.call.packet else x.abs() * site.results[0].abs()))


@rule("glu_backward")
def glu_backward(site: Site) -> list[Bound | None]:
    """(g·σ(b), g·a·σ(b)·(1 - σ(b))): 1 - σ is off by a rounding of 1."""
    g, x, dim = site.args[0], site.args[1], site.arg(2, "dim", -1)
    a, b = x.chunk(2, dim)
    lost = (g * a * torch.sigmoid(b)).abs()
    return relative(site, 8.0, 8 * finite(torch.cat([torch.zeros_like(lost), lost], dim)))


@rule("logit_backward")
def logit_backward(site: Site) -> list[Bound | None]:
    """g/(x·(1 - x)) between two edges, 0 beyond; a narrow dtype may hold the edges as others."""
    g, x, eps = site.args[0], site.args[1], site.arg(2, "eps")
    (plain,) = relative(site, 8.0)
    if eps is None or plain is None:
        return [plain]
    edges = torch.minimum((x - eps).abs(), (x - (1 - eps)).abs()) <= 2 * site.u_out
    size = torch.where(edges, torch.nan_to_num(g / (x * (1 - x)), nan=0.0, posinf=0.0, neginf=0.0).abs(), plain.hard)
    return [Bound(size, size)]
