"""Counts the bytes of a graph's inputs and outputs."""

from __future__ import annotations

from mindgap.graph.graph import Graph


def input_bytes(graph: Graph) -> int:
    """Returns the bytes of all inputs, weights among them."""
    return sum(given.spec.nbytes for given in graph.inputs)


def half_share(graph: Graph) -> float:
    """Returns the share of the inputs' bytes that are floats of 16 bits."""
    halves = sum(given.spec.nbytes for given in graph.inputs if given.spec.dtype in ("float16", "bfloat16"))
    return halves / (input_bytes(graph) or 1)


def output_bytes(graph: Graph) -> int:
    """Returns the bytes of all outputs and gradients."""
    specs = [graph.values[number] for number in (*graph.outputs, *graph.grad)]
    return sum(spec.nbytes for spec in specs if spec is not None)
