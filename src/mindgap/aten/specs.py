"""Runs a graph on the CPU to learn the specs of its values."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import input_tensors, spec_of
from mindgap.graph import Array, Graph, GraphError, Node, TensorSpec, TensorStore, materialise_all


class RunStopped(Exception):
    """Raised by `SpecRecorder` to stop a run. The message is the reason."""


class SpecRecorder:
    """Records the specs of every node's results in a run of a `Tape`.

    Raises `RunStopped` at a result of more than `most_bytes`, and at one that no graph can hold.
    """

    def __init__(self, graph: Graph, most_bytes: int) -> None:
        self._graph = graph
        self._most = most_bytes
        self.specs: list[tuple[TensorSpec | None, ...]] = []

    @property
    def count(self) -> int:
        """Returns the number of nodes that have run."""
        return len(self.specs)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Returns the graph's nodes with the specs of their results, after all have run."""
        pairs = zip(self._graph.nodes, self.specs, strict=True)
        return tuple(Node(node.op, node.args, node.kwargs, specs) for node, specs in pairs)

    def __call__(self, index: int, results: list[torch.Tensor | None]) -> None:
        node = self._graph.nodes[index]
        if len(results) != len(node.outputs):
            raise RunStopped(f"slots: {_packet(node.op)}")
        try:
            specs = tuple(None if each is None else spec_of(each) for each in results)
        except (KeyError, RuntimeError):
            raise RunStopped(f"layout or dtype: {_packet(node.op)}") from None
        if any(spec is not None and spec.nbytes > self._most for spec in specs):
            raise RunStopped("too big")
        self.specs.append(specs)


def with_specs(graph: Graph, tensors: TensorStore | None, most_bytes: int) -> Graph:
    """Runs the graph on the CPU and returns it with the specs of its values. `tensors`: holds stored inputs.

    Raises `GraphError` where it does not run, or a value is larger than `most_bytes`.
    """
    return specified(graph, materialise_all(graph, tensors), most_bytes)


def specified(graph: Graph, arrays: Sequence[Array], most_bytes: int) -> Graph:
    """As `with_specs`, with the contents of the graph's inputs."""
    recorder = SpecRecorder(graph, most_bytes)
    try:
        with torch.no_grad():
            Tape(graph).run(input_tensors(graph, arrays), recorder)
    except (RunStopped, RuntimeError, ValueError, TypeError, IndexError) as error:
        raise GraphError(f"node {recorder.count} ({graph.nodes[recorder.count].op}): {error}") from None
    return Graph(graph.inputs, recorder.nodes, graph.outputs)


def _packet(op: str) -> str:
    return op.rsplit(".", 1)[0]
