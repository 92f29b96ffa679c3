"""Translates LiteRT operators that are network layers: products, convolutions, pooling, normalisation."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# (PyTorch's functions are partly untyped)

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch.nn import functional as F

from mindgap_runtimes.litert_files.node import (
    Tensor,
    TfliteNode,
    alike,
    by_values,
    moving,
    translates,
)

#: A sum of products of 8-bit integers that float32 holds: 2^24 / (255 * 128) products.
_PRODUCTS: Final = 514
_SAME: Final = 0
#: The type int32 in the schema.
_INT32: Final = 2


def _pads(
    node: TfliteNode, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """Returns the padding as `F.pad` takes it (last dimension first): none, or such that a stride of 1 keeps the size,
    the larger half behind (`ComputePaddingWithOffset` in `lite/kernels/padding.h`)."""
    if node.option("Padding") != _SAME:
        return [0, 0, 0, 0]
    pads: list[int] = []
    for n, k, s, d in reversed([*zip(sizes, kernel, strides, dilations, strict=True)]):
        spare = max(0, (math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n)
        pads += [spare // 2, spare - spare // 2]
    return pads


def _strides(node: TfliteNode) -> list[int]:
    return [node.option("StrideH"), node.option("StrideW")]


def _dilations(node: TfliteNode) -> list[int]:
    return [node.option("DilationHFactor", 1), node.option("DilationWFactor", 1)]


def _channels_first(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2)


def _channels_last(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1)


def _exact(products: int, x: Tensor) -> torch.dtype:
    """The narrowest float that holds each sum of products of such integers."""
    return torch.float32 if products <= _PRODUCTS and x.dtype.itemsize == 1 else torch.float64


def _contraction(node: TfliteNode, x: Tensor, weight: Tensor, bias: Tensor | None, product: Callable[..., Tensor],
    products: int, asymmetric: bool, place: int = 0
) -> Tensor:  # fmt: skip
    """Returns sums of products and the bias, in floats, in quantised integers, or of floats with integer weights.

    `product`: takes operand and weight; its outputs are along the last axis. `products`: in a sum. `place`: that of the
    operand. Options may name int32 as the type of the sums of int16, which wrap then.
    """
    if not node.is_quantised and weight.is_floating_point():
        found = product(x, weight)
        return node.activated(found if bias is None else found + bias)
    node.only(not weight.is_floating_point(), "of integers with a float weight")
    if x.is_floating_point():
        return node.activated(_hybrid(node, x, weight, bias, product, products, asymmetric))
    dtype = _exact(products, x)
    # Rounded, because some algorithms for convolutions compute with fractions.
    total = torch.round(product(node.centred(place, x).to(dtype), node.centred(1, weight).to(dtype)))
    narrow = node.option("QuantizedBiasType") == _INT32
    total = total.to(torch.int32 if x.dtype.itemsize == 1 else torch.int64)
    total = total.to(torch.int32) if narrow else total
    node.only(node.is_quantised, "of integers whose result has no scale")
    return node.rescaled(total if bias is None else total + bias, node.factor(place, 1))


def _hybrid(
    node: TfliteNode, x: Tensor, weight: Tensor, bias: Tensor | None, product: Callable[..., Tensor], products: int,
    asymmetric: bool,
) -> Tensor:  # fmt: skip
    """Multiplies floats by integer weights: each example is quantised by its own range to 8 bits
    (`PortableAsymmetricQuantizeFloats` and `PortableSymmetricQuantizeFloats` in
    `lite/kernels/internal/reference/portable_tensor_utils.cc`)."""
    rows = x.reshape(-1, x.shape[-1]) if node.op == "FULLY_CONNECTED" else x.reshape(x.shape[0], -1)
    integers, scale, zero = (_asymmetric if asymmetric else _symmetric)(rows)
    moved = (integers - zero).reshape(x.shape)
    dtype = _exact(products, integers.to(torch.int8))
    total = torch.round(product(moved.to(dtype), node.centred(1, weight).to(dtype))).to(torch.float32)
    quantisation = node.operand(1).quantisation
    assert quantisation is not None, "integers that are multiplied have a scale"
    scales = torch.tensor(quantisation.scales)
    if node.op == "FULLY_CONNECTED":
        scale = scale.reshape([*x.shape[:-1], 1]) if total.dim() == x.dim() else scale
    else:
        scale = scale.reshape([-1] + [1] * (total.dim() - 1))
    sums = total * scale * (scales if scales.numel() > 1 else scales.reshape(()))
    return sums if bias is None else sums + bias


def _symmetric(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Quantises each row by its largest magnitude. Returns integers (int32), scale and zero point by row."""
    scale = rows.abs().amax(1, keepdim=True) / 127
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    integers = torch.clamp(torch.round(rows / scale), -127, 127).to(torch.int32)
    return integers, scale, torch.zeros_like(scale, dtype=torch.int32)


def _asymmetric(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Quantises each row by its smallest and largest value. Returns integers (int32), scale and zero point by row."""
    low = torch.clamp(rows.amin(1, keepdim=True), max=0.0).to(torch.float64)
    high = torch.clamp(rows.amax(1, keepdim=True), min=0.0).to(torch.float64)
    scale = (high - low) / 255
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    from_low, from_high = -128 - low / scale, 127 - high / scale
    nearer = 128 + (low / scale).abs() < 127 + (high / scale).abs()
    zero = torch.clamp(torch.round(torch.where(nearer, from_low, from_high)), -128, 127)
    single = scale.to(torch.float32)
    integers = torch.clamp(torch.round(zero.to(torch.float32) + rows / single), -128, 127)
    return integers.to(torch.int32), single, zero.to(torch.int32)


def _convolved(
    node: TfliteNode, strides: Sequence[int], dilations: Sequence[int], groups: int
) -> Callable[..., Tensor]:
    def run(x: Tensor, weight: Tensor) -> Tensor:
        first = _channels_first(x)
        pads = _pads(node, first.shape[2:], weight.shape[2:], strides, dilations)
        first = F.pad(first, pads) if any(pads) else first
        return _channels_last(F.conv2d(first, weight, None, strides, 0, dilations, groups))

    return run


@translates("CONV_2D")
def conv_2d(node: TfliteNode, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    node.only(x.dim() == 4, f"of {x.dim()} dimensions")
    strides, dilations = _strides(node), _dilations(node)
    run = _convolved(node, strides, dilations, x.shape[3] // weight.shape[3])

    def product(x: Tensor, weight: Tensor) -> Tensor:
        return run(x, weight.permute(0, 3, 1, 2))

    # LiteRT's kernel of floats with one scale for all weights is its older one, without a zero point.
    quantisation = node.operand(1).quantisation
    by_channel = quantisation is not None and len(quantisation.scales) > 1
    return _contraction(node, x, weight, bias, product, math.prod(weight.shape[1:]), by_channel)


@translates("DEPTHWISE_CONV_2D")
def depthwise_conv_2d(node: TfliteNode, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    strides, dilations = _strides(node), _dilations(node)
    run = _convolved(node, strides, dilations, x.shape[3])

    def product(x: Tensor, weight: Tensor) -> Tensor:
        return run(x, weight.permute(3, 0, 1, 2))

    return _contraction(node, x, weight, bias, product, math.prod(weight.shape[1:3]), True)


@translates("TRANSPOSE_CONV", structural=(0,))
def transpose_conv(node: TfliteNode, _: None, weight: Tensor, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes all that the strides give, and cuts it to the size that is asked for."""
    sizes, strides = node.known(0)[1:3], _strides(node)
    before = _pads(node, sizes, weight.shape[1:3], strides, [1, 1])[::-1][1::2]

    def product(x: Tensor, weight: Tensor) -> Tensor:
        whole = F.conv_transpose2d(_channels_first(x), weight.permute(3, 0, 1, 2), None, strides)
        missing = [max(0, low + size - have) for low, size, have in zip(before, sizes, whole.shape[2:], strict=True)]
        whole = F.pad(whole, [0, missing[1], 0, missing[0]]) if any(missing) else whole
        for axis, (low, size) in enumerate(zip(before, sizes, strict=True)):
            whole = whole.narrow(axis + 2, low, size)
        return _channels_last(whole)

    node.only(x.is_floating_point() == weight.is_floating_point(), "of floats with integer weights")
    return _contraction(node, x, weight, bias, product, math.prod(weight.shape[1:]), True, place=2)


@translates("FULLY_CONNECTED")
def fully_connected(node: TfliteNode, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    node.only(node.option("WeightsFormat") == 0, "with shuffled weights")
    rows = x if node.option("KeepNumDims") else x.reshape(-1, weight.shape[1])

    def product(x: Tensor, weight: Tensor) -> Tensor:
        return torch.matmul(x, weight.t())

    asymmetric = bool(node.option("AsymmetricQuantizeInputs"))
    return _contraction(node, rows, weight, bias, product, weight.shape[1], asymmetric)


@translates("BATCH_MATMUL")
def batch_matmul(node: TfliteNode, a: Tensor, b: Tensor) -> Tensor:
    node.only(a.is_floating_point() == b.is_floating_point(), "of floats with integers")
    left, right = a.mT if node.option("AdjX") else a, b.mT if node.option("AdjY") else b
    if a.is_floating_point():
        return torch.matmul(left, right)
    left, right = node.centred(0, left), node.centred(1, right)
    node.only(node.is_quantised, "of integers whose result has no scale")
    dtype = _exact(left.shape[-1], a)
    total = torch.matmul(left.to(dtype), right.to(dtype)).to(torch.int32 if a.dtype.itemsize == 1 else torch.int64)
    return node.rescaled(total, node.factor(0, 1))


def _pooled(node: TfliteNode, x: Tensor) -> tuple[list[int], list[int], list[int]]:
    kernel, strides = [node.option("FilterHeight"), node.option("FilterWidth")], _strides(node)
    return kernel, strides, _pads(node, x.shape[1:3], kernel, strides, [1, 1])


@translates("MAX_POOL_2D")
@moving
def max_pool_2d(node: TfliteNode, x: Tensor) -> Tensor:
    kernel, strides, pads = _pooled(node, x)
    floats = _channels_first(x if x.is_floating_point() else x.to(torch.float32))
    floats = F.pad(floats, pads, value=-math.inf) if any(pads) else floats
    return node.activated(_channels_last(F.max_pool2d(floats, kernel, strides)).to(x.dtype))


@translates("AVERAGE_POOL_2D")
def average_pool_2d(node: TfliteNode, x: Tensor) -> Tensor:
    """Averages what lies inside the picture."""
    kernel, strides, pads = _pooled(node, x)
    wide = _channels_first(x if x.is_floating_point() else node.centred(0, x).to(torch.float32))
    if any(pads):
        share = F.avg_pool2d(F.pad(torch.ones_like(wide[:1, :1]), pads), kernel, strides)
        means = F.avg_pool2d(F.pad(wide, pads), kernel, strides) / share
    else:
        means = F.avg_pool2d(wide, kernel, strides)
    means = _channels_last(means)
    if not x.is_floating_point():
        node.only(node.is_quantised and alike(node.operand(0), node.outputs[0]), "that changes the scale")
        return node.rescaled(means, torch.tensor(1.0))
    return node.activated(means)


def _times(x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else x * factor


translates("LOG_SOFTMAX")(by_values(lambda _, x: F.log_softmax(x, -1)))
translates("SOFTMAX")(by_values(lambda node, x: F.softmax(_times(x, node.option("Beta")), -1)))


@translates("L2_NORMALIZATION")
def l2_normalization(node: TfliteNode, x: Tensor) -> Tensor:
    return by_values(lambda _, v: v / torch.sqrt(torch.clamp(v.square().sum(-1, keepdim=True), min=1e-12)))(node, x)


def _source_places(size: int, wanted: int, align: bool, half: bool) -> Tensor:
    """Returns where each element of a resized axis lies on the operand's axis, float64."""
    if align and wanted > 1:
        return torch.arange(wanted, dtype=torch.float64) * ((size - 1) / (wanted - 1))
    places = torch.arange(wanted, dtype=torch.float64)
    return (places + 0.5) * (size / wanted) - 0.5 if half else places * (size / wanted)


@translates("RESIZE_NEAREST_NEIGHBOR", structural=(1,))
@moving
def resize_nearest(node: TfliteNode, x: Tensor, _: None = None) -> Tensor:
    align, half = node.option("AlignCorners"), node.option("HalfPixelCenters")
    for axis, wanted in enumerate(node.known(1), 1):
        size = x.shape[axis]
        places = _source_places(size, wanted, align, half)
        nearest = torch.floor(places + 0.5) if align or half else torch.floor(places)
        x = torch.index_select(x, axis, torch.clamp(nearest, 0, size - 1).to(torch.int64))
    return x


def _resized(node: TfliteNode, x: Tensor, _: None = None) -> Tensor:
    align, half = node.option("AlignCorners"), node.option("HalfPixelCenters")
    if half and not align:
        wide = F.interpolate(_channels_first(x), node.known(1), mode="bilinear", align_corners=False)
        return _channels_last(wide)
    for axis, wanted in enumerate(node.known(1), 1):
        size = x.shape[axis]
        places = torch.clamp(_source_places(size, wanted, align, half), min=0)
        low = torch.clamp(torch.floor(places), max=size - 1)
        share = (places - low).to(torch.float32).reshape([-1 if i == axis else 1 for i in range(4)])
        parts = [torch.index_select(x, axis, torch.clamp(low + i, max=size - 1).to(torch.int64)) for i in (0, 1)]
        x = parts[0] * (1 - share) + parts[1] * share
    return x


translates("RESIZE_BILINEAR", structural=(1,))(by_values(_resized))
