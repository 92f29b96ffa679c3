"""Derives how far from the exact quotient an implementation of a quantised value may round.

Three sources, which are added:

- ONNX defines each operator between `DequantizeLinear` and `QuantizeLinear` on float32. An implementation may round as
  often as float32 makes it: 16 standard deviations of the graph's error, as of every other value (docs/metrics.md).
- An implementation in integers holds the factor of a requantisation, `M`, in 31 bits (gemmlowp's and TFLite's
  `QuantizeMultiplier`: Jacob et al. 2018, section 2.2). Its relative error is at most 2⁻³¹.
- The product with that factor may be rounded to an integer before it is shifted by n = ⌊-log₂ M⌋ bits (gemmlowp's
  `SaturatingRoundingDoublingHighMul`, then `RoundingDivideByPOT`). The first rounding is half a unit of 2⁻ⁿ steps.

Where every operator is exact in float32 (scales of few bits, sums below 2²⁴ units) ONNX leaves nothing open: the reach
is 0, and a tie goes to the even integer. TensorFlow Lite's 8-bit quantisation specification names no integer for a tie,
and its kernels take both: `TfLiteRound` halves away from zero, XNNPACK's conversions the even one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from mindgap.aten.operators import packet_of
from mindgap.graph import Node, Ref, operands
from mindgap.graph.operators import traits
from mindgap.judge.oracle import Expectation, Oracle
from mindgap.judge.oracle.evaluation.formats import is_real, rounded
from mindgap.judge.oracle.examination import SIGMAS
from mindgap.judge.quantised.values import QuantisedValue, dequantising_scale
from mindgap.platforms.model_formats import QuantisationRule

Tensor = torch.Tensor
#: Bits of the factor of an integer requantisation.
_FACTOR: Final = 2.0**-31
#: float64 computes the exact quotient up to this.
_WIDE: Final = 2.0**-48
#: Sums of which float32 holds every partial one, in units of what all terms are multiples of.
_UNITS: Final = 2.0**24
#: Operators that give the exact result where float32 holds it, besides those that move elements.
_EXACT: Final = frozenset({
    "add", "sub", "mul", "div", "relu", "clamp", "to", "_to_copy", "round", "neg", "abs", "maximum", "minimum", "cat",
    "stack", "max_pool1d", "max_pool2d", "max_pool3d", "constant_pad_nd", "pad",
})  # fmt: skip
#: What makes both integers next to a tie right, in steps.
_TIE: Final = 2.0**-30
#: Half of 2⁻¹ steps: what rounding before a shift is off at most.
_LARGEST_SHIFTED: Final = 0.25
_SUMS: Final = frozenset({
    "conv1d", "conv2d", "conv3d", "convolution", "matmul", "mm", "bmm", "addmm", "linear", "sum", "mean", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reach:
    """How far from the exact quotient each element may be rounded, in steps: by float32 arithmetic (`floats`), and by a
    factor of 31 bits and its shift besides that (`integer`)."""

    floats: Tensor
    integer: Tensor


def reach(oracle: Oracle, value: QuantisedValue, expected: Expectation, rule: QuantisationRule) -> Reach:
    """Returns how far from the exact quotient each element may be rounded, in steps."""
    x = expected.wide
    if rule.even_ties and _is_exact(oracle, value):
        return Reach(torch.zeros_like(x), torch.zeros_like(x))
    shifted = _double_rounding_reach(oracle, value, x, rule.rescales)
    spec = oracle.graph.values[value.number]
    factor = _FACTOR
    if spec is not None and not _sums_in_32_bits(oracle, value):
        factor = rule.factor.get(spec.dtype, _FACTOR)
    floats = SIGMAS * expected.sigma + _WIDE * x.abs()
    return Reach(floats if rule.even_ties else floats + _TIE, factor * x.abs() + shifted)


def _sums_in_32_bits(oracle: Oracle, value: QuantisedValue) -> bool:
    """Whether a value is made of sums of products, none of which is multiplied by its factor in 64 bits."""
    graph = oracle.graph
    block = [graph.nodes[index] for index in value.block]
    read = [graph.values[number] for node in block if _makes_float32(node) for number in operands(node)]
    wide = any(spec is not None and spec.dtype == "int64" for spec in read)
    return not wide and any(traits(node.op).contracts for node in block)


def _makes_float32(node: Node) -> bool:
    made = node.outputs[0]
    return traits(node.op).casts and made is not None and made.dtype == "float32"


def dividing_scale(oracle: Oracle, value: QuantisedValue) -> Tensor | None:
    """Returns the scale that the quotient is divided by; None where it is made in another way."""
    node = _made_by(oracle, value.operand)
    if node is None or packet_of(node.op) != "div" or len(node.args) < 2:
        return None
    scale = node.args[1]
    operand: Any = oracle.step.wide(scale.index) if isinstance(scale, Ref) else scale
    return torch.as_tensor(operand, dtype=torch.float64)


def _made_by(oracle: Oracle, number: int) -> Node | None:
    index = oracle.graph.producer[number]
    return oracle.graph.nodes[index] if index >= 0 else None


def _double_rounding_reach(oracle: Oracle, value: QuantisedValue, x: Tensor, rescales: bool) -> Tensor:
    """Half of 2⁻ⁿ steps for the factor M that integers are multiplied by, by channel; 0 where there is none, and for M
    of ½ or more, which is not shifted. `x`: the quotients. `rescales`: operators without sums of products may multiply
    integers too, by a factor that is not known; then n may be 1."""
    factor = _factor(oracle, value, x)
    if factor is None and rescales:
        factor = _given_factor(oracle, value, x)
        if factor is None:
            return torch.full_like(x, _LARGEST_SHIFTED)
    if factor is None:
        return torch.zeros_like(x)
    shift = torch.floor(
        -torch.log2(torch.where((factor > 0) & torch.isfinite(factor), factor, torch.ones_like(factor)))
    )
    return torch.where(shift >= 1, torch.exp2(-(shift + 1)), torch.zeros_like(shift)).expand(x.shape)


def _factor(oracle: Oracle, value: QuantisedValue, x: Tensor) -> Tensor | None:
    """The factor M, in a shape that broadcasts with the quotients; None where there is none."""
    graph, scale = oracle.graph, dividing_scale(oracle, value)
    products = [graph.nodes[i] for i in value.block if traits(graph.nodes[i].op).contracts]
    if len(products) != 1:
        return None
    if scale is None:
        return _given_factor(oracle, value, x)
    scales = [dequantising_scale(graph, number) for number in operands(products[0])[:2]]
    if len(scales) != 2 or None in scales:
        return None
    factor = torch.ones((), dtype=torch.float64)
    for place, number in enumerate(scales):
        assert number is not None, "it was looked for"
        factor = factor * _channel_scales(products[0], place, oracle.step.wide(number).abs().to(torch.float64), x)
    return factor / scale.abs()


def _given_factor(oracle: Oracle, value: QuantisedValue, x: Tensor) -> Tensor | None:
    """The factor that sums of products are multiplied by (ONNX's `QLinearConv` and `QLinearMatMul`)."""
    node = _made_by(oracle, value.operand)
    if node is None or packet_of(node.op) != "mul" or len(node.args) < 2 or not isinstance(node.args[1], Ref):
        return None
    factor = oracle.step.wide(node.args[1].index).abs().to(torch.float64)
    fits = factor.dim() <= x.dim() and all(
        each in (1, other) for each, other in zip(reversed(factor.shape), reversed(x.shape), strict=False)
    )
    return factor if fits else None


def _channel_scales(product: Node, place: int, scale: Tensor, x: Tensor) -> Tensor:
    """The scales of an operand of a product in a shape that broadcasts with its results. For scales of other than the
    results' channels the largest one."""
    if scale.numel() == 1:
        return scale.reshape(())
    dim = 1 if "conv" in packet_of(product.op) and x.dim() >= 3 else x.dim() - 1
    if place != 1 or x.shape[dim] != scale.numel():
        return scale.max()
    return scale.reshape([-1 if each == dim else 1 for each in range(x.dim())])


def _is_exact(oracle: Oracle, value: QuantisedValue) -> bool:
    """Whether float32 holds every result and every partial sum of a quantised value's operators."""
    return all(_node_is_exact(oracle, index) for index in value.block)


def _node_is_exact(oracle: Oracle, index: int) -> bool:
    graph, step = oracle.graph, oracle.step
    node, packet = graph.nodes[index], packet_of(graph.nodes[index].op)
    if not (packet in _EXACT or packet in _SUMS or traits(node.op).moves_data or traits(node.op).hands_on):
        return False
    for number in graph.results(index):
        spec = graph.values[number]
        if spec is None or not is_real(spec.dtype):
            continue
        if not torch.equal(rounded(step.exact(number), "float32"), step.exact(number)):
            return False
    read = [step.wide(number) for number in operands(node)]
    if packet == "div":
        divisor = read[1] if len(read) > 1 else torch.as_tensor(_second(node), dtype=torch.float64)
        return _powers_of_two(divisor)
    return packet not in _SUMS or _sums_are_exact(oracle, index, read)


def _second(node: Node) -> float:
    divisor = node.args[1]
    return float(divisor) if isinstance(divisor, int | float) else math.nan


def _powers_of_two(x: Tensor) -> bool:
    return bool((torch.frexp(x.to(torch.float64)).mantissa.abs() == 0.5).all())


def _sums_are_exact(oracle: Oracle, index: int, read: Sequence[Tensor]) -> bool:
    """Every partial sum is a multiple of the terms' unit, and below 2²⁴ of it."""
    node = oracle.graph.nodes[index]
    factors = read[:2] if traits(node.op).contracts else read[:1]
    added = [each for each in read[len(factors) :] if each.numel()]
    unit = min(math.prod(map(_unit, factors)), *map(_unit, added), math.inf)
    largest = math.prod(float(each.abs().max()) if each.numel() else 0.0 for each in factors)
    total = largest * _terms(node, read) + sum(float(each.abs().max()) for each in added)
    return unit > 0 and total < _UNITS * unit


def _terms(node: Node, read: Sequence[Tensor]) -> int:
    """At most how many terms each sum has."""
    if "conv" in packet_of(node.op):
        return read[1][0].numel()
    if traits(node.op).contracts:
        return read[0].shape[-1]
    return read[0].numel()


def _unit(x: Tensor) -> float:
    """The largest power of two of which all elements are multiples; infinity for zeros, 0 where one is not finite."""
    x = x.to(torch.float64)
    if not bool(torch.isfinite(x).all()):
        return 0.0
    parts = torch.frexp(x[x != 0])
    if not parts.mantissa.numel():
        return math.inf
    whole = (parts.mantissa * 2.0**53).to(torch.int64)
    trailing = torch.log2((whole & -whole).to(torch.float64))
    return float(torch.exp2((parts.exponent - 53 + trailing).min()))
