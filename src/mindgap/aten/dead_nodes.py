"""Removes the nodes and inputs of a graph with in-place writes that no output depends on.

`known_at_load` returns the values that a platform can compute when it loads the graph.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from mindgap.aten.operators import facts, is_inplace
from mindgap.graph import Graph, Node, UnknownOperator, operands, refs, select


def without_dead_nodes(graph: Graph) -> Graph:
    """Removes nodes that influence no output, and inputs that are then neither read nor returned.

    `grad` and labels are dropped where anything is removed.
    """
    live, kept = _needed(graph)
    inputs = [number for number in range(len(graph.inputs)) if number in live]
    if len(kept) == len(graph.nodes) and len(inputs) == len(graph.inputs):
        return graph
    return select(Graph(graph.inputs, graph.nodes, graph.outputs), kept, inputs)


def _needed(graph: Graph) -> tuple[set[int], list[int]]:
    """Returns the values and nodes that an output depends on, also through written memory."""
    inplace = any(is_inplace(node.op) for node in graph.nodes)
    memory, writes = memory_groups(graph) if inplace else ((), [])
    live = set(graph.outputs)
    groups = {memory[value] for value in live} if inplace else set[int]()
    kept: list[int] = []
    for index in reversed(range(len(graph.nodes))):
        wanted = not live.isdisjoint(graph.results(index))
        if wanted or (inplace and not writes[index].isdisjoint(groups)):
            kept.append(index)
            read = operands(graph.nodes[index])
            live.update(read)
            if inplace:
                groups.update(memory[value] for value in read)
    kept.reverse()
    return live, kept


def memory_groups(graph: Graph) -> tuple[tuple[int, ...], list[set[int]]]:
    """Returns the memory group of each value, and the groups that each node writes to."""
    parent = list(range(len(graph.values)))

    def root(value: int) -> int:
        while parent[value] != value:
            parent[value] = parent[parent[value]]
            value = parent[value]
        return value

    written: list[list[int]] = []
    for index, node in enumerate(graph.nodes):
        shared, writes = _shared(node)
        for value in (*shared[1:], *(graph.results(index) if shared else ())):
            parent[root(value)] = root(shared[0])
        written.append(writes)
    return tuple(root(value) for value in range(len(parent))), [{root(v) for v in each} for each in written]


def _shared(node: Node) -> tuple[list[int], list[int]]:
    """Returns the operands whose memory a result may share, and those that are written."""
    try:
        known = facts(node.op)
    except UnknownOperator:
        values = list(operands(node))
        return values, values
    if not known.mutates and not known.views:
        return [], []
    shared: list[int] = []
    writes: list[int] = []
    for position, arg in [*enumerate(node.args), *node.kwargs]:
        if position in known.mutates:
            writes += refs(arg)
            shared += refs(arg)
        elif position in known.views:
            shared += refs(arg)
    return shared, writes


def known_at_load(graph: Graph) -> frozenset[int]:
    """The numbers of the values that depend on parameters, buffers and constants alone, or on nothing, and whose memory
    no node writes to."""
    memory, writes = memory_groups(graph)
    written = set[int]().union(*writes)
    known = {number for number, given in enumerate(graph.inputs) if given.role not in ("input", "random")}
    known = {number for number in known if memory[number] not in written}
    for index, node in enumerate(graph.nodes):
        if known.issuperset(operands(node)):
            known.update(number for number in graph.results(index) if memory[number] not in written)
    return frozenset(known)


def with_constants(part: Graph, borders: Sequence[int], known: Set[int]) -> Graph | None:
    """A part of a graph with those of its inputs as constants that are known at load; None where none becomes one.

    `borders`: the part's inputs, as numbers of values of the graph. `known`: `known_at_load` of the graph.
    """
    turned = {n for n, border in enumerate(borders) if border in known and part.inputs[n].role == "input"}
    if not turned:
        return None
    inputs = [replace(given, role="constant") if n in turned else given for n, given in enumerate(part.inputs)]
    return replace(part, inputs=tuple(inputs))
