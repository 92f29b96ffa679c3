"""Which operator makes a platform fail: the shortest prefix that fails in the same way."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import Graph, Labels, extract, operands
from mindgap.run.outcome import Job, Outcome
from mindgap.trace.cuts import Array, Execute, cut

#: A prefix of a graph that hangs is given this long.
SHORT_S: Final = 20.0


def failing_node(graph: Graph, failure: Outcome, execute: Execute, inputs: dict[int, Array]) -> int | None:
    """The node whose presence makes the platform fail with the same status and signature; None if that is no node's."""
    deadline = SHORT_S if failure.status == "timeout" else 60.0

    def fails(length: int) -> bool:
        return _alike(execute(_prefix_job(graph, length, failure.platform, inputs, deadline)), failure)

    if not graph.nodes or not fails(len(graph.nodes)):
        return None
    low, high = 0, len(graph.nodes)
    # Invariant: the prefix of `high` nodes fails, that of `low` does not.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(middle) else (middle, high)
    return high - 1


def fails_alone(graph: Graph, node: int, failure: Outcome, execute: Execute, inputs: dict[int, Array]) -> bool:
    """The operator fails by itself, on the operands it had."""
    single = cut(graph, [node])
    before = _operands_of(graph, node, inputs)
    given = {i: before[b] for i, b in enumerate(single.borders)}
    return _alike(execute(Job(failure.platform, single.graph, repeat=1, deadline_s=SHORT_S, inputs=given)), failure)


def _operands_of(graph: Graph, node: int, inputs: dict[int, Array]) -> dict[int, Array]:
    """The node's operands as they are when it is called, by value number, from a run of what comes before it."""
    numbers = tuple(dict.fromkeys(operands(graph.nodes[node])))
    before = replace(graph, nodes=graph.nodes[:node], outputs=numbers, grad=(), labels=Labels())
    tensors = [to_torch(inputs[i], given.spec) for i, given in enumerate(graph.inputs)]
    with torch.no_grad():
        results = Tape(before).run(tensors)
    return {number: to_numpy(tensor) for number, tensor in zip(numbers, results, strict=True)}


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
