"""A subject with its graph, the values that are kept of it, and the settings on which it runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from mindgap.graph import Array, Graph, digest, operands
from mindgap.graph.compare.digest import digest_array
from mindgap.graph.operators import is_activation, traits
from mindgap_studies.machines.observations import Fact, ObservedSubject, ValueFacts
from mindgap_studies.machines.settings import Group

#: `all`: every node's result. `computed`: the same without views, copies and concatenations, but with those around
#: activations. `layers`: operands and results of activations, and the outputs. `outputs`: the outputs.
Keep = Literal["all", "computed", "layers", "outputs"]
_FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
_MOST_COMPARED: Final = 256 << 20


@dataclass(frozen=True)
class Runnable:
    """A subject to be run. `groups`: it runs on the settings that belong to one of them. `inputs`: arrays in place of
    the graph's own, by number: samples of one model share what a platform has compiled."""

    subject: ObservedSubject
    graph: Graph
    groups: frozenset[Group]
    traced: bool
    inputs: Mapping[int, Array] = field(default_factory=dict[int, Array])


def runnable(
    name: str,
    experiment: str,
    graph: Graph,
    facts: Mapping[str, Fact],
    *,
    keep: Keep = "outputs",
    groups: tuple[Group, ...] = ("float32",),
    inputs: Mapping[int, Array] | None = None,
) -> Runnable:
    """Describes a graph as a subject. Gradients are values with negative numbers: −1 is the first.

    Inner values are kept if they are floats, outputs of any dtype.
    """
    outputs = {number for number in graph.outputs if graph.producer[number] >= 0}
    inner = set[int]() if keep == "outputs" else _around_activations(graph)
    if keep == "all":
        inner = set(range(len(graph.inputs), len(graph.values)))
    elif keep == "computed":
        inner |= {n for i, node in enumerate(graph.nodes) if not traits(node.op).hands_on for n in graph.results(i)}
    numbers = sorted(outputs | {n for n in inner if (spec := graph.values[n]) is not None and spec.dtype in _FLOATS})
    kept = [_facts(graph, number) for number in numbers]
    kept += [_gradient(graph, i) for i in range(len(graph.grad))]
    given = dict(inputs or {})
    subject = ObservedSubject(name, experiment, _digest(graph, given), dict(facts), tuple(kept))
    return Runnable(subject, graph, frozenset(groups), traced=keep != "outputs", inputs=given)


def _digest(graph: Graph, inputs: Mapping[int, Array]) -> str:
    """Returns the graph's digest; with arrays in place of inputs, one of both."""
    if not inputs:
        return digest(graph)
    parts = [digest(graph), *(f"{number} {digest_array(array)}" for number, array in sorted(inputs.items()))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _around_activations(graph: Graph) -> set[int]:
    found: set[int] = set()
    for index, node in enumerate(graph.nodes):
        if is_activation(node.op):
            found |= {*graph.results(index), *operands(node)}
    return {number for number in found if graph.producer[number] >= 0}


def compared_values(each: Runnable) -> frozenset[int]:
    """Returns the values before and after activations that are compared element by element.

    None of them if they are not a model's, or take more than 256 MiB together: one array of each stays in memory.
    """
    if each.subject.experiment != "models":
        return frozenset()
    kept = {value.number for value in each.subject.values if value.dtype in _FLOATS}
    around = [v for v in each.subject.values if is_activation(v.op)]
    found = {n for v in around for n in (v.number, *v.operands) if n in kept}
    size = sum(spec.nbytes for n in found if (spec := each.graph.values[n]) is not None)
    return frozenset(found) if size <= _MOST_COMPARED else frozenset()


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
