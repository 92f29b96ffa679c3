"""Observes intermediate values of a platform by making them outputs of the graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mindgap.graph import Graph, Labels
from mindgap.judge.trace.subgraphs import Array, Execute
from mindgap.platforms.name import PlatformName
from mindgap.run.outcome import Job


@dataclass(frozen=True)
class IntermediateValues:
    """A platform's intermediate values by number. `faithful`: its outputs kept their bits while it was observed."""

    values: dict[int, Array]
    faithful: bool


def shown(graph: Graph) -> tuple[int, ...]:
    """The numbers of every tensor that a node makes."""
    return tuple(n for n in range(len(graph.inputs), len(graph.values)) if graph.values[n] is not None)


def with_outputs(graph: Graph, numbers: Sequence[int]) -> Graph:
    """The graph with these values as further outputs."""
    return replace(graph, outputs=(*graph.outputs, *numbers), labels=Labels(graph.labels.inputs, graph.labels.nodes))


def observe_values(
    graph: Graph,
    platform: PlatformName,
    execute: Execute,
    outputs: tuple[Array, ...],
    deadline_s: float,
    inputs: dict[int, Array],
) -> IntermediateValues | None:
    """Runs `graph` (functional) with every value as an output; None where the platform cannot.

    `outputs`: the platform's outputs when it was not observed.
    """
    # A value that is returned twice is more than some platforms take.
    numbers = [number for number in shown(graph) if number not in graph.outputs]
    wide = with_outputs(graph, numbers)
    outcome = execute(Job(platform, wide, want="outputs", repeat=1, deadline_s=deadline_s, inputs=inputs))
    if outcome.arrays is None or len(outcome.arrays) != len(wide.outputs):
        return None
    own, inner = outcome.arrays[: len(graph.outputs)], outcome.arrays[len(graph.outputs) :]
    faithful = len(own) == len(outputs) and all(
        a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in zip(own, outputs, strict=True)
    )
    returned = {number: array for number, array in zip(graph.outputs, own, strict=True) if graph.producer[number] >= 0}
    return IntermediateValues({**dict(zip(numbers, inner, strict=True)), **returned}, faithful)


def by_size(graph: Graph, numbers: Sequence[int], most_bytes: int) -> Iterator[list[int]]:
    """The values in order, in groups of `most_bytes`, or of one."""
    group: list[int] = []
    held = 0
    for number in numbers:
        spec = graph.values[number]
        size = 0 if spec is None else spec.nbytes
        if group and held + size > most_bytes:
            yield group
            group, held = [], 0
        group.append(number)
        held += size
    if group:
        yield group
