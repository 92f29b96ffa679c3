"""Removes calls of a rewritten graph that nothing reads any more."""

from __future__ import annotations

from collections.abc import Sequence

from mindgap.graph import Graph, Labels, Node, operands, renumbered


def without_unread(
    graph: Graph, nodes: Sequence[Node], origins: Sequence[int], outputs: tuple[int, ...]
) -> tuple[Graph, tuple[int, ...]]:
    """Makes a graph of the nodes that some output needs. Also returns the origin of each.

    `graph`: gives inputs and labels. `origins`: for each node, its node in `graph`.
    """
    inputs = len(graph.inputs)
    firsts: list[int] = []
    number = inputs
    for node in nodes:
        firsts.append(number)
        number += len(node.outputs)
    needed = set(outputs)
    kept: list[int] = []
    for index in reversed(range(len(nodes))):
        node = nodes[index]
        if needed & set(range(firsts[index], firsts[index] + len(node.outputs))):
            kept.append(index)
            needed |= set(operands(node))
    kept.reverse()
    renumber = {i: i for i in range(inputs)}
    number = inputs
    for index in kept:
        for slot in range(len(nodes[index].outputs)):
            renumber[firsts[index] + slot] = number
            number += 1
    left = tuple(renumbered(nodes[i], renumber) for i in kept)
    origin = tuple(origins[i] for i in kept)
    old = graph.labels
    labels = Labels(old.inputs, tuple(old.nodes[i] for i in origin) if old.nodes else (), old.outputs)
    return Graph(graph.inputs, left, tuple(renumber[o] for o in outputs), graph.grad, labels), origin
