"""Translates ONNX operators that work element by element."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# (PyTorch's functions and the shapes of tensors are partly untyped)

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional as F

from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.onnx_files.node import OnnxNode, directly, translates
from mindgap.sources.translated_model import Untranslated

Tensor = torch.Tensor

directly(
    {
        "Abs": torch.abs, "Acos": torch.acos, "Acosh": torch.acosh, "And": torch.logical_and, "Asin": torch.asin,
        "Asinh": torch.asinh, "Atan": torch.atan, "Atanh": torch.atanh, "BitwiseAnd": torch.bitwise_and,
        "BitwiseOr": torch.bitwise_or, "BitwiseXor": torch.bitwise_xor,
        "Ceil": torch.ceil, "Cos": torch.cos, "Cosh": torch.cosh, "Equal": torch.eq, "Erf": torch.erf,
        "Exp": torch.exp, "Floor": torch.floor,
        "HardSwish": F.hardswish, "Identity": torch.clone, "IsNaN": torch.isnan,
        "Log": torch.log, "Mish": F.mish, "Neg": torch.neg,
        "Not": torch.logical_not, "Or": torch.logical_or, "Reciprocal": torch.reciprocal, "Relu": torch.relu,
        "Round": torch.round, "Sigmoid": torch.sigmoid, "Sign": torch.sign, "Sin": torch.sin, "Sinh": torch.sinh,
        "Softplus": F.softplus, "Softsign": F.softsign, "Sqrt": torch.sqrt, "Tan": torch.tan,
        "Tanh": torch.tanh, "Where": torch.where, "Xor": torch.logical_xor, "Det": torch.linalg.det,
    }
)  # fmt: skip

#: Unsigned integers that PyTorch stores and does not compute with.
_UNSIGNED: Final = (torch.uint16, torch.uint32, torch.uint64)


def _widened(function: Callable[..., Tensor], exact: bool = False) -> Callable[..., Tensor]:
    """Computes unsigned integers of more than 8 bits in int64, and returns their dtype where the result is an integer.

    `exact`: results modulo 2^64 are those of uint64 too. Other functions get uint64 with its highest bit flipped, which
    keeps the order.
    """

    def translate(*operands: Tensor) -> Tensor:
        kind = operands[0].dtype
        if kind not in _UNSIGNED:
            return function(*operands)
        if kind != torch.uint64 or exact:
            result = function(*[each.to(torch.int64) for each in operands])
            return result if result.dtype == torch.bool else result.to(kind)
        lowest = torch.tensor(torch.iinfo(torch.int64).min)
        result = function(*[each.view(torch.int64) ^ lowest for each in operands])
        return result if result.dtype == torch.bool else (result ^ lowest).view(kind)

    return translate


directly(
    {
        "Add": _widened(torch.add, exact=True), "Sub": _widened(torch.sub, exact=True),
        "Mul": _widened(torch.mul, exact=True), "BitwiseNot": _widened(torch.bitwise_not, exact=True),
        "Greater": _widened(torch.gt), "GreaterOrEqual": _widened(torch.ge), "Less": _widened(torch.lt),
        "LessOrEqual": _widened(torch.le),
    }
)  # fmt: skip


def _below_64_bits(node: OnnxNode, a: Tensor, function: Callable[..., Tensor], b: Tensor) -> Tensor:
    """Computes unsigned integers of 16 and 32 bits in int64."""
    if a.dtype not in _UNSIGNED:
        return function(a, b)
    node.only(a.dtype != torch.uint64, "of uint64")
    return function(a.to(torch.int64), b.to(torch.int64)).to(a.dtype)


#: ONNX's numbers for element types that graphs hold.
ELEMENT_TYPES: Final = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8_e4m3fn",
    18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz",
}  # fmt: skip


def element_type(number: int) -> torch.dtype:
    """Returns the dtype of an ONNX element type. Raises `Untranslated` for one that graphs do not hold."""
    if number not in ELEMENT_TYPES:
        raise Untranslated(f"element type {number} is none that graphs hold")
    return TORCH_DTYPES[ELEMENT_TYPES[number]]


#: Numbers up to this one round to the largest of float8_e4m3fn, 448: the tie with 480, which is no number there.
_E4M3FN_ROUNDS: Final = 464.0


@translates("Cast")
def cast(node: OnnxNode, x: Tensor) -> Tensor:
    return _cast(x, element_type(node.get("to")), bool(node.get("saturate", 1)))


@translates("CastLike")
def cast_like(node: OnnxNode, x: Tensor, like: Tensor) -> Tensor:
    return _cast(x, like.dtype, bool(node.get("saturate", 1)))


def _cast(x: Tensor, dtype: torch.dtype, saturate: bool) -> Tensor:
    """Converts. Without `saturate`, what float8_e4m3fn does not hold is NaN (ONNX's table of Cast); PyTorch's own
    conversion on the CPU gives the largest number."""
    if not saturate and dtype == torch.float8_e4m3fn and x.dtype != dtype:
        return torch.where(x.abs() > _E4M3FN_ROUNDS, torch.nan, x).to(dtype)
    if saturate and dtype.is_floating_point and dtype.itemsize == 1 and x.dtype != dtype:
        largest = torch.finfo(dtype).max
        return torch.clamp(x, -largest, largest).to(dtype)
    return x.clone() if x.dtype == dtype else x.to(dtype)


@translates("BitCast")
def bit_cast(node: OnnxNode, x: Tensor) -> Tensor:
    return x.view(element_type(node.get("to"))).clone()


@translates("Div")
def div(node: OnnxNode, a: Tensor, b: Tensor) -> Tensor:
    if a.is_floating_point():
        return torch.div(a, b)
    return _below_64_bits(node, a, functools.partial(torch.div, rounding_mode="trunc"), b)


@translates("Mod")
def mod(node: OnnxNode, a: Tensor, b: Tensor) -> Tensor:
    return _below_64_bits(node, a, torch.fmod if node.get("fmod", 0) else torch.remainder, b)


@translates("Pow")
def power(_: OnnxNode, a: Tensor, b: Tensor) -> Tensor:
    return torch.pow(a, b).to(a.dtype)


@translates("BitShift")
def bit_shift(node: OnnxNode, a: Tensor, b: Tensor) -> Tensor:
    left = node.get("direction") == b"LEFT"
    return _below_64_bits(node, a, torch.bitwise_left_shift if left else torch.bitwise_right_shift, b)


def _folded(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def translate(_: OnnxNode, first: Tensor, *others: Tensor) -> Tensor:
        return functools.reduce(function, others, first) if others else first.clone()

    return translate


translates("Max")(_folded(_widened(torch.maximum)))
translates("Min")(_folded(_widened(torch.minimum)))
translates("Sum")(_folded(torch.add))


@translates("Mean")
def mean(_: OnnxNode, *operands: Tensor) -> Tensor:
    return functools.reduce(torch.add, operands) / len(operands)


@translates("Clip")
def clip(node: OnnxNode, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    least, most = node.get("min"), node.get("max")
    if least is not None or most is not None:
        return torch.clamp(x, least, most)
    return x.clone() if low is None and high is None else torch.clamp(x, low, high)


@translates("LeakyRelu")
def leaky_relu(node: OnnxNode, x: Tensor) -> Tensor:
    return F.leaky_relu(x, node.get("alpha", 0.01))


@translates("PRelu")
def prelu(_: OnnxNode, x: Tensor, slope: Tensor) -> Tensor:
    return torch.where(x < 0, x * slope, x)


@translates("Elu")
def elu(node: OnnxNode, x: Tensor) -> Tensor:
    return F.elu(x, node.get("alpha", 1.0))


@translates("Celu")
def celu(node: OnnxNode, x: Tensor) -> Tensor:
    return F.celu(x, node.get("alpha", 1.0))


@translates("Selu")
def selu(node: OnnxNode, x: Tensor) -> Tensor:
    alpha, gamma = node.get("alpha"), node.get("gamma")
    if alpha is None and gamma is None:
        return F.selu(x)
    return F.elu(x, 1.67326319217681884765625 if alpha is None else alpha) * (
        1.05070102214813232421875 if gamma is None else gamma
    )


@translates("HardSigmoid")
def hard_sigmoid(node: OnnxNode, x: Tensor) -> Tensor:
    return torch.clamp(x * node.get("alpha", 0.2) + node.get("beta", 0.5), 0.0, 1.0)


@translates("ThresholdedRelu")
def thresholded_relu(node: OnnxNode, x: Tensor) -> Tensor:
    return F.threshold(x, node.get("alpha", 1.0), 0.0)


@translates("Shrink")
def shrink(node: OnnxNode, x: Tensor) -> Tensor:
    edge, bias = node.get("lambd", 0.5), node.get("bias", 0.0)
    if bias == 0.0:
        return F.hardshrink(x, edge)
    return torch.where(x < -edge, x + bias, torch.where(x > edge, x - bias, torch.zeros_like(x)))


@translates("Gelu")
def gelu(node: OnnxNode, x: Tensor) -> Tensor:
    return F.gelu(x, approximate=node.get("approximate", b"none").decode())


@translates("Swish")
def swish(node: OnnxNode, x: Tensor) -> Tensor:
    alpha = node.get("alpha", 1.0)
    return F.silu(x) if alpha == 1.0 else x * torch.sigmoid(x * alpha)


@translates("IsInf")
def is_inf(node: OnnxNode, x: Tensor) -> Tensor:
    negative, positive = node.get("detect_negative", 1), node.get("detect_positive", 1)
    if negative and positive:
        return torch.isinf(x)
    return torch.isneginf(x) if negative else torch.isposinf(x) if positive else torch.zeros_like(x, dtype=torch.bool)


def _zero_points(x: Tensor, scale: Tensor, zero: Tensor | None, axis: int, block: int) -> tuple[Tensor, Any]:
    """Returns scale and zero point in the shape of `x`'s axis, or of its blocks along it."""
    if scale.dim() == 0 or (scale.numel() == 1 and scale.dim() == 1):
        return scale.reshape(()), 0 if zero is None else zero.reshape(())
    if block:
        repeated = [
            t if t is None else t.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis]) for t in (scale, zero)
        ]
        return repeated[0], 0 if zero is None else repeated[1]  # pyright: ignore[reportReturnType] # the scale is there
    shape = [1] * x.dim()
    shape[axis] = -1
    return scale.reshape(shape), 0 if zero is None else zero.reshape(shape)


@translates("QuantizeLinear")
def quantize(node: OnnxNode, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    kind = zero.dtype if zero is not None else element_type(node.get("output_dtype", 2) or 2)
    s, z = _zero_points(x, scale, zero, node.get("axis", 1), node.get("block_size", 0))
    if kind.is_floating_point:
        return _cast(x / s, kind, bool(node.get("saturate", 1)))
    whole = torch.round(x / s) + (z.to(x.dtype) if isinstance(z, Tensor) else z)
    limits = np.iinfo(str(kind).removeprefix("torch."))
    return torch.clamp(whole, int(limits.min), int(limits.max)).to(kind)


@translates("DequantizeLinear")
def dequantize(node: OnnxNode, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    s, z = _zero_points(x, scale, zero, node.get("axis", 1), node.get("block_size", 0))
    wide = torch.float32 if x.dtype.is_floating_point else torch.int32
    moved = x.to(wide) - (z.to(wide) if isinstance(z, Tensor) else z)
    return moved.to(scale.dtype) * s


@translates("DynamicQuantizeLinear")
def dynamic_quantize(_: OnnxNode, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    low, high = torch.clamp(x.min(), max=0.0), torch.clamp(x.max(), min=0.0)
    scale = (high - low) / 255
    zero = torch.clamp(torch.round(-low / scale), 0, 255)
    return torch.clamp(torch.round(x / scale) + zero, 0, 255).to(torch.uint8), scale, zero.to(torch.uint8)
