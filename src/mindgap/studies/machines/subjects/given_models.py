"""Subjects of models that a user names: every computed value, several samples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from mindgap.aten.functional import functionalize
from mindgap.graph import Graph, GraphError, MindgapError, TensorStore
from mindgap.studies.machines.subjects.runnable import Runnable, runnable
from mindgap.studies.machines.subjects.samples import sample


def given_model(name: str, graph: Graph, samples: int, tensors: TensorStore) -> Iterator[Runnable]:
    """Yields the samples of a captured model, as subjects `NAME/0`, `NAME/1`, ….

    The graph is brought into its functional form: an inner value that is written over later could not be shown. Where
    there is no such form, it stays as captured. Raises `MindgapError` for a model without a computed output, and for
    one without arguments that have other values.
    """
    with suppress(GraphError):
        graph = functionalize(graph).graph
    if not any(graph.producer[number] >= 0 for number in graph.outputs):
        raise MindgapError(f"{name} computes no output: there is nothing to compare")
    for number in range(samples):
        inputs = sample(graph, number, tensors)
        if number and not inputs:
            raise MindgapError(
                f"{name} has no argument with other values for a second sample: collect it with --samples 1"
            )
        output = next(spec for i in graph.outputs if graph.producer[i] >= 0 and (spec := graph.values[i]) is not None)
        facts = {"model": name, "sample": number, "dtype": output.dtype}
        yield runnable(f"{name}/{number}", "models", graph, facts, keep="computed", inputs=inputs)
