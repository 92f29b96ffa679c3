"""A subject with its graph, the values that are kept of it, and the settings on which it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from mindgap.graph import Graph, digest, operands
from mindgap.machines.observations import Fact, Subject, ValueFacts
from mindgap.machines.settings import Group

#: `all`: every node's result. `layers`: operands and results of activations, and the outputs. `outputs`: the outputs.
Keep = Literal["all", "layers", "outputs"]
ACTIVATIONS: Final = ("aten.relu.default", "aten.sigmoid.default")
_FLOATS: Final = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class Runnable:
    """A subject to be run. `groups`: it runs on the settings that belong to one of them."""

    subject: Subject
    graph: Graph
    groups: frozenset[Group]
    traced: bool


def runnable(
    name: str,
    experiment: str,
    graph: Graph,
    facts: Mapping[str, Fact],
    *,
    keep: Keep = "outputs",
    groups: tuple[Group, ...] = ("float32",),
) -> Runnable:
    """Describes a graph as a subject. Gradients are values with negative numbers: −1 is the first."""
    outputs = [number for number in graph.outputs if graph.producer[number] >= 0]
    if keep == "outputs":
        numbers = outputs
    elif keep == "layers":
        numbers = sorted({*outputs, *_around_activations(graph)})
    else:
        numbers = range(len(graph.inputs), len(graph.values))
    kept = [_facts(graph, number) for number in numbers if _is_float(graph, number)]
    kept += [_gradient(graph, i) for i in range(len(graph.grad))]
    subject = Subject(name, experiment, digest(graph), dict(facts), tuple(kept))
    return Runnable(subject, graph, frozenset(groups), traced=keep != "outputs")


def _is_float(graph: Graph, number: int) -> bool:
    spec = graph.values[number]
    return spec is not None and spec.dtype in _FLOATS


def _around_activations(graph: Graph) -> set[int]:
    found: set[int] = set()
    for index, node in enumerate(graph.nodes):
        if node.op in ACTIVATIONS:
            found |= {*graph.results(index), *operands(node)}
    return found


def _facts(graph: Graph, number: int) -> ValueFacts:
    index = graph.producer[number]
    node, spec = graph.nodes[index], graph.values[number]
    assert spec is not None
    label = graph.labels.nodes[index] if graph.labels.nodes else ""
    where = label.partition(" (")[0]
    data = [i for i in operands(node) if i >= len(graph.inputs) or graph.inputs[i].role == "input"]
    return ValueFacts(
        number, node.op, "" if ":" in where else where, spec.shape, spec.dtype, tuple(data), number in graph.outputs
    )


def _gradient(graph: Graph, index: int) -> ValueFacts:
    number = graph.grad[index]
    spec = graph.inputs[number].spec
    label = graph.labels.inputs[number] if graph.labels.inputs else ""
    return ValueFacts(-1 - index, "gradient", label, spec.shape, spec.dtype, (), True)
