"""Represents one node of a LiteRT model for its translation to PyTorch, and keeps the table of translations.

A translation takes the node and its operands as tensors, and calls PyTorch. Values keep the file's layout: pictures are
NHWC. An operand is None if it is left out or structural (a shape, an axis); `TfliteNode.known` reads those.

A value q of a quantised tensor stands for (q - zero point) * scale (TensorFlow Lite's 8-bit quantization
specification). Sums of products of integers are exact. A result is quantised again in one way here: multiplied by the
scales in float32, rounded, moved by its zero point, saturated. LiteRT's own kernels multiply by a fixed-point number of
31 bits and round twice (`MultiplyByQuantizedMultiplier` in `lite/kernels/internal/common.h`), XNNPACK multiplies in
float32: the specification leaves that to each implementation.
"""
# pyright: reportUnknownMemberType=false
# (PyTorch's functions are partly untyped)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.nn import functional as F

from mindgap.graph import Array
from mindgap.sources.translated_model import Translate, TranslationTable, Untranslated
from mindgap_runtimes.litert_files.model import TfliteTensor, numbers, refusing_damage

Tensor = torch.Tensor

#: Functions that a node applies to its result, by their number in the schema.
_ACTIVATIONS: Final[Mapping[int, tuple[float | None, float | None]]] = {1: (0.0, None), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
_TANH: Final = 4
_ACTIVATION: Final = "FusedActivationFunction"


@dataclass(frozen=True)
class TfliteNode:
    """One node.

    name: that of its first output, since nodes have none.
    inputs: the tensors as the file declares them; None for an operand that is left out.
    structural: constant operands by position.
    """

    op: str
    name: str
    inputs: tuple[TfliteTensor | None, ...]
    outputs: tuple[TfliteTensor, ...]
    options: Any
    structural: Mapping[int, Array]

    def option(self, name: str, default: float = 0) -> Any:
        """Returns a number of the node's options, as the schema's class calls it: `default` where the node has no
        options, 0 where they have no such field."""
        if self.options is None:
            return default
        with refusing_damage():
            return getattr(self.options, name, int)()

    def option_list(self, name: str) -> list[int]:
        """Returns the integers of a vector of the node's options, none where it is left out."""
        with refusing_damage():
            values = None if self.options is None else numbers(self.options, name)
        return [] if values is None else [int(n) for n in values]

    def known(self, position: int) -> list[int]:
        """Returns the integers of a structural operand. Raises `Untranslated` if it is left out."""
        values = self.structural.get(position)
        if values is None:
            raise Untranslated(f"operand {position} is left out")
        return [int(i) for i in values.reshape(-1)]

    def operand(self, position: int) -> TfliteTensor:
        """Returns how the file declares an operand. Raises `Untranslated` if it is left out."""
        tensor = self.inputs[position] if position < len(self.inputs) else None
        if tensor is None:
            raise Untranslated(f"operand {position} is left out")
        return tensor

    @property
    def is_quantised(self) -> bool:
        """Whether the first result is quantised integers."""
        return _is_quantised(self.outputs[0])

    def only(self, condition: bool, what: str) -> None:
        """Raises `Untranslated` unless the condition holds."""
        if not condition:
            raise Untranslated(f"{self.op} {what} has no equivalent here")

    def activated(self, x: Tensor) -> Tensor:
        """Applies the options' activation function to a result: on integers, by its quantised limits."""
        number = self.option(_ACTIVATION)
        if self.is_quantised:
            limits = self.limits()
            return x if limits == _limits(self.outputs[0]) else torch.clamp(x, *limits)
        if number == _TANH and x.is_floating_point():
            return torch.tanh(x)
        if number not in _ACTIVATIONS:
            self.only(number == 0, f"with activation function {number}")
            return x
        low, high = _ACTIVATIONS[number]
        return F.relu(x) if high is None else torch.clamp(x, low, high)

    def limits(self) -> tuple[int, int]:
        """Returns the least and the largest integer of the quantised result, with the options' activation function
        (`CalculateActivationRangeQuantized` in `lite/kernels/kernel_util.cc`)."""
        least, most = _limits(self.outputs[0])
        number = self.option(_ACTIVATION)
        if number not in _ACTIVATIONS:
            self.only(number == 0, f"with activation function {number}")
            return least, most
        scale, zero = _parameters(self.outputs[0])
        low, high = (None if each is None else zero + round(each / scale) for each in _ACTIVATIONS[number])
        return least if low is None else min(max(low, least), most), most if high is None else min(
            max(high, least), most
        )

    def real(self, position: int, x: Tensor) -> Tensor:
        """Returns the values that a quantised operand stands for, in float32; others as they are."""
        given = self.operand(position)
        return dequantised(x, given) if _is_quantised(given) else x

    def centred(self, position: int, x: Tensor) -> Tensor:
        """Returns the integers of a quantised operand without their zero points, int32."""
        return centred(x, self.operand(position))

    def factor(self, *positions: int) -> Tensor:
        """Returns the product of operands' scales over the result's scale, float32: one number, or one for each
        channel."""
        factor = torch.tensor(1.0)
        for position in positions:
            quantisation = self.operand(position).quantisation
            self.only(quantisation is not None, "of integers without a scale")
            assert quantisation is not None, "it was looked at"
            scales = torch.tensor(quantisation.scales)
            factor = factor * (scales if scales.numel() > 1 else scales.reshape(()))
        return factor / _parameters(self.outputs[0])[0]

    def rescaled(self, total: Tensor, factor: Tensor) -> Tensor:
        """Quantises exact sums as the first result. `factor`: along the last axis, where it is not one number."""
        return _rounded(total.to(torch.float32) * factor, self.outputs[0], self.limits())


def _limits(tensor: TfliteTensor) -> tuple[int, int]:
    limits = torch.iinfo(getattr(torch, tensor.dtype))
    return limits.min, limits.max


def _is_quantised(tensor: TfliteTensor) -> bool:
    return tensor.quantisation is not None and tensor.dtype in ("int8", "uint8", "int16", "int32")


def _parameters(tensor: TfliteTensor) -> tuple[float, int]:
    """The one scale and zero point of a tensor. Raises `Untranslated` for several."""
    scheme = tensor.quantisation
    if scheme is None or scheme.scales.size != 1:
        raise Untranslated(f"{tensor.name} needs one scale, and has {0 if scheme is None else scheme.scales.size}")
    return float(scheme.scales[0]), int(scheme.zeros[0])


def centred(x: Tensor, declared: TfliteTensor) -> Tensor:
    """Returns integers without their zero points, int32."""
    scheme, wide = declared.quantisation, x.to(torch.int32)
    if scheme is None or not scheme.zeros.any():
        return wide
    shape = [-1 if axis == scheme.axis and scheme.zeros.size > 1 else 1 for axis in range(x.dim())]
    return wide - (int(scheme.zeros[0]) if scheme.zeros.size == 1 else torch.tensor(scheme.zeros).reshape(shape))


def dequantised(x: Tensor, declared: TfliteTensor) -> Tensor:
    """Returns the values that integers stand for, float32."""
    scheme = declared.quantisation
    if scheme is None:
        raise Untranslated(f"{declared.name} has no scale")
    scales = torch.tensor(scheme.scales)
    shape = [-1 if axis == scheme.axis and scales.numel() > 1 else 1 for axis in range(x.dim())]
    return centred(x, declared).to(torch.float32) * (
        scales.reshape(shape) if scales.numel() > 1 else scales.reshape(())
    )


def quantised(x: Tensor, declared: TfliteTensor, limits: tuple[int, int] | None = None) -> Tensor:
    """Quantises float32 as a tensor is declared. `limits`: narrower ones than those of its dtype."""
    return _rounded(x / _parameters(declared)[0], declared, limits or _limits(declared))


def _rounded(x: Tensor, declared: TfliteTensor, limits: tuple[int, int]) -> Tensor:
    kind = getattr(torch, declared.dtype)
    return torch.clamp(torch.round(x) + _parameters(declared)[1], *limits).to(kind)


def alike(a: TfliteTensor, b: TfliteTensor) -> bool:
    """Whether integers of two tensors stand for the same values."""
    if a.quantisation is None or b.quantisation is None:
        return a.quantisation is b.quantisation
    return _parameters(a) == _parameters(b)


TRANSLATIONS: Final = TranslationTable()
translates = TRANSLATIONS.register


def by_values(function: Translate) -> Translate:
    """Returns a translation that computes with the values that operands stand for, and quantises the result.

    `function` takes the node and its operands.
    """

    def run(node: TfliteNode, *operands: Tensor | None) -> Tensor:
        real = [None if each is None else node.real(i, each) for i, each in enumerate(operands)]
        result = function(node, *real)
        if node.is_quantised and result.is_floating_point():
            return quantised(result, node.outputs[0], node.limits())
        return node.activated(result)

    return run


def moving(function: Translate) -> Translate:
    """Returns a translation that moves elements of its first operand: integers stay what they are, and are quantised
    again where the result is declared with another scale."""

    def run(node: TfliteNode, x: Tensor, *others: Tensor | None) -> Tensor:
        result = function(node, x, *others)
        if alike(node.operand(0), node.outputs[0]):
            return result
        return quantised(dequantised(result, node.operand(0)), node.outputs[0])

    return run
