"""Follows numbers along the data flow of a graph in which some values are not seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mindgap.aten.operators import facts
from mindgap.graph import Graph, operands, refs


def hidden_before(graph: Graph, number: int, seen: Collection[int]) -> set[int]:
    """The values that lead to this one and are not seen, up to the nearest values that are."""
    hidden: set[int] = set()
    waiting = [number]
    while waiting:
        producer = graph.producer[waiting.pop()]
        reads = operands(graph.nodes[producer]) if producer >= 0 else ()
        new = [n for n in reads if n not in seen and n not in hidden and graph.producer[n] >= 0]
        hidden.update(new)
        waiting += new
    return hidden


def before_nodes(graph: Graph, size: Mapping[int, float]) -> list[float]:
    """For each node, the largest number among its operands as they are when the node is called.

    `size`: a number for each value that is seen; inputs have 0. A value that is not seen counts as the largest of what
    it comes from. An operand whose memory was written to since counts as no less than what was written.
    """
    carried = dict.fromkeys(range(len(graph.inputs)), 0.0)
    owners: dict[int, set[int]] = {n: {n} for n in carried}
    written: dict[int, float] = {}
    values: list[float] = []
    for index, node in enumerate(graph.nodes):
        known = facts(node.op)
        places = [*enumerate(node.args), *node.kwargs]
        shared = {
            o for p, arg in places if p in known.views or p in known.mutates for n in refs(arg) for o in owners[n]
        }
        before = max((max(carried[n], *(written.get(o, 0.0) for o in owners[n])) for n in operands(node)), default=0.0)
        made = range(graph.first_value[index], graph.first_value[index] + len(node.outputs))
        for number in made:
            carried[number] = size.get(number, before)
            owners[number] = shared or {number}
        if known.mutates:
            result = max((carried[n] for n in made), default=before)
            targets = {o for p, arg in places if p in known.mutates for n in refs(arg) for o in owners[n]}
            written |= {o: max(result, written.get(o, 0.0)) for o in targets}
        values.append(before)
    return values
