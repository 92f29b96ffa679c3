"""Cuts subgraphs, removes unused nodes, and concatenates graphs.

Works on data alone: the caller knows what an operator mutates or aliases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mindgap.graph.errors import GraphError
from mindgap.graph.graph import Graph, Input, Labels, Node, map_refs, operands
from mindgap.graph.recipe import Constant


def extract(graph: Graph, nodes: Sequence[int], outputs: Sequence[int]) -> tuple[Graph, list[int]]:
    """Extracts the subgraph of `nodes` (indices, in their order) that returns the values numbered `outputs`.

    Its inputs are the values that it needs and does not make, by rising number; the list returned
    holds their numbers in `graph`. Inputs of `graph` keep recipe and role. Values that another node
    made become inputs with role `input` and the recipe `Constant(0)`: a placeholder for an array
    that the caller supplies. Labels follow; `grad` does not, because a cut has other outputs than
    the backward pass was taken of. In-place writes made outside the cut are not seen inside it.

    Raises `GraphError` for a number out of range, a node named twice, nodes in an order that uses a
    value before it is made, or an operand that is no tensor.
    """
    _check_cut(graph, nodes, outputs)
    made: dict[int, int] = {}
    for position, index in enumerate(nodes):
        made.update(dict.fromkeys(graph.results(index), position))
    needed = set(outputs)
    for position, index in enumerate(nodes):
        for value in operands(graph.nodes[index]):
            if made.get(value, -1) >= position:
                raise GraphError(f"cannot cut: node {index} comes before the node that makes its operand {value}")
            needed.add(value)
    borders = sorted(value for value in needed if value not in made)
    renumber = {value: number for number, value in enumerate(borders)}
    for number, value in enumerate(made, start=len(borders)):
        renumber[value] = number
    cut = Graph(
        inputs=tuple(_border(graph, value) for value in borders),
        nodes=tuple(renumbered(graph.nodes[index], renumber) for index in nodes),
        outputs=tuple(renumber[value] for value in outputs),
        labels=Labels(
            inputs=tuple(_border_label(graph, value) for value in borders)
            if graph.labels.inputs or graph.labels.nodes
            else (),
            nodes=tuple(graph.labels.nodes[index] for index in nodes) if graph.labels.nodes else (),
        ),
    )
    return cut, borders


def live_nodes(graph: Graph, keeps: Callable[[Node], bool] = lambda node: False) -> list[int]:
    """Returns the nodes that some output needs, in order.

    A node for which `keeps` is true stays, with all that it needs: pass a predicate that is true of
    operators that write to an operand, because what they write to may be seen through another value.
    """
    live = set(graph.outputs)
    kept: list[int] = []
    for index in reversed(range(len(graph.nodes))):
        node = graph.nodes[index]
        if keeps(node) or not live.isdisjoint(graph.results(index)):
            kept.append(index)
            live.update(operands(node))
    kept.reverse()
    return kept


def select(graph: Graph, nodes: Sequence[int], inputs: Sequence[int] | None = None) -> Graph:
    """Returns the graph with these nodes, in this order, and these inputs (by default all), renumbered.

    The caller makes sure that every operand and output is still there, before it is read.
    """
    inputs = range(len(graph.inputs)) if inputs is None else inputs
    renumber = {number: position for position, number in enumerate(inputs)}
    for value in (value for index in nodes for value in graph.results(index)):
        renumber[value] = len(renumber)
    labels = graph.labels
    return Graph(
        inputs=tuple(graph.inputs[number] for number in inputs),
        nodes=tuple(renumbered(graph.nodes[index], renumber) for index in nodes),
        outputs=tuple(renumber[value] for value in graph.outputs),
        grad=tuple(renumber[value] for value in graph.grad),
        labels=Labels(
            inputs=tuple(labels.inputs[number] for number in inputs) if labels.inputs else (),
            nodes=tuple(labels.nodes[index] for index in nodes) if labels.nodes else (),
            outputs=labels.outputs,
            decisions=labels.decisions,
        ),
    )


def concatenate(graphs: Sequence[Graph]) -> Graph:
    """Returns the disjoint union: inputs, nodes, outputs and `grad` of each graph in turn, renumbered.

    A kind of label that only some of the graphs have is empty strings for the others.
    """
    total_inputs = sum(len(graph.inputs) for graph in graphs)
    nodes: list[Node] = []
    outputs: list[int] = []
    grad: list[int] = []
    next_input, next_value = 0, total_inputs
    for graph in graphs:
        count = len(graph.inputs)
        renumber = {number: next_input + number for number in range(count)}
        for number in range(count, len(graph.values)):
            renumber[number] = next_value + number - count
        nodes.extend(renumbered(node, renumber) for node in graph.nodes)
        outputs.extend(renumber[value] for value in graph.outputs)
        grad.extend(renumber[value] for value in graph.grad)
        next_input += count
        next_value += len(graph.values) - count
    return Graph(
        inputs=tuple(given for graph in graphs for given in graph.inputs),
        nodes=tuple(nodes),
        outputs=tuple(outputs),
        grad=tuple(grad),
        labels=Labels(
            inputs=_joined([(graph.labels.inputs, len(graph.inputs)) for graph in graphs]),
            nodes=_joined([(graph.labels.nodes, len(graph.nodes)) for graph in graphs]),
            outputs=_joined([(graph.labels.outputs, len(graph.outputs)) for graph in graphs]),
        ),
    )


def _check_cut(graph: Graph, nodes: Sequence[int], outputs: Sequence[int]) -> None:
    if len(set(nodes)) != len(nodes):
        raise GraphError("cannot cut: a node is named twice")
    for index in nodes:
        if not 0 <= index < len(graph.nodes):
            raise GraphError(f"cannot cut: there is no node {index}, the graph has {len(graph.nodes)}")
    for value in outputs:
        if not 0 <= value < len(graph.values):
            raise GraphError(f"cannot cut: there is no value {value}, the graph has {len(graph.values)}")


def _border(graph: Graph, value: int) -> Input:
    """Makes the value an input of a subgraph."""
    if value < len(graph.inputs):
        return graph.inputs[value]
    spec = graph.values[value]
    if spec is None:
        raise GraphError(f"cannot cut: value {value} is an empty slot of node {graph.producer[value]}, not a tensor")
    return Input(spec, Constant(False if spec.kind == "bool" else 0), "input")


def _border_label(graph: Graph, value: int) -> str:
    if value < len(graph.inputs):
        return graph.labels.inputs[value] if graph.labels.inputs else ""
    return graph.labels.nodes[graph.producer[value]] if graph.labels.nodes else ""


def renumbered(node: Node, renumber: dict[int, int]) -> Node:
    """Replaces every value number of a node through `renumber`."""
    return Node(
        node.op,
        tuple(map_refs(arg, renumber) for arg in node.args),
        tuple((name, map_refs(arg, renumber)) for name, arg in node.kwargs),
        node.outputs,
    )


def _joined(parts: list[tuple[tuple[str, ...], int]]) -> tuple[str, ...]:
    """Joins labels, with blanks for a graph without labels; () if none has any."""
    if not any(labels for labels, _ in parts):
        return ()
    return tuple(label for labels, count in parts for label in (labels or ("",) * count))
