"""Measures in float64 what the rounding of each value to a smaller format does to the outputs.

One evaluation in float64 (the wide shadow of the oracle) and its derivative: the error of a value times the derivative
of the outputs by it is its effect to first order. A value is rounded where an operator in the smaller format makes or
reads it. It stays exact only between operators in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import torch

from mindgap.aten.tensors import input_tensors
from mindgap.graph import Graph, operands
from mindgap.judge.oracle import OracleError, OracleMemoryError
from mindgap.judge.oracle.evaluation.float64 import OPERATOR_ERRORS, Float64Graph, Values, evaluate, neutral_float64
from mindgap.judge.oracle.evaluation.formats import rounded, widen
from mindgap_diagnosis.precision.candidates import Candidates, is_wide

#: The reader of an output: the caller, who reads float32. The reader that is no operator.
CALLER: Final = -1
_NO_OPERATOR: Final = -2
#: How much worse: values that overflow, values that saturate, the squared error of the others.
Damage = tuple[int, int, float]
#: Random directions in which outputs are derived.
_DIRECTIONS: Final = 2


def _lowered(value: torch.Tensor, to: str, weight: bool) -> torch.Tensor:
    """Rounds a float64 tensor to a format, and holds it in float64. To int8: to whole steps, of a weight between ± its
    largest magnitude, of others between their extremes, zero among them. One scale for the whole tensor, as
    `quantize_static` chooses by default."""
    if to != "int8":
        return rounded(value.to(torch.float32).to(torch.float64), to)
    finite = torch.nan_to_num(value, nan=0.0, posinf=0.0, neginf=0.0)
    most = finite.abs().max() if finite.numel() else torch.zeros(())
    low, high = (-most, most) if weight else (finite.min().clamp_max(0), finite.max().clamp_min(0))
    step = (high - low) / 255
    return torch.where(step > 0, torch.round(value / step.clamp_min(1e-300)) * step, value)


@dataclass(slots=True)
class Edge:
    """A value that one operator (or the caller) reads. `roots`: the operators that made it.

    `overflows`: rounded, some element is infinite and the outputs depend on it. `saturates`: some element is +∞, and to
    first order nothing depends on it. `cost`: the squared effect of the other errors on the outputs, as a share of
    their largest magnitude.
    """

    roots: frozenset[int]
    reader: int
    overflows: bool = False
    saturates: bool = False
    cost: float = 0.0

    @property
    def damage(self) -> Damage:
        return int(self.overflows), int(self.saturates and not self.overflows), self.cost

    def account(self, exact: torch.Tensor, low: torch.Tensor, slope: torch.Tensor) -> None:
        """Adds the effect of rounding. `slope`: the derivative of the outputs."""
        lost = ~torch.isfinite(low) & torch.isfinite(exact)
        if bool(lost.any()):
            self.overflows |= bool((lost & (slope != 0)).any())
            self.saturates |= bool((lost & (low > 0)).any())
        error = torch.where(torch.isfinite(low) & torch.isfinite(exact), low - exact, 0.0)
        self.cost += float((torch.nan_to_num(slope, nan=0.0, posinf=1e100, neginf=-1e100) * error).square().sum())


@dataclass(frozen=True)
class Noise:
    """`outputs`: of the graph in float64. `edges`: the values that are rounded. `derived`: costs are by derivatives;
    False where some operator has none: then they are relative errors of the values."""

    outputs: tuple[torch.Tensor, ...]
    edges: tuple[Edge, ...]
    derived: bool


def measured_noise(graph: Graph, arrays: Sequence[Any], of: Candidates, to: str) -> Noise:
    """Measures the noise of a functional graph on inputs (numpy). Raises `OracleError`."""
    try:
        return _noise(graph, arrays, of, to, derive=True)
    except OracleMemoryError:
        raise
    except (OracleError, *OPERATOR_ERRORS):  # an operator has no derivative
        return _noise(graph, arrays, of, to, derive=False)


def _noise(graph: Graph, arrays: Sequence[Any], of: Candidates, to: str, derive: bool) -> Noise:
    values: dict[int, Any] = dict(enumerate(input_tensors(graph, arrays)))
    edges: list[tuple[Edge, torch.Tensor, bool]] = []

    def read(number: int, reader: int) -> Any:
        """Returns a value as one node reads it. Each float has its own place in the derivative."""
        value = values[number]
        if not isinstance(value, torch.Tensor) or not is_wide(graph, number):
            return value
        wide = widen(value)
        if derive:
            wide = wide.view_as(wide) if wide.requires_grad else wide.detach().requires_grad_()
        roots = of.roots[number]
        if reader != _NO_OPERATOR and roots != frozenset((reader,)) and (roots or reader != CALLER):
            weight = number < len(graph.inputs) and graph.inputs[number].role not in ("input", "random")
            edges.append((Edge(roots, reader), wide, weight))
        return wide

    with neutral_float64(), torch.set_grad_enabled(derive):
        for index, call in enumerate(Float64Graph(graph).calls):
            owner = of.owner[index] if of.owner[index] >= 0 else _NO_OPERATOR
            reads = {number: read(number, owner) for number in operands(call.node)}
            args, kwargs = replace(call, large=None).bind(cast("Values", reads))
            results = _normalised(call.packet, args) if derive else None
            values.update(enumerate(results or evaluate(call, args, kwargs), start=graph.first_value[index]))
        outputs = [read(number, CALLER) for number in graph.outputs]
        for slopes in _slopes(outputs, [wide for _, wide, _ in edges]) if derive else [None]:
            for number, (edge, wide, weight) in enumerate(edges):
                exact = wide.detach()
                if slopes is None:
                    slope = torch.ones_like(exact) / exact.square().sum().sqrt().clamp_min(1e-300)
                else:
                    slope = slopes[number]
                if slope is not None:
                    edge.account(exact, _lowered(exact, to, weight), slope)
    return Noise(tuple(y.detach() for y in outputs), tuple(edge for edge, _, _ in edges), derive)


def _normalised(packet: str, args: Sequence[Any]) -> list[Any] | None:
    """Batch normalisation by running statistics, by which PyTorch's operator has no derivative; None for others."""
    if packet != "batch_norm" or len(args) < 8 or args[5] or args[3] is None:
        return None
    x, weight, bias, mean, variance = args[:5]
    shape = (1, -1, *(1,) * (x.dim() - 2))
    scaled = (x - mean.view(shape)) * torch.rsqrt(variance.view(shape) + args[7])
    scaled = scaled if weight is None else scaled * weight.view(shape)
    return [scaled if bias is None else scaled + bias.view(shape)]


def _slopes(outputs: Sequence[Any], reads: Sequence[torch.Tensor]) -> Iterator[Sequence[torch.Tensor | None]]:
    """Derives random sums of all outputs, each a share of its largest magnitude, by what was read."""
    generator = torch.Generator().manual_seed(0)
    floats = [y for y in outputs if isinstance(y, torch.Tensor) and y.requires_grad and y.numel()]
    for _ in range(_DIRECTIONS if floats and reads else 0):
        seeds: list[torch.Tensor] = []
        for y in floats:
            largest = torch.where(torch.isfinite(y), y, 0.0).detach().abs().max().clamp_min(1e-300)
            signs = torch.empty(y.shape, dtype=torch.float64).bernoulli_(0.5, generator=generator) * 2 - 1
            seeds.append((signs / (largest * _DIRECTIONS**0.5)).to(y.dtype))
        yield torch.autograd.grad(floats, reads, seeds, retain_graph=True, allow_unused=True)
