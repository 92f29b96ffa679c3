"""Translates ONNX operators that are network layers: convolution, pooling, normalisation, losses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from mindgap.onnx_files.node import OnnxNode, translates

Tensor = torch.Tensor


def _pads(node: OnnxNode, sizes: Sequence[int], kernel: Sequence[int]) -> tuple[list[int], list[int]]:
    """Returns the padding before and after each spatial dimension, from `pads` or `auto_pad`."""
    rank = len(sizes)
    how = node.get("auto_pad", b"NOTSET")
    if how not in (b"SAME_UPPER", b"SAME_LOWER"):
        pads = node.get("pads", [0] * 2 * rank) if how == b"NOTSET" else [0] * 2 * rank
        return list(pads[:rank]), list(pads[rank:])
    strides, dilations = node.get("strides", [1] * rank), node.get("dilations", [1] * rank)
    spare = [
        max(0, (math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n)
        for n, k, s, d in zip(sizes, kernel, strides, dilations, strict=True)
    ]
    less, more = [n // 2 for n in spare], [n - n // 2 for n in spare]
    return (less, more) if how == b"SAME_UPPER" else (more, less)


def _widths(before: Sequence[int], after: Sequence[int]) -> list[int]:
    return [n for pair in reversed(list(zip(before, after, strict=True))) for n in pair]


def _of(stem: str, rank: int, node: OnnxNode) -> Any:
    node.only(1 <= rank <= 3, f"of {rank} spatial dimensions")
    return getattr(F, f"{stem}{rank}d")


@translates("Conv")
def conv(node: OnnxNode, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rank = x.dim() - 2
    before, after = _pads(node, x.shape[2:], weight.shape[2:])
    if before != after:
        x, before = F.pad(x, _widths(before, after)), [0] * rank
    return _of("conv", rank, node)(
        x, weight, bias, node.get("strides", 1), before, node.get("dilations", 1), node.get("group", 1)
    )


@translates("ConvTranspose")
def conv_transpose(node: OnnxNode, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes without padding and then cuts: ONNX cuts each end by a separate number."""
    rank = x.dim() - 2
    strides, dilations = node.get("strides", [1] * rank), node.get("dilations", [1] * rank)
    extra = node.get("output_padding", [0] * rank)
    kernel = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilations, strict=True)]
    whole = [(n - 1) * s + k + e for n, s, k, e in zip(x.shape[2:], strides, kernel, extra, strict=True)]
    shape, how = node.get("output_shape"), node.get("auto_pad", b"NOTSET")
    before, after = _pads(node, x.shape[2:], weight.shape[2:]) if how == b"NOTSET" else ([0] * rank, [0] * rank)
    if shape is None and how in (b"SAME_UPPER", b"SAME_LOWER"):
        shape = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    if shape is not None:
        spare = [w - n for w, n in zip(whole, shape[-rank:], strict=True)]
        less, more = [n // 2 for n in spare], [n - n // 2 for n in spare]
        before, after = (less, more) if how == b"SAME_UPPER" else (more, less)
    function = _of("conv_transpose", rank, node)
    if before == after and shape is None:
        return function(x, weight, bias, strides, before, extra, node.get("group", 1), dilations)
    # What is wanted beyond the last stride is bias alone, and PyTorch adds it by its output padding.
    spilled = [max(0, -n) for n in after]
    y = function(
        x,
        weight,
        bias,
        strides,
        0,
        [e + s for e, s in zip(extra, spilled, strict=True)],
        node.get("group", 1),
        dilations,
    )
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        y = y.narrow(axis + 2, low, whole[axis] - low - high)
    return y.contiguous()


@translates("MaxPool")
def max_pool(node: OnnxNode, x: Tensor) -> Any:
    kernel, rank = node.get("kernel_shape"), x.dim() - 2
    before, after = _pads(node, x.shape[2:], kernel)
    function = _of("max_pool", rank, node)
    even = before == after and all(2 * p <= k for p, k in zip(before, kernel, strict=True))
    wide = x if even else F.pad(x, _widths(before, after), value=-math.inf if x.is_floating_point() else 0)
    indexed = len(node.wanted) > 1 and node.wanted[1]
    result = function(
        wide, kernel, node.get("strides", [1] * rank), before if even else 0, node.get("dilations", 1),
        bool(node.get("ceil_mode", 0)), indexed,
    )  # fmt: skip
    if not indexed:
        return result
    node.only(even, "with indices into uneven padding")
    plane, indices = math.prod(x.shape[2:]), result[1]
    if node.get("storage_order", 0) and rank > 1:
        node.only(rank == 2, "with indices by column")
        indices = indices % x.shape[3] * x.shape[2] + indices // x.shape[3]
    first = torch.arange(x.shape[0] * x.shape[1]).reshape([*x.shape[:2], *[1] * rank]) * plane
    return result[0], indices + first


@translates("AveragePool")
def average_pool(node: OnnxNode, x: Tensor) -> Tensor:
    kernel, rank = node.get("kernel_shape"), x.dim() - 2
    before, after = _pads(node, x.shape[2:], kernel)
    strides, ceil, all_counted = (
        node.get("strides", [1] * rank),
        bool(node.get("ceil_mode", 0)),
        bool(node.get("count_include_pad", 0)),
    )
    if any(d > 1 for d in node.get("dilations", [1])):
        counted = torch.ones_like(x)
        if all_counted:
            counted = F.pad(counted, _widths(before, after), value=1.0)
        pads = ([0] * rank, [0] * rank) if all_counted else (before, after)
        return _window_sum(node, x, (before, after)) / _window_sum(node, counted, pads)
    function = _of("avg_pool", rank, node)
    if before == after and all(2 * p <= k for p, k in zip(before, kernel, strict=True)):
        return function(x, kernel, strides, before, ceil, all_counted)
    # Uneven padding: the mean over the window, then over the share of it that counts.
    mean = function(F.pad(x, _widths(before, after)), kernel, strides, 0, ceil)
    if all_counted:
        return mean
    return mean / function(F.pad(torch.ones_like(x), _widths(before, after)), kernel, strides, 0, ceil)


def _window_sum(node: OnnxNode, x: Tensor, pads: tuple[Sequence[int], Sequence[int]]) -> Tensor:
    """Sums over windows with holes. A window that begins behind the operand and its padding is left out."""
    kernel, rank = node.get("kernel_shape"), x.dim() - 2
    strides, dilations = node.get("strides", [1] * rank), node.get("dilations", [1] * rank)
    counts, spare = list[int](), list[int]()
    for size, low, high, k, s, d in zip(x.shape[2:], *pads, kernel, strides, dilations, strict=True):
        room = size + low + high - (k - 1) * d - 1
        count = (math.ceil(room / s) if node.get("ceil_mode", 0) else room // s) + 1
        count -= (count - 1) * s >= size + low
        counts.append(count)
        spare.append(max(high, (count - 1) * s + (k - 1) * d + 1 - size - low))
    wide = F.pad(x, _widths(pads[0], spare))
    total: Tensor | None = None
    for place in itertools.product(*map(range, kernel)):
        part = wide
        for axis, (offset, d, s, count) in enumerate(zip(place, dilations, strides, counts, strict=True), 2):
            first = offset * d
            part = torch.ops.aten.slice.Tensor(part, axis, first, first + (count - 1) * s + 1, s)
        total = part if total is None else total + part
    assert total is not None, "a kernel has an element"
    return total


@translates("LpPool")
def lp_pool(node: OnnxNode, x: Tensor) -> Tensor:
    kernel, rank, p = node.get("kernel_shape"), x.dim() - 2, node.get("p", 2)
    pads = _pads(node, x.shape[2:], kernel)
    if any(d > 1 for d in node.get("dilations", [1])):
        return _window_sum(node, x.abs().pow(p), pads).pow(1 / p)
    wide = F.pad(x, _widths(*pads))
    strides = node.get("strides", [1] * rank)
    even = kernel[0] if rank == 1 else kernel, strides[0] if rank == 1 else strides
    # PyTorch takes the powers of signed numbers, ONNX of their magnitudes.
    return _of("lp_pool", rank, node)(wide.abs(), p, *even, bool(node.get("ceil_mode", 0)))


@translates("GlobalAveragePool")
def global_average_pool(node: OnnxNode, x: Tensor) -> Tensor:
    return _of("adaptive_avg_pool", x.dim() - 2, node)(x, 1)


@translates("GlobalMaxPool")
def global_max_pool(node: OnnxNode, x: Tensor) -> Tensor:
    return _of("adaptive_max_pool", x.dim() - 2, node)(x, 1)


@translates("MaxUnpool", structural=(2,))
def max_unpool(node: OnnxNode, x: Tensor, index: Tensor, _: None = None) -> Tensor:
    kernel, rank = node.get("kernel_shape"), x.dim() - 2
    strides = node.get("strides", [1] * rank)
    own = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, kernel, strict=True)]
    sizes = node.integers(2)
    node.only(sizes is None or sizes[2:] == own, "into a larger picture")
    plane = math.prod(own)
    return _of("max_unpool", rank, node)(x, torch.remainder(index, plane), kernel, strides, 0, own)


@translates("BatchNormalization")
def batch_norm(node: OnnxNode, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor) -> Any:
    eps = node.get("epsilon", 1e-5)
    if not node.get("training_mode", 0):
        return F.batch_norm(x, mean, var, scale, bias, False, 0.0, eps)
    kept, axes = node.get("momentum", 0.9), [0, *range(2, x.dim())]
    new_mean = mean * kept + x.mean(axes) * (1 - kept)
    new_var = var * kept + x.var(axes, correction=0) * (1 - kept)
    return F.batch_norm(x, None, None, scale, bias, True, 0.0, eps), new_mean, new_var


@translates("InstanceNormalization")
def instance_norm(node: OnnxNode, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return F.instance_norm(x, None, None, scale, bias, True, 0.0, node.get("epsilon", 1e-5))


@translates("GroupNormalization")
def group_norm(node: OnnxNode, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    groups = node.get("num_groups")
    if node.opset < 21:  # one for each group
        scale, bias = (each.repeat_interleave(x.shape[1] // groups) for each in (scale, bias))
    return F.group_norm(x, groups, scale, bias, node.get("epsilon", 1e-5))


@translates("LayerNormalization")
def layer_norm(node: OnnxNode, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Any:
    shape = x.shape[node.get("axis", -1) % x.dim() :]
    eps = node.get("epsilon", 1e-5)
    if len(node.wanted) == 1:
        return F.layer_norm(x, shape, scale.expand(shape), None if bias is None else bias.expand(shape), eps)
    return torch.native_layer_norm(x, shape, scale.expand(shape), None if bias is None else bias.expand(shape), eps)


@translates("RMSNormalization")
def rms_norm(node: OnnxNode, x: Tensor, scale: Tensor) -> Tensor:
    shape = x.shape[node.get("axis", -1) % x.dim() :]
    return F.rms_norm(x, shape, scale.expand(shape), node.get("epsilon", 1e-5))


@translates("LRN")
def local_response_norm(node: OnnxNode, x: Tensor) -> Tensor:
    return F.local_response_norm(
        x, node.get("size"), node.get("alpha", 1e-4), node.get("beta", 0.75), node.get("bias", 1.0)
    )


@translates("MeanVarianceNormalization")
def mean_variance_norm(node: OnnxNode, x: Tensor) -> Tensor:
    axes = node.get("axes", [0, 2, 3])
    return (x - x.mean(axes, keepdim=True)) / (x.std(axes, correction=0, keepdim=True) + 1e-9)


@translates("Dropout", structural=(1, 2))
def dropout(node: OnnxNode, x: Tensor, *_: None) -> Any:
    """Inference only: nothing is dropped."""
    ratio, training = node.known(1), node.known(2)
    share = node.get("ratio", 0.5) if ratio is None else float(ratio)
    node.only(training is None or not bool(training) or share == 0.0, "in training draws numbers of its own and")
    return x.clone(), torch.ones_like(x, dtype=torch.bool)


@translates("NegativeLogLikelihoodLoss")
def nll_loss(node: OnnxNode, x: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    return F.nll_loss(x, target, weight, ignore_index=node.get("ignore_index", -100), reduction=_reduced(node))


@translates("SoftmaxCrossEntropyLoss")
def cross_entropy(node: OnnxNode, x: Tensor, target: Tensor, weight: Tensor | None = None) -> Any:
    log_likely = F.log_softmax(x, 1)
    loss = F.nll_loss(log_likely, target, weight, ignore_index=node.get("ignore_index", -100), reduction=_reduced(node))
    return (loss, log_likely) if len(node.wanted) > 1 else loss


def _reduced(node: OnnxNode) -> str:
    return node.get("reduction", b"mean").decode()
