"""Which operator makes a platform fail: the shortest prefix that fails in the same way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from mindgap.graph import Graph, Labels, extract, operands
from mindgap.run.outcome import Job, Outcome
from mindgap.trace.cuts import Array, Execute, cut

#: A prefix of a graph that hangs is given this long.
SHORT_S: Final = 20.0


def failing_nodes(
    graph: Graph, failure: Outcome, execute: Execute, value: Callable[[int], Array], inputs: dict[int, Array]
) -> tuple[int, ...]:
    """The node whose presence makes the platform fail with the same status and signature; empty if none does.

    `graph` is the one that failed, `value` gives any value of it as an array.
    """
    deadline = SHORT_S if failure.status == "timeout" else 60.0

    def fails(length: int) -> bool:
        return _alike(execute(_prefix_job(graph, length, failure.platform, inputs, deadline)), failure)

    if not graph.nodes or not fails(len(graph.nodes)):
        return ()
    low, high = 0, len(graph.nodes)
    # Invariant: the prefix of `high` nodes fails, that of `low` does not.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle, high)
    return (high - 1,)


def fails_alone(graph: Graph, node: int, failure: Outcome, execute: Execute, value: Callable[[int], Array]) -> bool:
    """The operator fails by itself, on the operands it had."""
    single = cut(graph, [node])
    inputs = {i: value(b) for i, b in enumerate(single.borders)}
    return _alike(execute(Job(failure.platform, single.graph, repeat=1, deadline_s=SHORT_S, inputs=inputs)), failure)


def _prefix_job(graph: Graph, length: int, platform: str, inputs: dict[int, Array], deadline_s: float) -> Job:
    if length == len(graph.nodes):
        return Job(platform, graph, repeat=1, deadline_s=deadline_s, inputs=inputs)
    shown = [
        graph.first_value[i] + slot
        for i in range(length)
        for slot, spec in enumerate(graph.nodes[i].outputs)
        if spec is not None
    ]
    last = {v for v in shown if graph.producer[v] == length - 1}
    read = {v for i in range(length) for v in operands(graph.nodes[i])}
    prefix, borders = extract(graph, list(range(length)), [v for v in shown if v in last or v not in read])
    renamed = {new: inputs[old] for new, old in enumerate(borders) if old in inputs}
    return Job(platform, replace(prefix, labels=Labels()), repeat=1, deadline_s=deadline_s, inputs=renamed)


def _alike(outcome: Outcome, failure: Outcome) -> bool:
    if outcome.status != failure.status:
        return False
    return failure.status in ("crash", "timeout", "oom") or outcome.signature == failure.signature
