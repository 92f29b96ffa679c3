"""Translates operators on quantised tensors, of ONNX and of `com.microsoft`: the graph holds the integers.

Sums of products are computed exactly in integers, or in floats that hold them. A result is quantised again as ONNX
defines `QuantizeLinear`: divided by its scale in float32, rounded half to even, moved by its zero point, saturated.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# (PyTorch's functions and the shapes of tensors are partly untyped)

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional as F

from mindgap.onnx_files.attention import packed_attention
from mindgap.onnx_files.layers import average_pool, conv
from mindgap.onnx_files.node import OnnxNode, translates
from mindgap.onnx_files.pointwise import dequantize, dynamic_quantize, quantize
from mindgap.sources.translated_model import Untranslated

Tensor = torch.Tensor

#: A sum of products of 8-bit integers that float32 holds: 2^24 / 255^2 products.
_PRODUCTS: Final = 258


def _wide(x: Tensor, zero: Tensor | None, axis: int | None = None) -> Tensor:
    """Returns integers of 32 bits without their zero point. `axis`: the one that zero points are for."""
    if zero is None:
        return x.to(torch.int32)
    if axis is not None and zero.numel() > 1:
        zero = zero.reshape([-1 if i == axis % x.dim() else 1 for i in range(x.dim())])
    elif zero.numel() == 1:
        zero = zero.reshape(())
    return x.to(torch.int32) - zero.to(torch.int32)


def _real(x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    """Dequantises a whole tensor."""
    return _wide(x, zero).to(torch.float32) * scale.reshape(())


def _requantised(x: Tensor, scale: Tensor, zero: Tensor | None, like: torch.dtype = torch.uint8) -> Tensor:
    """Quantises float32."""
    kind = like if zero is None else zero.dtype
    moved = torch.round(x / scale.reshape(())) + (0 if zero is None else zero.reshape(()).to(torch.float32))
    limits = torch.iinfo(kind)
    return torch.clamp(moved, limits.min, limits.max).to(kind)


def _rescaled(total: Tensor, factor: Tensor, zero: Tensor) -> Tensor:
    """Quantises a sum of products. `factor`: of both operands' scales over that of the result."""
    limits = torch.iinfo(zero.dtype)
    moved = torch.round(total.to(torch.float32) * factor) + zero.reshape(()).to(torch.float32)
    return torch.clamp(moved, limits.min, limits.max).to(zero.dtype)


def _conv_sum(node: OnnxNode, x: Tensor, weight: Tensor) -> Tensor:
    """Convolves integers of 32 bits in the narrowest float that holds each sum."""
    products = math.prod(weight.shape[1:])
    dtype = torch.float32 if products <= _PRODUCTS else torch.float64
    # Rounded, because some algorithms for convolutions compute with fractions.
    return torch.round(conv(node, x.to(dtype), weight.to(dtype))).to(torch.int32)


@translates("ConvInteger")
def conv_integer(node: OnnxNode, x: Tensor, w: Tensor, xz: Tensor | None = None, wz: Tensor | None = None) -> Tensor:
    return _conv_sum(node, _wide(x, xz), _wide(w, wz, 0))


@translates("QLinearConv", "com.microsoft.QLinearConv")
def qlinear_conv(
    node: OnnxNode, x: Tensor, xs: Tensor, xz: Tensor, w: Tensor, ws: Tensor, wz: Tensor, ys: Tensor, yz: Tensor,
    bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    node.only(not node.get("channels_last", 0), "with channels last")
    total = _conv_sum(node, _wide(x, xz), _wide(w, wz, 0))
    per_channel = [1, -1] + [1] * (x.dim() - 2)
    if bias is not None:
        total = total + bias.reshape(per_channel)
    factor = xs.reshape(()) * ws / ys.reshape(())
    return _rescaled(total, factor.reshape(per_channel) if factor.numel() > 1 else factor.reshape(()), yz)


@translates("QLinearMatMul")
def qlinear_matmul(
    node: OnnxNode, a: Tensor, as_: Tensor, az: Tensor, b: Tensor, bs: Tensor, bz: Tensor, ys: Tensor, yz: Tensor
) -> Tensor:
    node.only(as_.numel() == az.numel() == 1, "with a scale for each row")
    total = torch.matmul(_wide(a, az), _wide(b, bz, -1))
    factor = (as_.reshape(()) * bs / ys.reshape(())).to(torch.float32)
    return _rescaled(total, factor.reshape(()) if factor.numel() == 1 else factor.reshape(-1), yz)


@translates("com.microsoft.QGemm")
def qgemm(
    node: OnnxNode, a: Tensor, as_: Tensor, az: Tensor, b: Tensor, bs: Tensor, bz: Tensor, c: Tensor | None = None,
    ys: Tensor | None = None, yz: Tensor | None = None,
) -> Tensor:  # fmt: skip
    left = _wide(a.t() if node.get("transA", 0) else a, az)
    right = _wide(b.t() if node.get("transB", 0) else b, bz, -1)
    total = torch.matmul(left, right)
    if c is not None:
        total = total + c
    factor = as_.reshape(()) * bs.reshape(-1) * node.get("alpha", 1.0)
    if ys is None or yz is None:
        return total.to(torch.float32) * factor
    return _rescaled(total, factor / ys.reshape(()), yz)


@translates("com.microsoft.MatMulIntegerToFloat")
def matmul_integer_to_float(
    _: OnnxNode, a: Tensor, b: Tensor, as_: Tensor, bs: Tensor, az: Tensor | None = None, bz: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    total = torch.matmul(_wide(a, az), _wide(b, bz, -1)).to(torch.float32)
    result = total * (as_ * bs)
    return result if bias is None else result + bias


@translates("com.microsoft.DynamicQuantizeMatMul")
def dynamic_quantize_matmul(
    node: OnnxNode, a: Tensor, b: Tensor, bs: Tensor, bz: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    quantised, scale, zero = dynamic_quantize(node, a)
    return matmul_integer_to_float(node, quantised, b, scale, bs, zero, bz, bias)


translates("com.microsoft.QuantizeLinear")(quantize)
translates("com.microsoft.DequantizeLinear")(dequantize)


@translates("com.microsoft.QLinearAdd")
def qlinear_add(
    _: OnnxNode, a: Tensor, as_: Tensor, az: Tensor | None, b: Tensor, bs: Tensor, bz: Tensor | None, ys: Tensor,
    yz: Tensor | None = None,
) -> Tensor:  # fmt: skip
    return _requantised(_real(a, as_, az) + _real(b, bs, bz), ys, yz, a.dtype)


@translates("com.microsoft.QLinearMul")
def qlinear_mul(
    _: OnnxNode, a: Tensor, as_: Tensor, az: Tensor | None, b: Tensor, bs: Tensor, bz: Tensor | None, ys: Tensor,
    yz: Tensor | None = None,
) -> Tensor:  # fmt: skip
    return _requantised(_real(a, as_, az) * _real(b, bs, bz), ys, yz, a.dtype)


@translates("com.microsoft.QLinearWhere")
def qlinear_where(
    _: OnnxNode, condition: Tensor, a: Tensor, as_: Tensor, az: Tensor, b: Tensor, bs: Tensor, bz: Tensor, ys: Tensor,
    yz: Tensor,
) -> Tensor:  # fmt: skip
    return _requantised(torch.where(condition, _real(a, as_, az), _real(b, bs, bz)), ys, yz)


@translates("com.microsoft.QAttention")
def qattention(
    node: OnnxNode, x: Tensor, w: Tensor, bias: Tensor, xs: Tensor, ws: Tensor, mask: Tensor | None = None,
    xz: Tensor | None = None, wz: Tensor | None = None, past: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    qkv = matmul_integer_to_float(node, x, w, xs, ws, xz, wz, bias)
    return packed_attention(node, qkv, mask, past)


@translates("com.microsoft.QLinearSigmoid")
def qlinear_sigmoid(
    _: OnnxNode, x: Tensor, xs: Tensor, xz: Tensor | None, ys: Tensor, yz: Tensor | None = None
) -> Tensor:
    return _requantised(torch.sigmoid(_real(x, xs, xz)), ys, yz, x.dtype)


@translates("com.microsoft.QLinearLeakyRelu")
def qlinear_leaky_relu(
    node: OnnxNode, x: Tensor, xs: Tensor, xz: Tensor | None, ys: Tensor, yz: Tensor | None = None
) -> Tensor:
    return _requantised(F.leaky_relu(_real(x, xs, xz), node.get("alpha", 0.01)), ys, yz, x.dtype)


@translates("com.microsoft.QLinearSoftmax")
def qlinear_softmax(
    node: OnnxNode, x: Tensor, xs: Tensor, xz: Tensor | None, ys: Tensor, yz: Tensor | None = None
) -> Tensor:
    node.only(node.get("opset", 13) >= 13, "of before operator set 13")
    return _requantised(F.softmax(_real(x, xs, xz), node.get("axis", -1)), ys, yz, x.dtype)


@translates("com.microsoft.QLinearAveragePool")
def qlinear_average_pool(
    node: OnnxNode, x: Tensor, xs: Tensor, xz: Tensor | None, ys: Tensor, yz: Tensor | None = None
) -> Tensor:
    node.only(not node.get("channels_last", 0), "with channels last")
    return _requantised(average_pool(node, _real(x, xs, xz)), ys, yz, x.dtype)


@translates("com.microsoft.QLinearGlobalAveragePool")
def qlinear_global_average_pool(
    node: OnnxNode, x: Tensor, xs: Tensor, xz: Tensor | None, ys: Tensor, yz: Tensor | None = None
) -> Tensor:
    node.only(not node.get("channels_last", 0), "with channels last")
    means = _real(x, xs, xz).mean(list(range(2, x.dim())), keepdim=True)
    return _requantised(means, ys, yz, x.dtype)


@translates("com.microsoft.QLinearConcat")
def qlinear_concat(node: OnnxNode, ys: Tensor, yz: Tensor, *given: Tensor) -> Tensor:
    parts = [_real(x, scale, zero) for x, scale, zero in zip(given[::3], given[1::3], given[2::3], strict=True)]
    return _requantised(torch.cat(parts, node.get("axis")), ys, yz)


def _unpacked(packed: Any, bits: int, shape: tuple[int, ...]) -> Tensor:
    """Returns the unsigned integers of `bits` bits in bytes of this shape, the lowest bits first. They are unpacked
    before the program runs: the graph holds each integer in a byte."""
    if bits not in (2, 4, 8):
        raise Untranslated(f"integers of {bits} bits")
    rows = np.asarray(packed).view(np.uint8).reshape(shape)
    parts = [(rows >> low) & (2**bits - 1) for low in range(0, 8, bits)]
    return torch.tensor(np.stack(parts, -1).reshape(*shape[:-1], -1))


@translates("com.microsoft.MatMulNBits", structural=(1, 3))
def matmul_n_bits(
    node: OnnxNode, a: Tensor, _: None, scales: Tensor, __: None = None, groups: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Multiplies by the transpose of weights of few bits, with a scale for each block of a row."""
    node.only(groups is None, "with groups in another order")
    depth, width, bits, block = node.get("K"), node.get("N"), node.get("bits", 4), node.get("block_size")
    count, zeros = math.ceil(depth / block), node.known(3)
    whole = _unpacked(node.known(1), bits, (width, count, block * bits // 8)).to(a.dtype)
    if zeros is None:
        offset: Any = float(2 ** (bits - 1))
    elif zeros.dtype.kind == "f":
        offset = torch.tensor(zeros).reshape(width, count, 1)
    else:
        offset = _unpacked(zeros, bits, (width, math.ceil(count * bits / 8)))[:, :count].unsqueeze(-1).to(a.dtype)
    weights = ((whole - offset) * scales.reshape(width, count, 1)).reshape(width, -1)[:, :depth]
    return F.linear(a, weights, bias)


#: The sixteen values of four bits, by `quant_type`: FP4 (a sign, two bits of exponent, one of mantissa, over
#: 12) and NF4 (quantiles of the normal distribution: Dettmers et al. 2023, "QLoRA", appendix E), as `fp4_qaunt_map` and
#: `nf4_qaunt_map` in contrib_ops/cpu/quantization/blockwise_quant_block_bnb4.h of ONNX Runtime list them.
_BNB4: Final[tuple[tuple[float, ...], ...]] = (
    (0.0, 0.0052083333, 0.6666667, 1.0, 0.33333334, 0.5, 0.16666667, 0.25,
     -0.0, -0.0052083333, -0.6666667, -1.0, -0.33333334, -0.5, -0.16666667, -0.25),
    (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
     -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
     0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
)  # fmt: skip


@translates("com.microsoft.MatMulBnb4", structural=(1,))
def matmul_bnb4(node: OnnxNode, a: Tensor, _: None, largest: Tensor) -> Tensor:
    """Multiplies by the transpose of weights [N, K] of four bits, which stand for values of a table. Blocks run on
    from row to row; each has its largest magnitude. Of a byte the high bits are the first."""
    kind, depth, width, block = (node.get(name) for name in ("quant_type", "K", "N", "block_size"))
    node.only(kind in (0, 1), f"of quant_type {kind}")
    node.only(bool(node.get("transB", 1)), "by weights that are not transposed")
    packed: Any = node.known(1)
    count = depth * width
    bits = _unpacked(packed, 4, (packed.size, 1)).flip(-1).reshape(-1)[:count]
    values = torch.tensor(_BNB4[kind], dtype=a.dtype)[bits.to(torch.int64)]
    factors = largest.repeat_interleave(block)[:count]
    return F.linear(a, (values * factors).reshape(width, depth))


@translates("com.microsoft.GatherBlockQuantized", structural=(0, 3))
def gather_block_quantized(node: OnnxNode, _: None, index: Tensor, scales: Tensor, __: None = None) -> Tensor:
    """Takes rows of an embedding of few bits."""
    data, zeros = node.known(0), node.known(3)
    assert data is not None, "the schema demands it"
    node.only(node.get("gather_axis", 0) == 0, "along an axis other than the first")
    axis, block, bits = node.get("quantize_axis", 1) % data.ndim, node.get("block_size", 128), node.get("bits", 4)
    node.only(axis == data.ndim - 1 and data.dtype == np.uint8, "in another layout")
    whole = _unpacked(data, bits, data.shape)
    if zeros is None:
        moved: Tensor = whole.to(scales.dtype) - float(2 ** (bits - 1))
    else:
        offset = _unpacked(zeros, bits, zeros.shape).to(scales.dtype).repeat_interleave(block, axis)
        moved = whole.to(scales.dtype) - offset[..., : whole.shape[-1]]
    table = moved * scales.repeat_interleave(block, axis)[..., : whole.shape[-1]]
    rows = torch.index_select(table, 0, index.reshape(-1).to(torch.int64))
    return rows.reshape([*index.shape, *rows.shape[1:]])
