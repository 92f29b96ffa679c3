"""Quantised operators as captured graphs have them, and integers as right and wrong platforms give them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from judge.oracle.bench import build
from mindgap.aten.tape import Tape
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import Array, DType, Graph
from mindgap.judge.quantised import QuantisedExamination, QuantisedValue, examine_quantised, quantised_values

Call = tuple[Any, ...]
LIMITS = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}
ZERO = {"uint8": 120, "int8": -5, "uint16": 32000, "int16": 0}


@dataclass(frozen=True)
class Case:
    """One quantised operator: `x`, the exact quotients, in float64, and what decides integers of them."""

    graph: Graph
    inputs: list[Array]
    value: QuantisedValue
    x: Array
    zero: int
    dtype: str

    def integers(self, steps: Array) -> Array:
        """Quantises quotients as ONNX defines it."""
        return np.clip(np.rint(steps) + self.zero, *LIMITS[self.dtype]).astype(self.dtype)

    def computed(self) -> Array:
        """The integers that float32 arithmetic gives."""
        with torch.no_grad():
            tensors = [to_torch(a, i.spec) for a, i in zip(self.inputs, self.graph.inputs, strict=True)]
            return to_numpy(Tape(self.graph).run(tensors)[0])

    def examined(self, integers: Array, narrow: bool = True) -> QuantisedExamination:
        """What is found of a platform's integers. `narrow`: it computes float32 in float16."""
        return examine_quantised(self.graph, self.inputs, {self.value.number: integers}, [integers], narrow)[0]


@dataclass(frozen=True)
class Operand:
    """A quantised operand: integers, a scale for all or for each channel of the first dimension, a zero point."""

    integers: Array
    scale: Any
    zero: int = 0

    @property
    def real(self) -> Array:
        """The exact values, in float64."""
        scale = np.asarray(self.scale, np.float32).astype(np.float64)
        shape = [-1, *[1] * (self.integers.ndim - 1)] if scale.ndim else []
        return (self.integers.astype(np.float64) - self.zero) * scale.reshape(shape)


def quantised(
    operands: Sequence[Operand], calls: Sequence[Call], right: Callable[..., Array], dtype: str, scale: float
) -> Case:
    """Dequantises the operands to `d0`, `d1`, …, calls operators that give `v`, and quantises that. `right`: computes
    the same of the exact values."""
    arrays: list[Array] = []
    nodes: list[Call] = []
    for index, each in enumerate(operands):
        factors = np.asarray(each.scale, np.float32)
        factors = factors.reshape([-1, *[1] * (each.integers.ndim - 1)] if factors.ndim else [])
        arrays += [each.integers, factors]
        nodes += [
            (f"w{index}", "aten.to.dtype", f"i{2 * index}", DType("int32")),
            (f"m{index}", "aten.sub.Tensor", f"w{index}", each.zero),
            (f"f{index}", "aten.to.dtype", f"m{index}", DType("float32")),
            (f"d{index}", "aten.mul.Tensor", f"f{index}", f"i{2 * index + 1}"),
        ]
    steps = np.asarray(scale, np.float32)
    zero, (low, high) = ZERO[dtype], LIMITS[dtype]
    nodes += [
        *calls, ("s", "aten.div.Tensor", "v", f"i{len(arrays)}"), ("r", "aten.round.default", "s"),
        ("a", "aten.add.Tensor", "r", zero), ("c", "aten.clamp.default", "a", low, high),
        ("q", "aten.to.dtype", "c", DType(dtype)),
    ]  # fmt: skip
    graph = build([*arrays, steps], nodes, ["q"])
    (value,) = quantised_values(graph)
    exact = right(*(each.real for each in operands)) / float(steps)
    return Case(graph, [*arrays, steps], value, exact, zero, dtype)


def drawn(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    """Integers of the whole range."""
    low, high = LIMITS[dtype]
    return np.random.default_rng(seed).integers(low, high + 1, shape).astype(dtype)


def numpy_of(function: Callable[..., torch.Tensor]) -> Callable[..., Array]:
    """A function of float64 tensors as one of arrays."""
    return lambda *arrays: function(*[torch.from_numpy(np.ascontiguousarray(a)) for a in arrays]).numpy()
