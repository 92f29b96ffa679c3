"""Recognises results that a compiler computed in an algebraically equal form: `x*c - c` for `(x - 1)*c`.

A compiler may add, multiply and distribute in another order than the program. In exact arithmetic nothing changes. In
floating point the other form has other roundings: as large as the terms that it adds, which may cancel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from mindgap.aten.tensors import to_torch
from mindgap.graph import Graph, Ref
from mindgap.judge.oracle import OracleError, OracleMemoryError
from mindgap.judge.oracle.bounds.terms import absolute
from mindgap.judge.oracle.evaluation.float64 import BoundCall, bind_call, evaluate, neutral_float64
from mindgap.judge.oracle.evaluation.formats import FORMATS, is_real, widen
from mindgap.judge.trace.subgraphs import Array

#: The phrase of a finding's detail.
REASSOCIATED: Final = (
    "computed in another order (such as x + (a + b) for (x + a) + b, or x*c - c for (x - 1)*c), whose rounding in the "
    "declared dtype explains the error"
)
#: Roundings of each operator in another form: of a product of constants, of each term, and of their sum.
_ROUNDINGS: Final = 3.0
_SUMS: Final = frozenset({"add", "sub", "subtract", "rsub"})
_PRODUCTS: Final = frozenset({"mul", "multiply"})
_QUOTIENTS: Final = frozenset({"div", "divide", "true_divide"})
#: Linear in each operand: on magnitudes they sum the magnitudes of their terms.
_LINEAR: Final = frozenset({
    "sum", "mean", "mm", "bmm", "matmul", "mv", "dot", "linear", "addmm", "baddbmm", "addmv", "conv1d", "conv2d",
    "conv3d", "convolution",
})  # fmt: skip
_AFFINE: Final = frozenset({"batch_norm", "_native_batch_norm_legit_no_training"})


def is_reassociated(graph: Graph, inputs: Sequence[Array], arrays: Sequence[Array]) -> bool:
    """Whether rounding in an algebraically equal form of the graph explains its outputs.

    The graph adds, subtracts, multiplies, negates, divides by what it does not compute, moves data, and sums products;
    otherwise the answer is no. Written out as a sum of products of its inputs it has terms, whose magnitudes M are what
    the graph gives for magnitudes with every minus a plus. Each form that needs no other terms errs by a few roundings
    of M.
    """
    try:
        with neutral_float64():
            evaluated = _evaluated(graph, [widen(to_torch(array)) for array in inputs])
    except OracleMemoryError:
        raise
    except OracleError:
        return False
    if evaluated is None or not arrays:
        return False
    values, sizes, roundings = evaluated
    for number, array in zip(graph.outputs, arrays, strict=True):
        spec, right, size, got = graph.values[number], values[number], sizes[number], widen(to_torch(array))
        if spec is None or not is_real(spec.dtype) or got.shape != right.shape:
            return False
        if not bool(((got - right).abs() <= roundings * FORMATS[spec.dtype].u * size).all()):
            return False
    return True


def _evaluated(graph: Graph, inputs: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor], float] | None:
    """Every value in float64, the magnitudes of its terms, and how many roundings another form has at most; None where
    an operator is of another kind."""
    values, sizes = list(inputs), [value.abs() if value.dtype != torch.bool else value for value in inputs]
    roundings = 0.0
    for node in graph.nodes:
        call = bind_call(graph, node)
        if len(node.outputs) != 1 and call.packet not in _AFFINE:
            return None
        args, kwargs = call.bind(values)
        results = evaluate(call, args, kwargs)
        size = _size(call, args, kwargs, sizes, len(inputs))
        if size is None or not isinstance(results[0], torch.Tensor):
            return None
        roundings += 0.0 if call.moves else _ROUNDINGS * math.sqrt(_terms(call, args, results[0]))
        values += results
        sizes += [size.expand(results[0].shape), *results[1:]]
    return values, sizes, roundings


def _size(
    call: BoundCall, args: list[Any], kwargs: Mapping[str, Any], sizes: list[torch.Tensor], given: int
) -> torch.Tensor | None:
    """The magnitudes of the terms of a node's first result. `given`: how many values the graph does not compute."""
    packet = call.packet
    if call.moves or packet in _LINEAR:
        bound, named = call.bind(sizes)
        alphas = {k: absolute(v) for k, v in named.items()} if packet in _LINEAR else named
        return evaluate(call, bound, alphas)[0].abs()
    if packet in ("neg", "negative"):
        return _magnitude(call.args[0], sizes)
    if packet in _SUMS:
        scale = abs(kwargs.get("alpha", args[2] if len(args) > 2 else 1))
        first, second = (_magnitude(arg, sizes) for arg in call.args[:2])
        return scale * first + second if packet == "rsub" else first + scale * second
    if packet in _PRODUCTS:
        return _magnitude(call.args[0], sizes) * _magnitude(call.args[1], sizes)
    if packet in _QUOTIENTS and not kwargs.get("rounding_mode"):
        divisor = call.args[1]
        computed = isinstance(divisor, Ref) and divisor.index >= given
        return None if computed else _magnitude(call.args[0], sizes) / _magnitude(divisor, sizes)
    if packet in _AFFINE and (packet != "batch_norm" or not args[5]):
        return _affine(args, _magnitude(call.args[0], sizes))
    return None


def _magnitude(argument: Any, sizes: list[torch.Tensor]) -> torch.Tensor:
    """Of an operand, the magnitudes of its terms; of a number, its magnitude."""
    return sizes[argument.index] if isinstance(argument, Ref) else torch.as_tensor(abs(argument), dtype=torch.float64)


def _affine(args: list[Any], size: torch.Tensor) -> torch.Tensor:
    """A batch normalisation with given statistics: |x|·a + |m|·a + |b|."""
    shape = (1, -1, *[1] * (size.dim() - 2))

    def per_channel(values: torch.Tensor | None, missing: float) -> torch.Tensor:
        return torch.full((), missing) if values is None else values.abs().reshape(shape)

    eps: float = next(arg for arg in reversed(args) if isinstance(arg, float))
    weight, bias = per_channel(args[1], 1.0), per_channel(args[2], 0.0)
    mean, variance = per_channel(args[3], 0.0), per_channel(args[4], 1.0)
    return (size + mean) * weight / (variance + eps).sqrt() + bias


def _terms(call: BoundCall, args: list[Any], result: torch.Tensor) -> float:
    """How many terms a result sums."""
    if call.packet in ("sum", "mean"):
        return max(args[0].numel() / max(result.numel(), 1), 1.0)
    if call.packet not in _LINEAR:
        return 1.0
    if "conv" in call.packet:
        return float(args[1][0].numel())
    factor = args[1] if call.packet in ("addmm", "baddbmm", "addmv") else args[0]
    return float(factor.shape[-1]) if factor.dim() else 1.0
