"""The passes of a reduction. Each docstring states what holds of the graph when the pass has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from mindgap.findings.reduction import edits
from mindgap.findings.reduction.reducer import Reducer
from mindgap.graph import Constant, Graph, TensorStore, contiguous_stride, materialise, operands

#: Graphs, each made when it is called, which raises `GraphError` where there is none.
Candidates = Iterator[Callable[[], Graph]]
#: Steps that are tried one by one before the search doubles them.
_LINEAR = 4


def find_integer(works: Callable[[int], bool], most: int) -> int:
    """The largest n up to `most` for which `works(n)`, where `works` is true up to some n and false above it.

    `works(0)` is taken to be true. Small answers cost one call more than their value, large ones a logarithm of it.
    Where `works` is not monotone the answer is some n that works while n + 1 does not, or `most`.
    """
    for n in range(1, min(_LINEAR, most) + 1):
        if not works(n):
            return n - 1
    if most <= _LINEAR:
        return most
    low, high = _LINEAR, 2 * _LINEAR
    while high < most and works(high):
        low, high = high, 2 * high
    if high >= most:
        if works(most):
            return most
        high = most
    while high - low > 1:
        middle = (low + high) // 2
        if works(middle):
            low = middle
        else:
            high = middle
    return low


#: Inputs of at most so many elements are simplified element by element.
_SINGLY: Final = 256


def only(reducer: Reducer, nodes: Sequence[int]) -> None:
    """We have tried the graph of these nodes alone, their operands as inputs, with each of their results as output."""
    any(map(reducer.consider, alone(reducer.graph, nodes, reducer.tensors)))


def alone(graph: Graph, nodes: Sequence[int], tensors: TensorStore | None) -> Candidates:
    """The graphs of these nodes alone: with the results of the last as outputs, then with all."""
    inside = sorted(set(nodes))
    made = [graph.first_value[n] + slot for n in inside for slot in range(len(graph.nodes[n].outputs))]
    outputs = [value for value in made if graph.values[value] is not None]
    yield from _parts(graph, inside, [value for value in outputs if graph.producer[value] == inside[-1]], tensors)
    yield from _parts(graph, inside, outputs, tensors)


def _parts(graph: Graph, nodes: Sequence[int], outputs: Sequence[int], tensors: TensorStore | None) -> Candidates:
    """A part: what other nodes made as inputs, then what is known when the graph is loaded as constants."""
    for folded in (False, True) if outputs else ():
        yield partial(edits.part, graph, nodes, outputs, tensors, folded=folded)


def _cut(reducer: Reducer, graph: Graph, nodes: Sequence[int], outputs: Sequence[int]) -> bool:
    return any(map(reducer.consider, _parts(graph, nodes, outputs, reducer.tensors)))


def fewer_outputs(reducer: Reducer) -> None:
    """For each output we have tried to return it alone, and to leave it out."""
    for value in reducer.graph.outputs:
        if len(reducer.graph.outputs) > 1 and value in reducer.graph.outputs:
            outputs = [value]
            if reducer.consider(lambda o=outputs: edits.with_outputs(reducer.graph, o)):
                return
    place = 0
    while place < len(reducer.graph.outputs) > 1:
        graph = reducer.graph

        def without(count: int, graph: Graph = graph, place: int = place) -> bool:
            left = graph.outputs[:place] + graph.outputs[place + count :]
            return bool(left) and reducer.consider(lambda: edits.with_outputs(graph, left))

        find_integer(without, len(graph.outputs) - place)
        place = place + 1 if reducer.graph is graph else place


def shorter_start(reducer: Reducer) -> None:
    """We cannot replace the first node by inputs with its results' contents."""
    graph = reducer.graph

    def without(count: int) -> bool:
        nodes = range(count, len(graph.nodes))
        made = {graph.first_value[n] + slot for n in nodes for slot in range(len(graph.nodes[n].outputs))}
        outputs = [value for value in graph.outputs if value in made]
        return _cut(reducer, graph, nodes, outputs)

    if len(graph.nodes) > 1 and not graph.grad:
        find_integer(without, len(graph.nodes) - 1)


def shorter_end(reducer: Reducer) -> None:
    """We cannot end the graph one node earlier, with the last results as outputs."""
    graph = reducer.graph

    def without(count: int) -> bool:
        nodes = range(len(graph.nodes) - count)
        read = {value for n in nodes for value in operands(graph.nodes[n])}
        made = [graph.first_value[n] + slot for n in nodes for slot in range(len(graph.nodes[n].outputs))]
        outputs = [v for v in made if graph.values[v] is not None and (v not in read or v in graph.outputs)]
        return _cut(reducer, graph, nodes, outputs)

    if len(graph.nodes) > 1 and not graph.grad:
        find_integer(without, len(graph.nodes) - 1)


def fewer_nodes(reducer: Reducer) -> None:
    """For each node we have tried to replace its results by inputs, and to let its readers read an operand instead."""
    node = len(reducer.graph.nodes) - 1
    while node >= 0 and len(reducer.graph.nodes) > 1 and not reducer.graph.grad:
        graph = reducer.graph
        if not _lift(reducer, graph, node):
            _bypass(reducer, graph, node)
        node = min(node, len(reducer.graph.nodes)) - 1


def _lift(reducer: Reducer, graph: Graph, node: int) -> bool:
    nodes = [n for n in range(len(graph.nodes)) if n != node]
    mine = {graph.first_value[node] + slot for slot in range(len(graph.nodes[node].outputs))}
    outputs = [value for value in graph.outputs if value not in mine]
    return _cut(reducer, graph, nodes, outputs)


def _bypass(reducer: Reducer, graph: Graph, node: int) -> bool:
    if len(graph.nodes[node].outputs) != 1:
        return False
    result = graph.nodes[node].outputs[0]
    return any(
        reducer.consider(lambda v=value: edits.bypassed(graph, node, v))
        for value in dict.fromkeys(operands(graph.nodes[node]))
        if (spec := graph.values[value]) is not None and result is not None and spec.shape == result.shape
    )


def smaller_shapes(reducer: Reducer) -> None:
    """We cannot lessen any size that inputs share, nor any single dimension of an input, by one."""
    for size in sorted({s for given in reducer.graph.inputs for s in given.spec.shape if s > 1}, reverse=True):
        for attributes in (True, False):
            _shrink(reducer, size, lambda _i, _d, s, size=size: s == size, attributes)
    for number in range(len(reducer.graph.inputs)):
        for dimension in range(_rank(reducer, number)):
            if number < len(reducer.graph.inputs) and dimension < _rank(reducer, number):
                size = reducer.graph.inputs[number].spec.shape[dimension]
                for attributes in (True, False):
                    _shrink(reducer, size, lambda i, d, _s, n=number, m=dimension: (i, d) == (n, m), attributes)
    reducer.consider(lambda: edits.without_dimension(reducer.graph, reducer.tensors))


def _rank(reducer: Reducer, number: int) -> int:
    inputs = reducer.graph.inputs
    return len(inputs[number].spec.shape) if number < len(inputs) else 0


def _shrink(reducer: Reducer, size: int, chosen: Callable[[int, int, int], bool], attributes: bool) -> None:
    """Lessens the chosen dimensions, all of one size, keeping their first elements, or else their last."""
    graph = reducer.graph

    def to(new: int, last: bool = False) -> bool:
        def takes(i: int, d: int, s: int) -> int:
            return min(new, s) if chosen(i, d, s) else s

        return reducer.consider(lambda: edits.resized(graph, takes, size, new, reducer.tensors, attributes, last))

    if size > 1 and not any(to(new, last) for new in (1, 2, 3) if new < size for last in (False, True)):
        find_integer(lambda less: to(size - less) or to(size - less, last=True), size - 1)


def simpler_values(reducer: Reducer) -> None:
    """For each input we have tried zeros, ones, fewer digits, and, where it is small, zero and one in each element."""
    number = 0
    while number < len(reducer.graph.inputs):
        for value in (0, 1):
            given = reducer.graph.inputs[number]
            recipe = Constant(bool(value) if given.spec.kind == "bool" else value)
            if reducer.consider(lambda n=number, r=recipe: edits.revalued(reducer.graph, n, r)):
                break
        else:
            _fewer_digits(reducer, number)
            _single_elements(reducer, number)
        number += 1


def _fewer_digits(reducer: Reducer, number: int) -> None:
    given = reducer.graph.inputs[number]
    if given.spec.kind not in ("float", "complex"):
        return
    array = materialise(given, reducer.tensors)
    with np.errstate(all="ignore"):
        wide = array.astype(np.complex128 if given.spec.kind == "complex" else np.float64)
        versions = [np.round(wide, digits) for digits in (0, 1, 2)]
        if given.spec.kind == "float":
            versions += [_significant(wide, digits) for digits in (1, 2, 3)]
        versions = [each.astype(array.dtype) for each in versions]
    for version in versions:
        if reducer.consider(lambda a=version: edits.revalued(reducer.graph, number, a)):
            return


def _significant(array: edits.Array, digits: int) -> edits.Array:
    """The elements rounded to so many significant digits."""
    size = np.abs(array)
    power = np.where((size > 0) & np.isfinite(size), np.floor(np.log10(np.where(size > 0, size, 1.0))), 0.0)
    scale = 10.0 ** (power - digits + 1)
    rounded: edits.Array = np.round(array / scale) * scale
    return np.where(np.isfinite(array), rounded, array)


def _single_elements(reducer: Reducer, number: int) -> None:
    """Blocks of elements set to zero, then to one: as many at once as keep the symptom."""
    if reducer.graph.inputs[number].spec.numel > _SINGLY:
        return
    for value in (0, 1):
        start = 0
        while start < (count := reducer.graph.inputs[number].spec.numel):
            array = materialise(reducer.graph.inputs[number], reducer.tensors)
            done = find_integer(lambda n, a=array, s=start, v=value: _set(reducer, number, a, s, n, v), count - start)
            start += max(done, 1)


def _set(reducer: Reducer, number: int, array: edits.Array, start: int, count: int, value: int) -> bool:
    changed = array.copy()
    flat = changed.reshape(-1)
    if (flat[start : start + count] == value).all():
        return True  # nothing to change: the search goes on beyond it
    flat[start : start + count] = value
    return reducer.consider(lambda: edits.revalued(reducer.graph, number, changed))


def simpler_arguments(reducer: Reducer) -> None:
    """For each argument we have tried to leave it out, and every simpler version of it."""
    node = 0
    while node < len(reducer.graph.nodes):
        count = len(reducer.graph.nodes)
        for name in [name for name, _ in reducer.graph.nodes[node].kwargs]:
            reducer.consider(lambda n=node, k=name: edits.without_argument(reducer.graph, n, k))
        while _same(reducer, count) and reducer.graph.nodes[node].args:
            if not reducer.consider(lambda n=node: edits.without_argument(reducer.graph, n, None)):
                break
        if not _same(reducer, count):
            node = 0  # a node that made an argument is gone, and nodes have other numbers
            continue
        places: list[int | str] = [*range(len(reducer.graph.nodes[node].args))]
        for place in [*places, *(name for name, _ in reducer.graph.nodes[node].kwargs)]:
            _simplify_argument(reducer, node, place)
        node += 1


def _same(reducer: Reducer, count: int) -> bool:
    return len(reducer.graph.nodes) == count


def _simplify_argument(reducer: Reducer, node: int, place: int | str) -> None:
    again = True
    while again:
        call = reducer.graph.nodes[node]
        arg = call.args[place] if isinstance(place, int) else dict(call.kwargs)[place]
        again = any(
            reducer.consider(lambda a=simpler: edits.with_argument(reducer.graph, node, place, a))
            for simpler in edits.simpler_arguments(arg)
        )


def narrower_dtypes(reducer: Reducer) -> None:
    """For each wide dtype we have tried the next narrower one throughout the graph."""
    for dtype, narrower in edits.NARROWER.items():
        if any(given.spec.dtype == dtype for given in reducer.graph.inputs):
            reducer.consider(lambda old=dtype, new=narrower: edits.with_dtype(reducer.graph, old, new, reducer.tensors))


def plain_layouts(reducer: Reducer) -> None:
    """For each input that is not contiguous we have tried a contiguous one."""
    for number, given in enumerate(reducer.graph.inputs):
        if given.spec.stride != contiguous_stride(given.spec.shape):
            reducer.consider(lambda n=number: edits.dense(reducer.graph, n, reducer.tensors))


#: In this order: what takes most away for one check comes first.
PASSES: Final[tuple[Callable[[Reducer], None], ...]] = (
    fewer_outputs, shorter_start, shorter_end, fewer_nodes, smaller_shapes, simpler_arguments, narrower_dtypes,
    plain_layouts, simpler_values,
)  # fmt: skip
