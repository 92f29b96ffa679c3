"""Tells which values of a graph a platform can compute when it loads the graph, before any argument is there.

A fault of a platform's constant folding shows only where the operands are constants.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from mindgap.aten.dead_nodes import memory_groups
from mindgap.graph import Graph, operands


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
