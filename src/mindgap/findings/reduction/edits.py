"""Smaller versions of a graph, each by one kind of change. None is checked here: an edit may not even run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.dead_nodes import known_at_load, with_constants
from mindgap.aten.tape import Tape
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import (
    Arg,
    Constant,
    DType,
    Graph,
    GraphError,
    Input,
    Literal,
    Node,
    Recipe,
    Ref,
    TensorSpec,
    TensorStore,
    contiguous_stride,
    extract,
    materialise,
    materialise_all,
    numpy_dtype,
    operands,
    renumbered,
)

Array = np.ndarray[Any, np.dtype[Any]]
#: A dtype -> the next narrower one of its kind. A kernel of another float dtype is another cause: floats keep theirs.
NARROWER: Final = {"int64": "int32"}


class _Enough(Exception):
    """Every operand that was wanted is known."""


def contents(graph: Graph, wanted: Sequence[tuple[int, int]], tensors: TensorStore | None) -> dict[int, Array]:
    """What values hold when a node reads them, by eager PyTorch on the CPU.

    `wanted`: pairs (value, node); the value's contents are copied just before the node runs, so that writes in place
    that came before are in them. Raises `GraphError` where the graph does not run.
    """
    at: dict[int, list[int]] = {}
    for value, node in wanted:
        at.setdefault(node, []).append(value)
    contents_by_number: dict[int, Array] = {}
    values: dict[int, torch.Tensor] = {}
    number = len(graph.inputs)

    def call(index: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        for value in at.get(index, ()):
            contents_by_number[value] = to_numpy(values[value])
        if len(contents_by_number) == len(wanted):
            raise _Enough
        return function(*args, **kwargs)

    def note(_: int, results: list[torch.Tensor | None]) -> None:
        nonlocal number
        for result in results:
            if result is not None and any(value == number for value, _ in wanted):
                values[number] = result
            number += 1

    inputs = [
        to_torch(array, given.spec) for array, given in zip(materialise_all(graph, tensors), graph.inputs, strict=True)
    ]
    try:
        with torch.no_grad():
            Tape(graph).run(inputs, note, call)
    except _Enough:
        pass
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise GraphError(f"the graph does not run: {error}") from None
    return contents_by_number


def part(
    graph: Graph, nodes: Sequence[int], outputs: Sequence[int], tensors: TensorStore | None, *, folded: bool = False
) -> Graph:
    """The nodes (in execution order) as a graph; values that other nodes make become inputs with their contents.

    `folded`: those of them become constants that the graph knows when it is loaded. Raises `GraphError` where there is
    no such part, or no such value.
    """
    small, borders = extract(graph, nodes, outputs)
    constant = with_constants(small, borders, known_at_load(graph)) if folded else small
    if constant is None:
        raise GraphError("no value of the part's operands is known when the graph is loaded")
    readers = {value: node for node in reversed(nodes) for value in operands(graph.nodes[node])}
    unread = [value for value in borders if value not in readers]
    if unread:
        raise GraphError(f"value {unread[0]} is returned and not made here")
    held = contents(graph, [(v, readers[v]) for v in borders if v >= len(graph.inputs)], tensors)
    inputs = [
        Input(given.spec, recipe_of(held[value]), given.role) if value in held else given
        for value, given in zip(borders, constant.inputs, strict=True)
    ]
    return Graph(tuple(inputs), small.nodes, small.outputs)


def with_outputs(graph: Graph, outputs: Sequence[int]) -> Graph:
    """The graph with these outputs."""
    return replace(graph, outputs=tuple(outputs))


def bypassed(graph: Graph, node: int, operand: int) -> Graph:
    """The graph without a node of one result, whose readers read its operand instead."""
    result = graph.first_value[node]
    renumber = {v: v - (v > result) for v in range(len(graph.values))}
    renumber[result] = operand if operand < result else operand - 1
    nodes = [renumbered(each, renumber) for index, each in enumerate(graph.nodes) if index != node]
    return Graph(graph.inputs, tuple(nodes), tuple(dict.fromkeys(renumber[v] for v in graph.outputs)))


def revalued(graph: Graph, number: int, array: Array | Recipe) -> Graph:
    """The graph with other contents of one input, of the same shape and dtype."""
    given = graph.inputs[number]
    recipe = recipe_of(array) if isinstance(array, np.ndarray) else array
    return _with_input(graph, number, Input(given.spec, recipe, given.role))


def resized(
    graph: Graph, takes: Callable[[int, int, int], int], old: int, new: int, tensors: TensorStore | None,
    attributes: bool, last: bool = False,
) -> Graph:  # fmt: skip
    """The graph with smaller inputs: of dimension d, of size s, of input i the first `takes(i, d, s)` are kept;
    the last ones where `last`.

    Whole numbers that all lie in `range(old)` are taken modulo `new`: they may be positions there.
    `attributes`: arguments that equal `old` become `new`. Specs of results are stale: the graph must be run.
    """
    inputs: list[Input] = []
    for number, given in enumerate(graph.inputs):
        shape = tuple(takes(number, d, size) for d, size in enumerate(given.spec.shape))
        array = materialise(given, tensors)
        positions = given.spec.kind == "int" and array.size and array.min() >= 0 and array.max() < old
        if shape == given.spec.shape and not (positions and array.max() >= new):
            inputs.append(given)
            continue
        sizes = zip(array.shape, shape, strict=True)
        window = tuple(slice(before - after, before) if last else slice(after) for before, after in sizes)
        small = np.ascontiguousarray(array[window]).reshape(shape)
        small = small % new if positions and new else small
        inputs.append(Input(_respec(given.spec, shape), kept(given, small), given.role))
    nodes = with_arguments(graph, lambda arg: _replaced(arg, old, new)) if attributes else graph.nodes
    return Graph(tuple(inputs), nodes, graph.outputs)


def without_dimension(graph: Graph, tensors: TensorStore | None) -> Graph:
    """The graph with inputs that lack a leading dimension of size 1."""
    inputs: list[Input] = []
    for given in graph.inputs:
        spec = given.spec
        if len(spec.shape) > 1 and spec.shape[0] == 1:
            left = TensorSpec(spec.dtype, spec.shape[1:], spec.stride[1:])
            given = Input(left, kept(given, materialise(given, tensors)[0]), given.role)
        inputs.append(given)
    return Graph(tuple(inputs), graph.nodes, graph.outputs)


def with_dtype(graph: Graph, old: str, new: str, tensors: TensorStore | None) -> Graph:
    """The graph with all inputs and arguments of one dtype in another. Specs of results are stale."""
    inputs: list[Input] = []
    for given in graph.inputs:
        if given.spec.dtype == old:
            with np.errstate(all="ignore"):
                array = materialise(given, tensors).astype(numpy_dtype(new))
            spec = replace(given.spec, dtype=new)
            given = Input(spec, kept(given, array) if spec.kind == given.spec.kind else recipe_of(array), given.role)
        inputs.append(given)
    return Graph(tuple(inputs), with_arguments(graph, lambda arg: _retyped(arg, old, new)), graph.outputs)


def with_argument(graph: Graph, node: int, place: int | str, arg: Arg) -> Graph:
    """The graph with another argument of one node. `place`: a position, or the name of a keyword."""
    old = graph.nodes[node]
    args = tuple(arg if position == place else a for position, a in enumerate(old.args))
    kwargs = tuple((name, arg if name == place else a) for name, a in old.kwargs)
    return _with_node(graph, node, replace(old, args=args, kwargs=kwargs))


def without_argument(graph: Graph, node: int, place: str | None) -> Graph:
    """The graph with one keyword of a node left out, or, for None, its last positional argument."""
    old = graph.nodes[node]
    args = old.args[:-1] if place is None else old.args
    kwargs = tuple((name, a) for name, a in old.kwargs if name != place)
    return _with_node(graph, node, replace(old, args=args, kwargs=kwargs))


def dense(graph: Graph, number: int, tensors: TensorStore | None) -> Graph:
    """The graph with one input laid out contiguously."""
    given = graph.inputs[number]
    spec = TensorSpec.contiguous(given.spec.dtype, given.spec.shape)
    return _with_input(graph, number, Input(spec, kept(given, materialise(given, tensors)), given.role))


def simpler_arguments(arg: Arg) -> list[Arg]:
    """Simpler versions of an argument, the simplest first.

    A float that is a power of ten stays: an epsilon of 0 is simpler, and public functions refuse it.
    """
    match arg:
        case bool():
            return [False] if arg else []
        case int():
            return [n for n in dict.fromkeys((0, 1, 2, abs(arg), arg // 2)) if (abs(n), n < 0) < (abs(arg), arg < 0)]
        case float() if math.isfinite(arg) and not f"{arg:e}".startswith("1.000000e"):
            near = [float(round(arg))] if abs(arg) < 1e15 else []
            return [n for n in (0.0, 1.0, 2.0, *near, float(f"{arg:.1g}"), float(f"{arg:.2g}")) if n != arg]
        case tuple() if arg and not any(isinstance(item, (Ref, tuple)) for item in arg):
            simpler_forms: list[Arg] = [arg[:-1]] if len(arg) > 1 else []
            for place, item in enumerate(arg):
                simpler_forms += [(*arg[:place], simpler, *arg[place + 1 :]) for simpler in simpler_arguments(item)]
            return simpler_forms
        case _:
            return []


def _with_input(graph: Graph, number: int, given: Input) -> Graph:
    inputs = list(graph.inputs)
    inputs[number] = given
    return replace(graph, inputs=tuple(inputs))


def _with_node(graph: Graph, index: int, node: Node) -> Graph:
    return replace(graph, nodes=(*graph.nodes[:index], node, *graph.nodes[index + 1 :]))


def recipe_of(array: Array) -> Recipe:
    """The recipe of these elements."""
    return Literal(np.ascontiguousarray(array).tobytes())


def kept(given: Input, array: Array) -> Recipe:
    """The recipe for some of an input's elements: a constant stays one."""
    return given.recipe if isinstance(given.recipe, Constant) else recipe_of(array)


def _respec(spec: TensorSpec, shape: tuple[int, ...]) -> TensorSpec:
    """The spec with another shape, and strides in the same order; expanded dimensions stay expanded."""
    if shape == spec.shape:
        return spec
    if spec.stride == contiguous_stride(spec.shape):
        return TensorSpec.contiguous(spec.dtype, shape)
    stride, step = [0] * len(shape), 1
    for dimension in sorted(range(len(shape)), key=lambda d: (spec.stride[d], -d)):
        if spec.stride[dimension] or spec.shape[dimension] <= 1:
            stride[dimension] = step
            step *= max(shape[dimension], 1)
    return TensorSpec(spec.dtype, shape, tuple(stride))


def with_arguments(graph: Graph, change: Callable[[Arg], Arg]) -> tuple[Node, ...]:
    """The graph's nodes with every argument changed."""
    return tuple(
        Node(n.op, tuple(map(change, n.args)), tuple((name, change(arg)) for name, arg in n.kwargs), n.outputs)
        for n in graph.nodes
    )


def _replaced(arg: Arg, old: int, new: int) -> Arg:
    if isinstance(arg, tuple):
        return tuple(_replaced(item, old, new) for item in arg)
    return new if isinstance(arg, int) and not isinstance(arg, bool) and arg == old else arg


def _retyped(arg: Arg, old: str, new: str) -> Arg:
    """The argument with one dtype replaced by another."""
    if isinstance(arg, tuple):
        return tuple(_retyped(item, old, new) for item in arg)
    return DType(new) if arg == DType(old) else arg
