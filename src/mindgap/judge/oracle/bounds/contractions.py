"""Bounds of sums of products: matrix products, convolutions and their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from mindgap.judge.oracle.bounds.rules import Bound, Site, rule
from mindgap.judge.oracle.bounds.terms import (
    STRUCTURED,
    absolute,
    declared_dtype,
    exact_sums,
    squared,
    sum_of_terms,
    summed,
    without_noise,
)
from mindgap.judge.oracle.evaluation.float64 import evaluate
from mindgap.judge.oracle.evaluation.formats import FORMATS


@dataclass(frozen=True)
class _Products:
    """Sums of products: their bounds as if all of them rounded, Σ|x| and ‖x‖₂."""

    bounds: list[Bound | None]
    magnitudes: torch.Tensor
    norm: torch.Tensor

    def small_ones_exact(self, site: Site, operands: int, *, direct: bool = True) -> list[Bound | None]:
        """The bounds, where sums of whole numbers are exact as long as they are small. `direct`: by every algorithm;
        other ones compute with fractions, so that only the typical error is zero."""
        exact = exact_sums(site, operands, self.magnitudes)
        first, *others = self.bounds
        return [without_noise(first, exact, exact if direct else None), *others]


def _bilinear(site: Site, operands: int, terms: float) -> _Products:
    """The first `operands` arguments enter products (or are added, unsquared terms too): run on magnitudes."""
    if (found := _block_products(site)) is not None:
        hard, squares = found
    else:
        magnitudes = [absolute(a) for a in site.args[:operands]]
        hard = site.again(*magnitudes).abs()
        squares = site.again(*map(_squared_in_place, magnitudes)).abs()
    norm = squares.sqrt()
    return _Products(summed(site, hard, norm, terms), hard, norm)


def _block_products(site: Site) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Σ|x| and Σx² of a product with a large weight, a block of its columns at a time; None for any other call."""
    large = site.call.large
    if large is None:
        return None
    left, bias = site.args[large.left], None if large.bias is None else site.args[large.bias]
    factors = left.abs(), left.square()
    blocks: tuple[list[torch.Tensor], list[torch.Tensor]] = [], []
    for block in large.blocks(site.args):
        magnitudes = block.abs()
        blocks[0].append(factors[0] @ magnitudes)
        blocks[1].append(factors[1] @ magnitudes.square_())
    hard, squares = (torch.cat(parts, -1) for parts in blocks)
    terms = absolute(bias), squared(bias)
    return large.completed(hard, terms[0], site.kwargs), large.completed(squares, terms[1], site.kwargs)


def _squared_in_place(magnitude: Any) -> Any:
    """The square of what `absolute` made: another copy of a large weight takes longer than its product."""
    real = isinstance(magnitude, torch.Tensor) and magnitude.is_floating_point()
    return magnitude.square_() if real else squared(magnitude)


@rule("mm", "matmul", "bmm", "mv", "dot", "inner", "linear", "vdot")
def products(site: Site) -> list[Bound | None]:
    """Contraction over the last dimension of the left operand; a bias is one more term."""
    operands = 3 if site.call.packet == "linear" and len(site.args) > 2 else 2
    terms = float(site.args[0].shape[-1] if site.args[0].dim() else 1)
    return _bilinear(site, operands, terms).small_ones_exact(site, operands)


@rule("einsum")
def einsum(site: Site) -> list[Bound | None]:
    """K is what the same contraction makes of ones."""
    equation, factors = site.args[0], site.args[1]
    hard = site.again(equation, [absolute(f) for f in factors]).abs()
    two_norm = site.again(equation, [squared(f) for f in factors]).abs().sqrt()
    counts = site.again(equation, [torch.ones_like(f) for f in factors]).abs()
    return summed(site, hard, two_norm, float(counts.max()) if counts.numel() else 1.0)


@rule("addmm", "baddbmm", "addmv", "addbmm", "addr", "_addmm_activation")
def products_added_to_a_tensor(site: Site) -> list[Bound | None]:
    """β·C + α·A·B on magnitudes."""
    left = site.args[1]
    kwargs = {k: absolute(v) for k, v in site.kwargs.items()}
    magnitudes = Site(site.call, site.args, kwargs, site.results, site.u, site.u_out, site.largest)
    terms = float(left.shape[-1]) * (left.shape[0] if site.call.packet == "addbmm" else 1) if left.dim() else 1.0
    product_bounds = _bilinear(magnitudes, 3, 1.0 if site.call.packet == "addr" else terms)
    first = product_bounds.bounds[0]
    if site.call.packet == "addbmm" and site.u_out > site.u and first is not None:
        # One matrix after the other is added in the narrow dtype, which rounds whole numbers too.
        step = site.u_out * math.sqrt(left.shape[0]) * (site.results[0].abs() + product_bounds.norm)
        return [Bound(first.typical + step, first.hard + step, first.hazard), *product_bounds.bounds[1:]]
    # An activation that follows, GELU, makes fractions of whole numbers.
    return (
        product_bounds.bounds
        if site.call.packet == "_addmm_activation"
        else product_bounds.small_ones_exact(magnitudes, 3)
    )


@rule("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
      "_convolution", "conv_tbc")  # fmt: skip
def convolutions(site: Site) -> list[Bound | None]:
    """K: input channels of a group times the kernel's volume (for transposed ones no more than that)."""
    weight = site.args[1]
    transposed = "transpose" in site.call.packet or (len(site.args) > 6 and site.args[6] is True)
    terms = float(weight.numel() // max(weight.shape[1], 1)) if transposed else float(weight[0].numel())
    operands = 3 if len(site.args) > 2 else 2
    product_bounds = _bilinear(site, operands, terms)
    first = product_bounds.bounds[0]
    if not transposed or site.u_out <= site.u or first is None:
        # Winograd's algorithm multiplies by fractions.
        return product_bounds.small_ones_exact(site, operands, direct=False)
    # Columns are scattered back in the declared dtype: every overlapping one rounds there, and may overflow.
    magnitudes, size = product_bounds.magnitudes, site.results[0].abs() + product_bounds.norm
    volume = site.u_out * math.sqrt(max(float(weight[0, 0].numel()), 1.0))
    overflows = magnitudes > FORMATS[dtype].largest / 4 if (dtype := declared_dtype(site)) else None
    hard = first.hard + volume * (size + magnitudes / STRUCTURED)
    return [Bound(first.typical + volume * size, hard, overflows), *product_bounds.bounds[1:]]


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
    bounds: list[Bound | None] = []
    for y, total, square, terms in zip(site.results, hard, norm, (into_input, seen, seen), strict=True):
        usable = isinstance(y, torch.Tensor) and y.is_floating_point() | y.is_complex()
        bounds.append(sum_of_terms(site, y, total.abs(), square.abs().sqrt(), terms, site.u) if usable else None)
    if site.u_out <= site.u:
        return bounds
    batch = float(g.shape[0]) if g.dim() == weight.dim() else 1.0
    steps = (float(math.prod(weight.shape[2:])), batch, batch)
    for slot, (bound, parts) in enumerate(zip(bounds, steps, strict=True)):
        if bound is not None:
            reach = site.u_out * math.sqrt(parts)
            typical = reach * norm[slot].abs().sqrt()
            worst = typical + reach * hard[slot].abs() / STRUCTURED
            bounds[slot] = Bound(bound.typical + typical, bound.hard + worst, bound.hazard)
    return bounds


def _three(site: Site, of: Callable[[torch.Tensor], torch.Tensor]) -> list[Any]:
    return evaluate(site.call, [*(of(t) for t in site.args[:3]), *site.args[3:]], site.kwargs)
