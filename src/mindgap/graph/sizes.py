"""Counts the bytes of a graph's inputs and outputs."""

from __future__ import annotations

from mindgap.graph.graph import Graph


def input_bytes(graph: Graph) -> int:
    """Returns the bytes of all inputs, weights among them."""
    return sum(given.spec.nbytes for given in graph.inputs)


def output_bytes(graph: Graph) -> int:
    """Returns the bytes of all outputs and gradients."""
    specs = [graph.values[number] for number in (*graph.outputs, *graph.grad)]
    return sum(spec.nbytes for spec in specs if spec is not None)
