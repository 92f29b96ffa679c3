"""Recognises operators that follow another rule than their own: of rounding or saturation in quantised graphs, or none
at all, where an optimiser took one for the identity.

The right rules: `round` rounds half to even (IEEE 754, roundTiesToEven; ONNX's `QuantizeLinear` and PyTorch's
`quantize_per_tensor` demand it), `clamp` saturates at its limits, sums of products of whole numbers are exact (ONNX's
`MatMulInteger`, `ConvInteger`, `QLinearMatMul` and `QLinearConv` have 32 bits), a channel is scaled by its own factor.
Each other rule is computed on the operands that the platform got. Where it gives every element of the platform's
result, the finding names it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import torch
from torch.nn import functional as F

from mindgap.aten.tensors import to_torch
from mindgap.graph.operators import traits
from mindgap.judge.oracle import Oracle
from mindgap.judge.oracle.evaluation.float64 import BoundCall, bind_call, evaluate, neutral_float64
from mindgap.judge.oracle.evaluation.formats import FORMATS, widen
from mindgap.judge.oracle.single_operator import WideValues
from mindgap.judge.quantised.wrong_rules import ROUNDINGS
from mindgap.judge.trace.subgraphs import Array

Tensor = torch.Tensor
#: Elements of all products of a matrix product, up to which they are computed one by one.
_MOST_PRODUCTS: Final = 1 << 22
#: Terms of each sum of a convolution, and lanes of a sum, up to which sums in float16 are tried.
_MOST_TERMS: Final = 512
_MOST_LANES: Final = 32
#: Sums of products of their first two operands alone.
_DIRECT: Final = frozenset({"mm", "matmul", "bmm", "linear", "conv1d", "conv2d", "conv3d", "convolution"})


@dataclass(frozen=True, slots=True)
class WrongRule:
    """Another rule. `phrase`: of a finding's detail. `fewer_bits`: it computes in fewer bits than declared."""

    phrase: str
    fewer_bits: bool = False


#: What an operator does to its first operand.
_LEFT_OUT: Final[Mapping[str, str]] = {
    "add": "added", "sub": "subtracted", "subtract": "subtracted", "mul": "multiplied", "multiply": "multiplied",
    "div": "divided", "divide": "divided",
}  # fmt: skip
#: A rule and what it gives.
_Candidate = tuple[WrongRule, Tensor]
_CHANNELS: Final[Mapping[str, Callable[[Tensor, int], Tensor]]] = {
    "as if each channel had the factor of the one before it": lambda x, dim: x.roll(1, dim),
    "as if each channel had the factor of the one after it": lambda x, dim: x.roll(-1, dim),
    "as if all channels had the factor of the first": lambda x, dim: x.narrow(dim, 0, 1).expand(x.shape),
}


def wrong_rule(oracle: Oracle, node: int, arrays: Mapping[int, Array]) -> WrongRule | None:
    """The rule that gives a platform's wrong results of an operator, by value number, bit for bit; None where it is not
    known. The operator's operands are those of the stepwise shadow."""
    number = oracle.graph.first_value[node]
    if len(arrays) != 1 or number not in arrays or number not in oracle.step.values:
        return None
    got, right = _wide(to_torch(arrays[number])), _wide(oracle.step.wide(number))
    if got.shape != right.shape or not got.numel():
        return None
    with neutral_float64():
        call = bind_call(oracle.graph, oracle.graph.nodes[node])
        args, kwargs = call.bind(WideValues(oracle))
        wide = [_wide(each) for each in args]
        left_out = _left_out(call.packet, args, str(arrays[number].dtype))
        for rule, candidate in chain(left_out, _candidates(call, wide, kwargs, got, right)):
            if candidate.shape == got.shape and bool(((got == candidate) | (got.isnan() & candidate.isnan())).all()):
                return rule
    return None


def _wide(value: Any) -> Any:
    """Floats in 64 bits, and integers too: limits of another width fit. What is no tensor stays."""
    if not isinstance(value, Tensor) or value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        return widen(value) if isinstance(value, Tensor) else value
    return value.to(torch.int64)


def _candidates(
    call: BoundCall, args: list[Any], kwargs: Mapping[str, Any], got: Tensor, right: Tensor
) -> Iterator[_Candidate]:
    if not args or not isinstance(args[0], Tensor) or args[0].is_complex() or args[0].dtype == torch.bool:
        return
    if call.packet == "round" and not kwargs.get("decimals"):
        for phrase, function in ROUNDINGS.items():
            yield WrongRule(phrase), function(args[0])
    elif call.packet in ("clamp", "clip", "hardtanh"):
        yield WrongRule("as if nothing were cut off at the limits"), args[0]
        for low, high in ((-128, 127), (0, 255), (-32768, 32767)):
            yield WrongRule(f"as if cut off at {low} and {high}"), args[0].clamp(low, high)
    elif call.packet in ("add", "sub", "rsub", "subtract") and _whole(args[0]) and _whole(right):
        off, formats = (got - right).flatten()[0], _NARROWER.get(getattr(call.node.outputs[0], "dtype", ""), ())
        if off != 0 and got.numel() > 1 and not any(torch.equal(each(right), got) for each in formats):
            yield WrongRule(f"every element is off by {off.item():g}, as with another zero point"), right + off
    elif call.packet in ("mul", "multiply", "div"):
        yield from _scaled(call.packet, args, got, right)
    elif traits(call.node.op).contracts and all(_whole(each) for each in args[:2]):
        yield from _narrow_sums(call.packet, args, right)
        if _may_be_kept_in_float16(call, args, kwargs, got, right):
            for candidate in _float16_sums(call, args, kwargs, right):
                yield WrongRule("as if sums were accumulated in float16", fewer_bits=True), candidate


def _may_be_kept_in_float16(
    call: BoundCall, args: list[Any], kwargs: Mapping[str, Any], got: Tensor, right: Tensor
) -> bool:
    """Whether float16 holds every result, not every right one, and K roundings to it explain the errors: u·√K·Σ|x|."""
    direct = call.packet in _DIRECT and right.is_floating_point()
    if not direct or torch.equal(_to_float16(right), right) or not torch.equal(_to_float16(got), got):
        return False
    (size,) = evaluate(call, [args[0].abs(), args[1].abs(), *args[2:]], kwargs)
    terms = args[1][0].numel() if "conv" in call.packet else args[0].shape[-1]
    return bool(((got - right).abs() <= FORMATS["float16"].u * terms**0.5 * size).all())


def _float16_sums(call: BoundCall, args: list[Any], kwargs: Mapping[str, Any], right: Tensor) -> Iterator[Tensor]:
    """The sums, accumulated in float16 in the orders that kernels take: one product, or block of products, after the
    other, or in lanes whose sums are added at the end; products rounded first or fused. Nothing for large ones."""
    bare = [*args[:2], *([None] if len(args) > 2 else []), *args[3:]]
    orders = _terms_of_convolution(call, bare, kwargs, right) if "conv" in call.packet else _terms(call, args, right)
    bias: Any = args[2] if len(args) > 2 else None
    if isinstance(bias, Tensor):
        (bias,) = evaluate(call, [args[0], torch.zeros_like(args[1]), *args[2:]], kwargs)
    for terms, blocks in orders:
        for parts in _block_sums(terms, blocks):
            for each in (parts, _to_float16(parts)):
                if isinstance(bias, Tensor):
                    yield _accumulated([bias, *each])
                    yield _to_float16(_accumulated(each) + bias)
                else:
                    yield _accumulated(each)


def _terms(call: BoundCall, args: list[Any], right: Tensor) -> Iterator[tuple[Tensor, set[int]]]:
    """The products of a matrix product, K first, with the sizes of blocks that are summed at once."""
    left, weight = args[0], args[1].t() if call.packet == "linear" else args[1]
    if left.dim() < 2 or weight.dim() < 2 or right.numel() * left.shape[-1] > _MOST_PRODUCTS:
        return
    products = left.unsqueeze(-1) * weight.unsqueeze(-3)
    yield products.movedim(-2, 0), _powers(left.shape[-1])


def _terms_of_convolution(
    call: BoundCall, bare: list[Any], kwargs: Mapping[str, Any], right: Tensor
) -> Iterator[tuple[Tensor, set[int]]]:
    """The products of a convolution, channel by channel and place by place of the kernel. `bare`: without a bias."""
    weight: Tensor = bare[1]
    terms, channels = weight[0].numel(), weight.shape[1]
    if right.numel() * terms > _MOST_PRODUCTS or terms > _MOST_TERMS:
        return
    columns: list[Tensor] = []
    for number in range(terms):
        one = torch.zeros_like(weight)
        one.flatten(1)[:, number] = weight.flatten(1)[:, number]
        columns += evaluate(call, [bare[0], one, *bare[2:]], kwargs)
    made = torch.stack(columns)
    yield made, _powers(terms) | {terms // channels}
    yield made.reshape(channels, -1, *right.shape).transpose(0, 1).reshape(made.shape), _powers(terms) | {channels}


def _powers(terms: int) -> set[int]:
    return {1 << power for power in range(terms.bit_length()) if 1 << power < terms}


def _block_sums(terms: Tensor, sizes: set[int]) -> Iterator[Tensor]:
    """Sums of neighbouring terms, exact; sums of every n-th term, in float16."""
    for size in sorted(sizes):
        padded = torch.cat([terms, terms.new_zeros(-len(terms) % size, *terms.shape[1:])])
        padded = padded.reshape(-1, size, *terms.shape[1:])
        yield padded.sum(1)
        if 1 < size <= _MOST_LANES:
            yield _accumulated(padded)


def _accumulated(terms: Tensor | list[Tensor]) -> Tensor:
    """A sum that is rounded to float16 after each term."""
    return functools.reduce(lambda total, term: _to_float16(total + term), terms, torch.zeros_like(terms[0]))


def _to_float16(x: Tensor) -> Tensor:
    return x.to(torch.float16).to(x.dtype)


def _to_bfloat16(x: Tensor) -> Tensor:
    return x.to(torch.bfloat16).to(x.dtype)


def _to_tf32(x: Tensor) -> Tensor:
    """Rounds to 10 explicit bits of the significand in float32's range (NVIDIA's TF32)."""
    parts = torch.frexp(x)
    return torch.ldexp(torch.round(parts.mantissa * 2.0**11), parts.exponent - 11)


#: By dtype, the formats in which a platform may add instead. A sum in one that holds the operand may give it again.
_NARROWER: Final[Mapping[str, tuple[Callable[[Tensor], Tensor], ...]]] = {
    "float32": (_to_float16, _to_bfloat16, _to_tf32), "float16": (_to_bfloat16,), "bfloat16": (_to_float16,),
}  # fmt: skip


def _left_out(packet: str, args: list[Any], dtype: str) -> Iterator[_Candidate]:
    """The first operand as it is. Not where a narrower format holds all of it: a sum in that format may give it too."""
    if packet in _LEFT_OUT and isinstance(args[0], Tensor):
        kept = _wide(args[0])
        if not any(torch.equal(each(kept), kept) for each in _NARROWER.get(dtype, ())):
            yield WrongRule(f"as if nothing were {_LEFT_OUT[packet]}"), kept


def _whole(value: Any) -> bool:
    if not isinstance(value, Tensor) or value.is_complex() or value.dtype == torch.bool:
        return False
    return not value.is_floating_point() or bool((value == value.round()).all())


def _scaled(packet: str, args: list[Any], got: Tensor, right: Tensor) -> Iterator[_Candidate]:
    """Scaled by another channel's factor, or in float16. Results are rounded to float32, as those of a platform."""
    x, factor = args[0], args[1]

    def scaled(by: Any, of: Tensor = x) -> Tensor:
        return (of / by if packet == "div" else of * by).to(torch.float32).to(right.dtype)

    if got.dtype == torch.float64 and right.dtype == torch.float64:
        half = _to_float16(torch.as_tensor(factor, dtype=torch.float64))
        for candidate in (right, scaled(half, _to_float16(x))):
            yield WrongRule("as if computed in float16", fewer_bits=True), _to_float16(candidate)
    if isinstance(factor, Tensor) and factor.numel() > 1 and max(factor.shape) == factor.numel():
        dim = [*factor.shape].index(factor.numel())
        for phrase, function in _CHANNELS.items():
            yield WrongRule(phrase), scaled(function(factor, dim))


def _narrow_sums(packet: str, args: list[Any], right: Tensor) -> Iterator[_Candidate]:
    """Sums of products of whole numbers in an accumulator of 16 bits."""
    yield WrongRule("as if sums were cut off at the limits of 16 bits"), right.clamp(-32768, 32767)
    yield WrongRule("as if sums wrapped at 16 bits"), torch.remainder(right + 32768, 65536) - 32768
    yield WrongRule("as if sums were rounded to float16", fewer_bits=True), _to_float16(right)
    if (pairs := _pairs_cut_off(packet, args, right)) is not None:
        words = "as if sums of two products were cut off at the limits of 16 bits, as by VPMADDUBSW without VNNI"
        yield WrongRule(words), pairs


def _pairs_cut_off(packet: str, args: list[Any], right: Tensor) -> Tensor | None:
    """A matrix product in which each two neighbouring products are added with saturation; None for another operator.

    Intel's manual (VPMADDUBSW) multiplies 8-bit integers and adds pairs to 16 bits, saturating.
    """
    if packet not in ("mm", "matmul", "linear") or (packet == "linear" and len(args) > 2 and args[2] is not None):
        return None
    left, weight = args[0].to(torch.float64), args[1].to(torch.float64)
    weight = weight.t() if packet == "linear" else weight
    if weight.dim() != 2 or not left.dim() or left.numel() * weight.shape[1] > _MOST_PRODUCTS:
        return None
    products = left.unsqueeze(-1) * weight
    products = F.pad(products, (0, 0, 0, products.shape[-2] % 2))
    pairs: Tensor = products[..., 0::2, :] + products[..., 1::2, :]
    return pairs.clamp(-32768, 32767).sum(-2).to(right.dtype)
