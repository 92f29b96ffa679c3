"""Gives operands values that their operator takes: positive ones for a logarithm, boxes inside the picture, axes that
exist."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindgap.graph import Constant, Integers, Literal, Recipe, Uniform
from mindgap.onnx_files.model_proto import op_of

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DrawnOperand:
    """An input of a model as an operand of one of its nodes.

    dtype: numpy's. shapes: of inputs and weights by name. declared: of outputs, where all sizes are numbers.
    """

    node: Any
    shape: Shape
    dtype: np.dtype[Any]
    seed: int
    shapes: Mapping[str, Shape]
    declared: Mapping[str, Shape]

    def of(self, position: int) -> Shape:
        """Returns the shape of another operand; () where it is not known."""
        names = self.node.input
        return self.shapes.get(names[position], ()) if position < len(names) else ()

    def integer(self, name: str, default: int) -> int:
        return next((each.i for each in self.node.attribute if each.name == name), default)

    def holding(self, values: Sequence[float] | Any) -> Recipe:
        """Returns the recipe of these values, repeated in order or cut to the operand's shape."""
        array = np.resize(np.asarray(values), math.prod(self.shape)).astype(self.dtype)
        return Literal(array.tobytes())


Rule = Callable[[DrawnOperand], Recipe | None]
#: Values of the operands of operators, by position.
_RULES: dict[tuple[str, int], Rule] = {}


def values_for(operand: DrawnOperand, position: int) -> Recipe | None:
    """Returns the recipe of values that the node takes at this position; None where any will do."""
    rule = _RULES.get((op_of(operand.node), position))
    return None if rule is None or not math.prod(operand.shape) else rule(operand)


def _takes(*places: tuple[str, int]) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        _RULES.update(dict.fromkeys(places, rule))
        return rule

    return add


def _between(low: float, high: float) -> Rule:
    return lambda operand: Uniform(operand.seed, low, high) if operand.dtype.kind not in "iub" else None


def _all(value: int | float | bool) -> Rule:
    return lambda operand: Constant(bool(value) if operand.dtype.kind == "b" else value)


_takes(("Log", 0), ("Sqrt", 0), ("Pow", 0), ("Reciprocal", 0))(_between(0.1, 2.0))
_takes(("BatchNormalization", 4), ("Bernoulli", 0), ("NonMaxSuppression", 1))(_between(0.2, 0.9))
_takes(("QuantizeLinear", 1), ("DequantizeLinear", 1))(_between(0.01, 0.1))
_takes(("Asin", 0), ("Acos", 0), ("Atanh", 0))(_between(-0.9, 0.9))
_takes(("Acosh", 0))(_between(1.1, 3.0))
_takes(("Clip", 1))(_all(-0.5))
_takes(("Clip", 2), ("Dropout", 1))(_all(0.5))
_takes(("Dropout", 2), ("Slice", 1), ("CumSum", 1), ("Range", 0))(_all(0))
_takes(("Slice", 2))(_all(1 << 30))
_takes(("Slice", 4), ("Range", 2), ("Loop", 1))(_all(1))
_takes(("Tile", 1), ("ConstantOfShape", 0))(_all(2))
_takes(("Loop", 0), ("Range", 1), ("OneHot", 1))(_all(3))


@_takes(("Slice", 3), ("Unsqueeze", 1), ("Pad", 3), *((f"Reduce{kind}", 1) for kind in (
    "Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")))  # fmt: skip
def _axes(operand: DrawnOperand) -> Recipe:
    return operand.holding(np.arange(math.prod(operand.shape)))


@_takes(("Squeeze", 1))
def _size_one_recipe(operand: DrawnOperand) -> Recipe | None:
    axes = [axis for axis, size in enumerate(operand.of(0)) if size == 1]
    return operand.holding(axes) if len(axes) >= math.prod(operand.shape) else None


@_takes(("Reshape", 1), ("Expand", 1))
def _declared_shape(operand: DrawnOperand) -> Recipe | None:
    shape = operand.declared.get(operand.node.output[0])
    if shape is not None and len(shape) == math.prod(operand.shape):
        return operand.holding(shape)
    return operand.holding([-1] + [1] * (math.prod(operand.shape) - 1)) if operand.node.op_type == "Reshape" else None


@_takes(("Split", 1))
def _equal_parts(operand: DrawnOperand) -> Recipe | None:
    shape, count = operand.of(0), math.prod(operand.shape)
    if not shape:
        return None
    size = shape[operand.integer("axis", 0)]
    return operand.holding([size // count] * (count - 1) + [size - size // count * (count - 1)])


@_takes(("Resize", 1), ("Resize", 2), ("Upsample", 1))
def _scales(operand: DrawnOperand) -> Recipe | None:
    count = math.prod(operand.shape)
    if operand.node.op_type == "Resize" and len(operand.node.input) > 2 and operand.node.input[2] not in operand.shapes:
        return None
    return operand.holding([1.0] * (count - 2) + [2.0] * min(count, 2))


@_takes(("Resize", 3))
def _sizes(operand: DrawnOperand) -> Recipe | None:
    shape, count = operand.of(0), math.prod(operand.shape)
    return operand.holding([*shape[:-2], *(2 * size for size in shape[-2:])][-count:]) if shape else None


@_takes(("LSTM", 4), ("GRU", 4), ("RNN", 4), ("ReverseSequence", 1))
def _lengths(operand: DrawnOperand) -> Recipe | None:
    shape = operand.of(0)
    axis = operand.integer("time_axis", 0) if operand.node.op_type == "ReverseSequence" else 0
    return Constant(shape[axis]) if shape else None


@_takes(("RoiAlign", 2))
def _examples(operand: DrawnOperand) -> Recipe | None:
    return Integers(operand.seed, 0, operand.of(0)[0]) if operand.of(0) else None


@_takes(("RoiAlign", 1), ("NonMaxSuppression", 0))
def _boxes(operand: DrawnOperand) -> Recipe | None:
    """Corners (x1, y1, x2, y2), the second below and to the right of the first."""
    picture = operand.of(0) if operand.node.op_type == "RoiAlign" else (1,)
    scale = next((each.f for each in operand.node.attribute if each.name == "spatial_scale"), 1.0)
    side = min(picture[-2:], default=1) / (scale or 1.0)
    first = np.random.default_rng(operand.seed).uniform(0, side / 2, (math.prod(operand.shape) // 4, 2))
    return operand.holding(np.concatenate([first, first + side * 0.45], 1))


@_takes(("SoftmaxCrossEntropyLoss", 1), ("NegativeLogLikelihoodLoss", 1))
def _classes(operand: DrawnOperand) -> Recipe | None:
    return Integers(operand.seed, 0, operand.of(0)[1]) if len(operand.of(0)) > 1 else None


@_takes(("GatherND", 1))
def _positions(operand: DrawnOperand) -> Recipe | None:
    batch, depth = operand.integer("batch_dims", 0), operand.shape[-1]
    sizes = operand.of(0)[batch : batch + depth]
    return Integers(operand.seed, 0, min(sizes)) if sizes else None


@_takes(("ScatterND", 1), ("ScatterElements", 1), ("Scatter", 1))
def _distinct_positions(operand: DrawnOperand) -> Recipe | None:
    """Positions in order: where two are equal, no order of writing is defined."""
    sizes = operand.of(0)
    if not sizes:
        return None
    if operand.node.op_type == "ScatterND":
        rows = [np.unravel_index(at, sizes[: operand.shape[-1]]) for at in range(math.prod(operand.shape[:-1]))]
        return operand.holding(rows) if len(rows) <= math.prod(sizes[: operand.shape[-1]]) else None
    axis = operand.integer("axis", 0)
    along = np.arange(operand.shape[axis]) % sizes[axis]
    return operand.holding(np.broadcast_to(np.expand_dims(along, _others(axis, operand.shape)), operand.shape))


def _others(axis: int, shape: Shape) -> tuple[int, ...]:
    return tuple(each for each in range(len(shape)) if each != axis % len(shape))


@_takes(("Mod", 1), ("Div", 1))
def _divisors(operand: DrawnOperand) -> Recipe | None:
    return None if operand.dtype.kind not in "iu" else Integers(operand.seed, 1, 8)


@_takes(("BitShift", 1))
def _shifts(operand: DrawnOperand) -> Recipe:
    return Integers(operand.seed, 0, 4)
