"""Makes neighbours of a reduced graph that differ in one thing: rank, sizes, dtype, values, layout, an attribute.

Specs of results are stale in what is made here: the graph must be run before it is used. It may not run at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from mindgap.aten.operators import facts, overload, packet_of
from mindgap.aten.torch_private.overloads import schema_of
from mindgap.findings.reduction import edits
from mindgap.graph import (
    Arg,
    Constant,
    Graph,
    GraphError,
    Input,
    Node,
    Recipe,
    Ref,
    TensorSpec,
    TensorStore,
    Uniform,
    contiguous_stride,
    materialise,
    numpy_dtype,
    refs,
)

#: What a neighbour differs in. An attribute's axis ends with its name and the node's number: `attribute alpha 0`.
Axis = Literal["rank", "size", "dtype", "values", "layout", "attribute", "role"]
SIZES: Final = (0, 1, 2, 5, 8)
FLOATS: Final = ("float32", "float64", "float16", "bfloat16")
OTHERS: Final = ("int64", "int32", "bool")
_SEED: Final = 20261124
#: A shape of ordinary size for each rank.
NATURAL: Final[dict[int, tuple[int, ...]]] = {
    0: (), 1: (8,), 2: (4, 8), 3: (2, 3, 8), 4: (2, 3, 8, 8), 5: (2, 3, 4, 8, 8),
}  # fmt: skip
#: Arguments that name a dimension.
_DIMENSIONS: Final = frozenset({"dim", "dim0", "dim1", "dims", "start_dim", "end_dim"})


@dataclass(frozen=True, slots=True)
class AttributeParameter:
    """An argument of a node that is no tensor. `default`: of the schema, where `has_default`."""

    name: str
    place: int | str
    value: Arg
    given: bool
    has_default: bool
    default: Arg


def rank_of(graph: Graph) -> int:
    """Returns the number of dimensions of what the first operator reads first, or else of the largest input."""
    first = next((index for node in graph.nodes for arg in node.args[:1] for index in refs(arg)), -1)
    if 0 <= first < len(graph.inputs):
        return len(graph.inputs[first].spec.shape)
    return max((len(given.spec.shape) for given in graph.inputs), default=0)


def with_rank(graph: Graph, rank: int, tensors: TensorStore | None, *, every: bool) -> Graph:
    """Returns the graph with inputs of another rank: those of its rank, or, with `every`, all of them.

    Leading dimensions are dropped, or repeated; a number gets dimensions of size 2. Empty inputs stay empty. Raises
    `GraphError` where that cannot be.
    """
    change = rank - rank_of(graph)
    shapes: list[tuple[int, ...]] = []
    for given in graph.inputs:
        shape = given.spec.shape
        if every or len(shape) == rank_of(graph):
            shape = shape[:1] * change + shape if shape and change > 0 else (2,) * change + shape[max(-change, 0) :]
            if not given.spec.numel and 0 not in shape:
                if not shape:
                    raise GraphError("a number is not empty")
                shape = (*shape[:-1], 0)
        shapes.append(shape)
    return with_shapes(graph, shapes, tensors)


def with_sizes(graph: Graph, size: int, tensors: TensorStore | None, only: tuple[int, int] | None = None) -> Graph:
    """Returns the graph with all dimensions of all inputs of one size, or `only` dimension d of input i."""
    shapes = [
        tuple(size if only is None or only == (number, d) else s for d, s in enumerate(given.spec.shape))
        for number, given in enumerate(graph.inputs)
    ]
    return with_shapes(graph, shapes, tensors)


def with_shapes(graph: Graph, shapes: Sequence[tuple[int, ...]], tensors: TensorStore | None) -> Graph:
    """Returns the graph with inputs of other shapes in the same layout; elements repeat as often as needed."""
    inputs = [_shaped(given, shape, tensors) for given, shape in zip(graph.inputs, shapes, strict=True)]
    return with_layout(Graph(tuple(inputs), graph.nodes, graph.outputs), layout_of(graph))


def _shaped(given: Input, shape: tuple[int, ...], tensors: TensorStore | None) -> Input:
    if shape == given.spec.shape:
        return given
    array = materialise(given, tensors)
    if not array.size:
        array = np.ones(1, array.dtype) if given.spec.kind != "int" else np.zeros(1, array.dtype)
    return Input(TensorSpec.contiguous(given.spec.dtype, shape), edits.kept(given, np.resize(array, shape)), given.role)


#: Name of values -> the words for inputs that hold them.
VALUES: Final[dict[str, str]] = {
    "uniform": "values in [-1, 1)",
    "zeros": "zeros",
    "ones": "ones",
    "large": "large values (1e4)",
    "tiny": "values near 0 (1e-6)",
    "negative": "negative values",
    "integers": "whole numbers",
    "nan": "NaN",
}


def with_values(graph: Graph, name: str, tensors: TensorStore | None, *, first: bool = False) -> Graph:
    """Returns the graph with float inputs that hold the values `name`. `first`: the first of them alone."""
    numbers = [number for number, given in enumerate(graph.inputs) if given.spec.kind in ("float", "complex")]
    inputs = list(graph.inputs)
    for number in numbers[:1] if first else numbers:
        given = inputs[number]
        inputs[number] = Input(given.spec, _filled(given, name, number, tensors), given.role)
    return Graph(tuple(inputs), graph.nodes, graph.outputs)


def _filled(given: Input, name: str, number: int, tensors: TensorStore | None) -> Recipe:
    seed = _SEED + number
    match name:
        case "zeros":
            return Constant(0.0)
        case "ones":
            return Constant(1.0)
        case "large":
            return Uniform(seed, -1e4, 1e4)
        case "tiny":
            return Uniform(seed, -1e-6, 1e-6)
        case "negative":
            return Uniform(seed, -2.0, -1.0)
        case "integers":
            array = np.random.default_rng(seed).integers(-4, 5, given.spec.shape).astype(numpy_dtype(given.spec.dtype))
            return edits.recipe_of(array)
        case "nan":
            array = materialise(given, tensors).copy()
            array.reshape(-1)[:1] = np.nan
            return edits.recipe_of(array)
        case _:
            return Uniform(seed, -1.0, 1.0)


def with_layout(graph: Graph, layout: str) -> Graph:
    """Returns the graph with inputs laid out as `contiguous`, `transposed` (last two dimensions) or `channels_last`."""
    inputs = [
        Input(TensorSpec(given.spec.dtype, given.spec.shape, strides), given.recipe, given.role)
        if (strides := _strides(given.spec.shape, layout)) is not None
        else given
        for given in graph.inputs
    ]
    return Graph(tuple(inputs), graph.nodes, graph.outputs)


#: Layout -> the ranks of tensors that can have it.
RANKS: Final = {"contiguous": range(9), "transposed": range(2, 9), "channels_last": (4,)}


def _strides(shape: tuple[int, ...], layout: str) -> tuple[int, ...] | None:
    """Returns strides in a layout, None where a tensor of this shape has none, or it is no layout by name."""
    if layout == "contiguous":
        return contiguous_stride(shape)
    rank = len(shape)
    orders = {"transposed": [*range(rank - 2), rank - 1, rank - 2], "channels_last": [0, 2, 3, 1]}
    if layout not in orders or rank not in RANKS[layout]:
        return None
    stride, step = [0] * rank, 1
    for dimension in reversed(orders[layout]):
        stride[dimension] = step
        step *= max(shape[dimension], 1)
    return tuple(stride)


def layout_of(graph: Graph) -> str:
    """Returns the layout of the inputs: `contiguous`, `transposed`, `channels_last`, or `strided` for another one."""
    for name in ("contiguous", "transposed", "channels_last"):
        if with_layout(graph, name).inputs == graph.inputs:
            return name
    return "strided"


def with_roles(graph: Graph, role: Literal["input", "constant"], number: int) -> Graph:
    """Returns the graph with one input in another role."""
    inputs = list(graph.inputs)
    inputs[number] = replace(inputs[number], role=role)
    return replace(graph, inputs=tuple(inputs))


def parameters(node: Node) -> Iterator[AttributeParameter]:
    """Yields the arguments of a node that are no tensors, with their defaults."""
    named = dict(node.kwargs)
    for place, argument in enumerate(schema_of(overload(node.op)).arguments):
        name, kind = str(argument.name), str(argument.real_type)
        if (
            "Tensor" in kind
            or "Device" in kind
            or "Layout" in kind
            or name in ("device", "layout", "pin_memory", "out")
        ):
            continue
        has_default = bool(argument.has_default_value())
        default = _plain(argument.default_value) if has_default else None
        at = place < len(node.args) and not argument.kwarg_only
        value = node.args[place] if at else named.get(name, default)
        if not any(True for _ in refs(value)):
            yield AttributeParameter(name, place if at else name, value, at or name in named, has_default, default)


def _plain(value: Any) -> Arg:
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] # schemas are untyped
    return value if isinstance(value, (bool, int, float, complex, str)) else None


def with_default(graph: Graph, node: int, parameter: AttributeParameter) -> Graph:
    """Returns the graph with an argument at its default."""
    if isinstance(parameter.place, str):
        return edits.without_argument(graph, node, parameter.place)
    return edits.with_argument(graph, node, parameter.place, parameter.default)


def with_value(graph: Graph, node: int, parameter: AttributeParameter, value: Arg) -> Graph:
    """Returns the graph with another value of an argument, given or not."""
    if parameter.given:
        return edits.with_argument(graph, node, parameter.place, value)
    old = graph.nodes[node]
    new = replace(old, kwargs=tuple(sorted((*old.kwargs, (parameter.name, value)))))
    return replace(graph, nodes=(*graph.nodes[:node], new, *graph.nodes[node + 1 :]))


def other_values(graph: Graph, node: int, parameter: AttributeParameter) -> list[Arg]:
    """Returns other values of an argument: a flag turned, a dimension counted from the other end, other numbers."""
    value = parameter.value
    match value:
        case bool():
            return [not value]
        case int() if parameter.name in _DIMENSIONS:
            rank = _rank_of_operand(graph, graph.nodes[node])
            turned: list[Arg] = [value - rank if value >= 0 else value + rank]
            return turned if rank else []
        case int():
            numbers: list[Arg] = [other for other in (2, 3) if other not in (value, parameter.default)]
            return numbers[:1]
        case float():
            return [other for other in (0.5, 2.0) if other not in (value, parameter.default)]
        case tuple() if value and all(isinstance(item, int) for item in value) and parameter.name not in _DIMENSIONS:
            return [tuple(2 if item != 2 else 3 for item in value)]
        case _:
            return []


def _rank_of_operand(graph: Graph, node: Node) -> int:
    operand = next((arg for arg in node.args if isinstance(arg, Ref)), None)
    spec = None if operand is None else graph.values[operand.index]
    return 0 if spec is None else len(spec.shape)


def natural_drafts(graph: Graph, tensors: TensorStore | None) -> Iterator[Callable[[], Graph]]:
    """Yields ways to make graphs with inputs of ordinary size, the most ordinary first."""
    ranks = [len(given.spec.shape) for given in graph.inputs]
    top = rank_of(graph)
    for rank in dict.fromkeys((max(top, 2), top)):
        if rank in NATURAL and len(set(ranks)) == 1:
            yield lambda shape=NATURAL[rank]: with_shapes(graph, [shape] * len(ranks), tensors)
    special = _by_operator(graph)
    if special is not None:
        yield lambda: with_shapes(graph, special, tensors)
    for size in (4, 3, 2):
        yield lambda size=size: with_sizes(graph, size, tensors)


def _by_operator(graph: Graph) -> list[tuple[int, ...]] | None:
    """Returns ordinary shapes for products, convolutions and normalisations; None for other graphs."""
    if len(graph.nodes) != 1 or any(index >= len(graph.inputs) for arg in graph.nodes[0].args for index in refs(arg)):
        return None
    node = graph.nodes[0]
    shapes = [given.spec.shape for given in graph.inputs]
    names = dict(zip(facts(node.op).arguments, node.args, strict=False))
    packet = packet_of(node.op)
    wanted: dict[str, tuple[int, ...]] = {}
    top = rank_of(graph)
    if "conv" in packet and top in NATURAL and "weight" in names:
        image, window = NATURAL[top], (3,) * (top - 2)
        wanted = {"input": image, "self": image, "weight": (3, 3, *window), "bias": (3,)}
    elif "norm" in packet and top in NATURAL and top >= 2:
        wanted = {"input": NATURAL[top], "self": NATURAL[top]}
        wanted |= dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (NATURAL[top][1],))
    elif packet in ("mm", "addmm", "matmul", "linear") and top == 2:
        wanted = {
            "self": (4, 8),
            "mat1": (4, 8),
            "input": (4, 8),
            "mat2": (8, 5),
            "other": (8, 5),
            "weight": (5, 8),
            "bias": (5,),
        }
        wanted |= {"self": (4, 5)} if packet == "addmm" else {}
    for name, shape in wanted.items():
        arg = names.get(name)
        if isinstance(arg, Ref) and (len(shapes[arg.index]) == len(shape) or name in ("input", "self")):
            shapes[arg.index] = shape
    return shapes if wanted else None
