"""Finds the quantised values of a graph: rounded to steps, moved by a zero point, saturated, cast to integers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from mindgap.aten.operators import packet_of
from mindgap.graph import Arg, Array, DType, Graph, Node, Ref, operands
from mindgap.graph.operators import traits

#: The dtypes of quantised activations (ONNX `QuantizeLinear`; int32 is a bias's).
_INTEGERS: Final = frozenset({"int8", "uint8", "int16", "uint16"})


@dataclass(frozen=True, slots=True)
class QuantisedValue:
    """One quantised value of a graph.

    number: of the integers. operand: of the value that is rounded, in steps, without the zero point.
    zero: the zero point, or the number of the value that holds it.
    low, high: the limits.
    node: index of the node that rounds. block: nodes between the quantised values or inputs that it is computed from
    and its operand, in order.
    """

    number: int
    operand: int
    zero: float | Ref
    low: float
    high: float
    node: int
    block: tuple[int, ...] = ()


def quantised_values(graph: Graph) -> list[QuantisedValue]:
    """Returns the quantised values of a functional graph, in order."""
    values: dict[int, QuantisedValue] = {}
    for index, node in enumerate(graph.nodes):
        if (value := _matched(graph, index, node)) is not None:
            values[value.number] = value
    ends = frozenset(values)
    return [replace(each, block=nodes_back_to(graph, (each.operand,), ends)[0]) for each in values.values()]


def _matched(graph: Graph, index: int, node: Node) -> QuantisedValue | None:
    """The quantised value that a cast to integers gives; None for another node."""
    if not traits(node.op).casts or len(node.outputs) != 1 or node.outputs[0] is None:
        return None
    if node.outputs[0].dtype not in _INTEGERS:
        return None
    clamp = _producer(graph, node.args[0] if node.args else None, "clamp", "clip")
    if clamp is None or len(clamp.args) < 3 or not all(isinstance(each, int | float) for each in clamp.args[1:3]):
        return None
    low, high = (float(each) for each in clamp.args[1:3] if isinstance(each, int | float))
    zero, moved = 0.0, clamp.args[0]
    added = _producer(graph, moved, "add")
    if added is not None:
        zero, moved = added.args[1], added.args[0]
    rounded = _producer(graph, moved, "round")
    if rounded is None or rounded.kwargs or not isinstance(rounded.args[0], Ref):
        return None
    if not isinstance(moved, Ref) or not isinstance(zero, int | float | Ref):
        return None
    at = graph.producer[moved.index]
    return QuantisedValue(graph.first_value[index], rounded.args[0].index, zero, low, high, at)


def shown_parts(graph: Graph, integers: Mapping[int, Array]) -> dict[int, Array]:
    """Returns the integers of operands of a `cat` by those of its result: it moves them. `integers`: by number."""
    arrays: dict[int, Array] = {}
    for number, array in integers.items():
        node = _producer(graph, Ref(number), "cat")
        parts = node.args[0] if node is not None else ()
        specs = [graph.values[n] for n in operands(node)] if node is not None else []
        if node is None or not isinstance(parts, tuple | list) or None in specs:
            continue
        axis = node.args[1] if len(node.args) > 1 else dict(node.kwargs).get("dim", 0)
        assert isinstance(axis, int), "a dimension is an integer"
        start = 0
        for part, spec in zip(operands(node), specs, strict=True):
            assert spec is not None, "it was looked for"
            size = spec.shape[axis]
            arrays[part] = array.take(range(start, start + size), axis)
            start += size
    return {number: array for number, array in arrays.items() if number not in integers}


def _producer(graph: Graph, argument: Arg | None, *packets: str) -> Node | None:
    """The node that makes an argument, where it is a call of one of these operators."""
    if not isinstance(argument, Ref) or graph.producer[argument.index] < 0:
        return None
    node = graph.nodes[graph.producer[argument.index]]
    return node if packet_of(node.op) in packets else None


def nodes_back_to(
    graph: Graph, numbers: Iterable[int], ends: Collection[int]
) -> tuple[tuple[int, ...], frozenset[int]]:
    """Returns the nodes that values are computed by, back to the values `ends` and in order, and which of these."""
    waiting, nodes, reached = list(numbers), set[int](), set[int]()
    while waiting:
        number = waiting.pop()
        index = graph.producer[number]
        if number in ends:
            reached.add(number)
        elif index >= 0 and index not in nodes:
            nodes.add(index)
            waiting += operands(graph.nodes[index])
    return tuple(sorted(nodes)), frozenset(reached)


def dequantising_scale(graph: Graph, number: int) -> int | None:
    """The number of the scale by which integers become a value: `(integer - zero) * scale`; None for another value."""
    product = _producer(graph, Ref(number), "mul")
    if product is None or len(product.args) < 2:
        return None
    first, scale = product.args[:2]
    cast = _producer(graph, first, "to", "_to_copy")
    if cast is None or not isinstance(scale, Ref) or not isinstance(cast.args[0], Ref):
        return None
    source = graph.values[cast.args[0].index]
    whole = source is not None and source.dtype in (*_INTEGERS, "int32")
    return scale.index if whole and DType("float32") in (*cast.args, *dict(cast.kwargs).values()) else None
