"""Defines the operators of quantised modules on plain tensors: integers, a scale and a zero point.

A value q stands for (q - zero point) * scale. A real value x is quantised as clamp(round(x / scale) + zero point), half
to even (PyTorch's documentation of `torch.quantize_per_tensor`); `x / scale` is `x * (1 / scale)` in float32. Sums of
products are exact: in int32, or in floats that hold them. They are quantised again as FBGEMM does
(`fbgemm/OutputProcessing.h`): (sum + bias / (operand's scale * weight's scale)) times the product of these over the
result's scale, in float32.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# (PyTorch's functions on modules are partly untyped)

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional as F

from mindgap.aten.torch_private.overloads import OpOverload, OpOverloadPacket
from mindgap.graph_capture.errors import CaptureError
from mindgap.graph_capture.quantised_layers import EMBEDDINGS, RECURRENT

Tensor = torch.Tensor

#: The plain dtypes of quantised ones.
PLAIN: Final = {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32}
#: A sum of products of 8-bit integers that float32 holds: 2^24 / (255 * 128) products.
_PRODUCTS: Final = 514
#: Below this scale `choose_qparams` takes it in place of the scale (ATen/native/quantized/cpu/QuantUtils.h).
_SMALLEST_SCALE: Final = float(np.float32(6.1e-5))
#: A scale whose reciprocal is infinite in float32, 0 among them; 0.1 takes its place.
_RECIPROCAL_OVERFLOWS: Final = 2.9387359e-39


class PackedWeight(torch.nn.Module):
    """Integers of a layer's weight with its scale (one, or one for each output), zero point, bias, and how it is
    convolved."""

    weight: Tensor
    scale: Tensor
    zero_point: Tensor | None
    bias: Tensor | None

    def __init__(self, weight: Tensor, bias: Tensor | None, convolved: dict[str, Any] | None = None) -> None:
        super().__init__()
        per_channel = weight.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric)
        if not per_channel and weight.qscheme() not in (torch.per_tensor_affine, torch.per_tensor_symmetric):
            raise CaptureError(f"a weight quantised by {weight.qscheme()}, which has no definition here")
        scale = weight.q_per_channel_scales() if per_channel else torch.tensor(weight.q_scale())
        zero = weight.q_per_channel_zero_points() if per_channel else torch.tensor(weight.q_zero_point())
        self.register_buffer("weight", weight.int_repr())
        self.register_buffer("scale", scale.to(torch.float32))
        self.register_buffer("zero_point", zero.to(torch.int32) if bool(zero.any()) else None)
        self.register_buffer("bias", None if bias is None else bias.detach().clone())
        self.convolved = convolved
        if per_channel and weight.q_per_channel_axis() != 0:
            raise CaptureError("a weight quantised along another axis than its outputs, which has no definition here")

    def moved(self) -> Tensor:
        """Returns the weight without its zero point, int32."""
        wide = self.weight.to(torch.int32)
        if self.zero_point is None:
            return wide
        return wide - self.zero_point.reshape([-1] + [1] * (wide.dim() - 1))


@dataclass(frozen=True)
class Quantised:
    """Takes the place of a quantised tensor in the modules' code. PyTorch's functions find their definition by name."""

    values: Tensor
    scale: float
    zero: int

    is_quantized = True

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return call(func, args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "ndim", "device"):
            return getattr(self.values, name)
        if name in ("size", "dim", "numel"):
            return getattr(self.values, name)
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: defined(name)(self, *args, **kwargs)

    def __getitem__(self, index: Any) -> Quantised:
        return self.like(self.values[index])

    def like(self, values: Tensor) -> Quantised:
        """Returns other integers with the same scale and zero point."""
        return Quantised(values, self.scale, self.zero)

    def real(self) -> Tensor:
        """Returns the values that it stands for, float32."""
        return (self.values.to(torch.int32) - self.zero).to(torch.float32) * self.scale

    def moved(self) -> Tensor:
        """Returns the integers without their zero point, int32."""
        return self.values.to(torch.int32) - self.zero


def _single(value: float) -> float:
    return float(np.float32(value))


def quantised(x: Tensor, scale: Any, zero: Any, dtype: torch.dtype = torch.quint8) -> Quantised:
    """Quantises float32."""
    plain = PLAIN.get(dtype, dtype)
    limits = torch.iinfo(plain)
    inverse = float(np.float32(1) / np.float32(scale))
    whole = torch.round(x * inverse) + int(zero)
    return Quantised(torch.clamp(whole, limits.min, limits.max).to(plain), _single(scale), int(zero))


def _rescaled(
    total: Tensor, weight: PackedWeight, x: Quantised, scale: float, zero: int, axis: int, relu: bool
) -> Quantised:
    """Quantises sums of products. `axis`: that of the outputs."""
    shape = [-1 if i == axis % total.dim() else 1 for i in range(total.dim())]
    products = weight.scale * x.scale
    wide = total.to(torch.float32)
    if weight.bias is not None:
        wide = wide + (weight.bias / products).reshape(shape)
    multiplier = products / _single(scale)
    moved = torch.round(wide * (multiplier.reshape(shape) if multiplier.dim() else multiplier)) + zero
    limits = torch.iinfo(x.values.dtype)
    low = max(zero, limits.min) if relu else limits.min
    return Quantised(torch.clamp(moved, low, limits.max).to(x.values.dtype), _single(scale), zero)


def _linear(relu: bool) -> Callable[..., Quantised]:
    def run(x: Quantised, weight: PackedWeight, scale: float, zero: int) -> Quantised:
        total = torch.matmul(x.moved(), weight.moved().t())
        return _rescaled(total, weight, x, scale, zero, -1, relu)

    return run


def _conv(rank: int, relu: bool) -> Callable[..., Quantised]:
    def run(x: Quantised, weight: PackedWeight, scale: float, zero: int) -> Quantised:
        total = _convolved(getattr(F, f"conv{rank}d"), x.moved(), weight)
        return _rescaled(total, weight, x, scale, zero, 1, relu)

    return run


def _convolved(function: Callable[..., Tensor], x: Tensor, weight: PackedWeight) -> Tensor:
    """Convolves integers exactly: in float32 over as many channels at once as it holds the sums of, else in float64."""
    assert weight.convolved is not None, "a convolution's weight knows how it is convolved"
    each, channels = math.prod(weight.weight.shape[2:]), weight.weight.shape[1]
    at_once = _PRODUCTS // each
    if at_once >= channels or (weight.convolved["groups"] == 1 and at_once > 0):
        parts = zip(x.split(at_once, 1) if at_once < channels else [x], weight.moved().split(at_once, 1), strict=True)
        dtype = torch.float32
    else:
        parts, dtype = [(x, weight.moved())], torch.float64
    # Rounded, because some algorithms for convolutions compute with fractions.
    sums = [torch.round(function(a.to(dtype), b.to(dtype), None, **weight.convolved)).to(torch.int32) for a, b in parts]
    return functools.reduce(torch.add, sums)


def chosen_parameters(x: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Returns scale (float64) and zero point (int32) for integers from 0 to `most`, computed from the smallest and the
    largest value (`ChooseQuantizationParams` in ATen/native/quantized/cpu/QuantUtils.h)."""
    low = torch.clamp(x.min(), max=0.0).to(torch.float64)
    high = torch.clamp(x.max(), min=0.0).to(torch.float64)
    scale = (high - low) / most
    scale = torch.where(scale < _RECIPROCAL_OVERFLOWS, torch.full_like(scale, 0.1), scale)
    from_low, from_high = -low / scale, most - high / scale
    zero = torch.where(-from_low < from_high, from_low, from_high)
    zero = torch.clamp(torch.round(zero), 0, most).to(torch.int32)
    return torch.clamp(scale, min=_SMALLEST_SCALE), zero


def _linear_dynamic(relu: bool) -> Callable[..., Tensor]:
    def run(x: Tensor, weight: PackedWeight, reduce_range: bool = False) -> Tensor:
        """Quantises the operand by its range (to 7 bits if `reduce_range`), multiplies, and returns float32."""
        scale, zero = chosen_parameters(x, 127 if reduce_range else 255)
        single = scale.to(torch.float32)
        integers = torch.clamp(torch.round(x * torch.reciprocal(single) + zero), 0, 255).to(torch.uint8)
        total = torch.matmul(integers.to(torch.int32) - zero, weight.moved().t())
        result = total.to(torch.float32) * (single * weight.scale)
        result = result if weight.bias is None else result + weight.bias
        return torch.relu(result) if relu else result

    return run


def _requantised(function: Callable[..., Tensor], relu: bool = False) -> Callable[..., Quantised]:
    """Computes in float32 and quantises with the scale and zero point that the call gives."""

    def run(*operands: Any, **named: Any) -> Quantised:
        scale, zero_point = named.get("scale", named.get("output_scale")), None
        if scale is not None:
            zero_point = named.get("zero_point", named.get("output_zero_point"))
        else:
            *operands, scale, zero_point = operands  # pyright: ignore[reportAssignmentType] # a list from here on
        first = operands[0][0] if isinstance(operands[0], (list, tuple)) else operands[0]
        result = function(*[_real(each) for each in operands])
        return quantised(torch.relu(result) if relu else result, scale, zero_point, first.values.dtype)

    return run


def _real(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_real(each) for each in value]
    return value.real() if isinstance(value, Quantised) else value


def _product(relu: bool) -> Callable[..., Quantised]:
    def run(a: Quantised, b: Quantised, scale: float, zero_point: int) -> Quantised:
        factor = float(np.float32(a.scale) * np.float32(b.scale) / np.float32(scale))
        moved = torch.round((a.moved() * b.moved()).to(torch.float32) * factor) + zero_point
        limits = torch.iinfo(a.values.dtype)
        low = max(zero_point, limits.min) if relu else limits.min
        return Quantised(torch.clamp(moved, low, limits.max).to(a.values.dtype), _single(scale), zero_point)

    return run


def _moves(name: str) -> Callable[..., Any]:
    """Returns a function that selects or moves elements, by PyTorch's name."""

    def run(x: Quantised, *args: Any, **kwargs: Any) -> Any:
        function = getattr(F, name, None) or getattr(Tensor, name, None) or getattr(torch, name)
        result = function(x.values, *args, **kwargs)
        return x.like(result) if isinstance(result, Tensor) else [x.like(each) for each in result]

    return run


def _averaged(name: str) -> Callable[..., Quantised]:
    """Averages integers and rounds: the result has the operand's scale."""

    def run(x: Quantised, *args: Any, **kwargs: Any) -> Quantised:
        function = getattr(F, name, None) or getattr(torch, name)
        limits = torch.iinfo(x.values.dtype)
        whole = torch.round(function(x.moved().to(torch.float32), *args, **kwargs)) + x.zero
        return x.like(torch.clamp(whole, limits.min, limits.max).to(x.values.dtype))

    return run


def _clamped(x: Quantised, low: float | None, high: float | None) -> Quantised:
    """Clamps integers between the quantised bounds."""
    limits = torch.iinfo(x.values.dtype)
    bounds = [
        None if each is None else min(max(round(each / x.scale) + x.zero, limits.min), limits.max)
        for each in (low, high)
    ]
    return x.like(torch.clamp(x.values, *bounds))


def _fixed(function: Callable[[Tensor], Tensor], scale: float, zero: int) -> Callable[..., Quantised]:
    """Computes a function whose results have a fixed range. `zero`: of quint8; qint8 is 128 lower."""

    def run(x: Quantised, *_: Any, **__: Any) -> Quantised:
        lower = 128 if x.values.dtype == torch.int8 else 0
        return quantised(function(x.real()), scale, zero - lower, x.values.dtype)

    return run


def _cat(parts: Sequence[Quantised], dim: int = 0) -> Quantised:
    first = parts[0]
    if all((each.scale, each.zero) == (first.scale, first.zero) for each in parts):
        return first.like(torch.cat([each.values for each in parts], dim))
    return quantised(torch.cat([each.real() for each in parts], dim), first.scale, first.zero, first.values.dtype)


def _same(x: Quantised, *_: Any, **__: Any) -> Quantised:
    return x


_MOVES: Final = (
    "reshape", "view", "flatten", "permute", "transpose", "squeeze", "unsqueeze", "expand", "chunk", "split", "unbind",
    "narrow", "select", "max_pool1d", "max_pool2d", "max_pool3d", "repeat", "channel_shuffle", "pixel_shuffle",
)  # fmt: skip
_DEFINED: Final[dict[str, Callable[..., Any]]] = {
    **{name: _moves(name) for name in _MOVES},
    **dict.fromkeys(("contiguous", "clone", "detach", "dropout", "cpu"), _same),
    **{name: given(_linear_dynamic(False)) for name, given in RECURRENT.items()}, **EMBEDDINGS,
    **{name: _averaged(name) for name in ("avg_pool2d", "adaptive_avg_pool2d", "avg_pool1d", "mean")},
    **{f"quantized.linear{'_relu' * relu}": _linear(relu) for relu in (False, True)},
    **{f"quantized.linear{'_relu' * relu}_dynamic": _linear_dynamic(relu) for relu in (False, True)},
    **{f"quantized.conv{n}d{'_relu' * relu}": _conv(n, relu) for n in (1, 2, 3) for relu in (False, True)},
    **{f"quantized.add{'_relu' * relu}": _requantised(torch.add, relu) for relu in (False, True)},
    **{f"quantized.mul{'_relu' * relu}": _product(relu) for relu in (False, True)},
    "quantized.cat": _requantised(torch.cat), "quantized.hardswish": _requantised(F.hardswish),
    "quantized.sigmoid": _requantised(torch.sigmoid),
    "quantized.leaky_relu": lambda x, negative_slope, inplace, output_scale, output_zero_point: quantised(
        F.leaky_relu(x.real(), negative_slope), output_scale, output_zero_point, x.values.dtype),
    "quantized.elu": lambda x, scale, zero, alpha: quantised(F.elu(x.real(), alpha), scale, zero, x.values.dtype),
    "quantized.batch_norm2d": lambda x, w, b, m, v, eps, scale, zero: quantised(
        F.batch_norm(x.real(), m, v, w, b, False, 0.0, eps), scale, zero, x.values.dtype),
    "quantized.layer_norm": lambda x, shape, weight, bias, eps, output_scale, output_zero_point: quantised(
        F.layer_norm(x.real(), shape, weight, bias, eps), output_scale, output_zero_point, x.values.dtype),
    "quantized.relu6": lambda x, *_: _clamped(x, 0.0, 6.0), "relu6": lambda x, *_, **__: _clamped(x, 0.0, 6.0),
    "relu": lambda x, *_, **__: _clamped(x, 0.0, None), "relu_": lambda x: _clamped(x, 0.0, None),
    "hardtanh": lambda x, min_val=-1.0, max_val=1.0, *_, **__: _clamped(x, min_val, max_val),
    "clamp": lambda x, min=None, max=None: _clamped(x, min, max),
    "sigmoid": _fixed(torch.sigmoid, 1 / 256, 0), "tanh": _fixed(torch.tanh, 2 / 256, 128),
    "hardsigmoid": _fixed(F.hardsigmoid, 1 / 256, 0), "cat": _cat, "dequantize": lambda x: x.real(),
    "quantize_per_tensor": quantised, "int_repr": lambda x: x.values, "q_scale": lambda x: x.scale,
    "q_zero_point": lambda x: x.zero,
}  # fmt: skip


def name_of(func: Any) -> str:
    """Returns the name of a function of PyTorch; that of an operator of `quantized` behind its namespace."""
    if isinstance(func, (OpOverload, OpOverloadPacket)):
        text = str(func)
        return ".".join(text.split(".")[:2]) if text.startswith("quantized.") else text.split(".")[1]
    return getattr(func, "__name__", str(func))


def defined(name: str) -> Callable[..., Any]:
    """Returns the definition of an operator. Raises `CaptureError` with its name if there is none."""
    if name not in _DEFINED:
        raise CaptureError(
            f"{name} of a quantised value has no definition on plain integers here; leave its module in float "
            "(qconfig = None), or capture the model from before the conversion"
        )
    return _DEFINED[name]


def call(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Calls an operator's definition. Raises `CaptureError` if there is none for such arguments."""
    name = name_of(func)
    run = defined(name)
    try:
        return run(*args, **kwargs)
    except TypeError as error:
        raise CaptureError(f"{name} with these arguments has no definition on plain integers here ({error})") from error
