"""Which operator makes a platform fail: one that fails alone, else the end of the shortest prefix that fails.

A failure that takes its worker with it (a crash, a time-out, exhausted memory) costs seconds for a new worker, and any
other job milliseconds. The search for such a failure runs single operators first: of these only the culprit costs a
worker. Only where none fails alone it tries prefixes, and those in steps of a quarter rather than of a half, so that
fewer of them fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import Arg, Graph, Labels, extract, map_refs, operands
from mindgap.run.outcome import Job, Outcome
from mindgap.trace.cuts import Array, Execute, cut

#: A part of a graph that hangs is given this long, another part that long.
SHORT_S: Final = 20.0
LONG_S: Final = 60.0
#: Failures that end the worker.
_COSTLY: Final = frozenset({"crash", "timeout", "oom"})
#: What a worker that did not get ready was doing when it died.
_STARTING: Final = " while starting"
#: How many calls are run alone: of the operator that the platform names, and of all where a failure is costly.
_MOST_NAMED: Final = 8
_MOST_ALONE: Final = 200


@dataclass(frozen=True, slots=True)
class FailingNode:
    """`node`: without it and what comes after it the platform does not fail. `alone`: it also fails by itself."""

    node: int
    alone: bool


def failing_node(graph: Graph, failure: Outcome, execute: Execute, inputs: dict[int, Array]) -> FailingNode | None:
    """The node that makes the platform fail with the same status and signature; None if that is no single node's.

    What the platform says itself (`failure.op`) is tried first, and believed only if that operator fails alone. Where
    a worker died before it got the graph, no node is to blame.
    """
    if failure.status == "crash" and _STARTING in failure.signature:
        return None
    search = _Search(graph, failure, execute, inputs)
    for node in search.candidates():
        if search.fails_alone(node):
            return FailingNode(node, alone=True)
    node = search.end_of_prefix()
    return None if node is None else FailingNode(node, alone=search.fails_alone(node))


class _Search:
    def __init__(self, graph: Graph, failure: Outcome, execute: Execute, inputs: dict[int, Array]) -> None:
        self._graph, self._failure, self._execute, self._inputs = graph, failure, execute, inputs
        self._costly = failure.status in _COSTLY
        self._deadline_s = SHORT_S if failure.status == "timeout" else LONG_S
        self._alone: dict[int, bool] = {}

    def candidates(self) -> Iterator[int]:
        """Nodes to run alone: calls of the operator that the platform names, then, where it pays, all others.

        Of calls that differ in their operands' values alone, the first.
        """
        nodes = range(len(self._graph.nodes))
        named = [i for i in nodes if self._graph.nodes[i].op == self._failure.op]
        yield from _distinct(self._graph, named)[:_MOST_NAMED]
        if self._costly:
            yield from _distinct(self._graph, [i for i in nodes if i not in named])[:_MOST_ALONE]

    def fails_alone(self, node: int) -> bool:
        """The operator fails by itself, on the operands it had."""
        if node not in self._alone:
            single = cut(self._graph, [node])
            before = _operands_of(self._graph, node, self._inputs)
            given = {i: before[b] for i, b in enumerate(single.borders)}
            job = Job(self._failure.platform, single.graph, repeat=1, deadline_s=SHORT_S, inputs=given)
            self._alone[node] = _alike(self._execute(job), self._failure)
        return self._alone[node]

    def end_of_prefix(self) -> int | None:
        """The last node of the shortest prefix that fails; None where the whole does not, or only its gradients do."""
        graph = self._graph
        if not graph.nodes or not self._fails(graph):
            return None
        if graph.grad and not self._fails(replace(graph, grad=())):
            return None
        low, high = 0, len(graph.nodes)
        # Invariant: the prefix of `high` nodes fails, that of `low` does not.
        while high - low > 1:
            middle = low + max(1, (high - low) // (4 if self._costly else 2))
            low, high = (low, middle) if self._prefix_fails(middle) else (middle, high)
        return high - 1

    def _prefix_fails(self, length: int) -> bool:
        prefix, borders = _prefix(self._graph, length)
        given = {new: self._inputs[old] for new, old in enumerate(borders) if old in self._inputs}
        return self._fails(prefix, given)

    def _fails(self, graph: Graph, given: dict[int, Array] | None = None) -> bool:
        inputs = self._inputs if given is None else given
        job = Job(self._failure.platform, graph, repeat=1, deadline_s=self._deadline_s, inputs=inputs)
        return _alike(self._execute(job), self._failure)


def _distinct(graph: Graph, nodes: list[int]) -> list[int]:
    """The first node of each kind of call: operator, attributes, operands' dtypes and layouts."""
    first: dict[object, int] = {}
    for index in nodes:
        node = graph.nodes[index]
        numbers = dict.fromkeys(operands(node))
        places = {number: place for place, number in enumerate(numbers)}
        arguments: list[Arg] = [map_refs(arg, places) for arg in (*node.args, *(arg for _, arg in node.kwargs))]
        # By its text: 1, 1.0 and True are equal.
        kind = node.op, repr(arguments), tuple(graph.values[number] for number in numbers)
        first.setdefault(kind, index)
    return list(first.values())


def _operands_of(graph: Graph, node: int, inputs: dict[int, Array]) -> dict[int, Array]:
    """The node's operands as they are when it is called, by value number, from a run of what comes before it."""
    numbers = tuple(dict.fromkeys(operands(graph.nodes[node])))
    before = replace(graph, nodes=graph.nodes[:node], outputs=numbers, grad=(), labels=Labels())
    tensors = [to_torch(inputs[i], given.spec) for i, given in enumerate(graph.inputs)]
    with torch.no_grad():
        results = Tape(before).run(tensors)
    return {number: to_numpy(tensor) for number, tensor in zip(numbers, results, strict=True)}


def _prefix(graph: Graph, length: int) -> tuple[Graph, list[int]]:
    """The first nodes as a graph, and the whole graph's numbers of its inputs.

    Its outputs are what the last node gives and what no node of the prefix reads: more than the whole graph shows, so
    that a platform may compile it otherwise. A prefix counts only if it fails in the same way.
    """
    shown = [
        graph.first_value[i] + slot
        for i in range(length)
        for slot, spec in enumerate(graph.nodes[i].outputs)
        if spec is not None
    ]
    last = {v for v in shown if graph.producer[v] == length - 1}
    read = {v for i in range(length) for v in operands(graph.nodes[i])}
    prefix, borders = extract(graph, list(range(length)), [v for v in shown if v in last or v not in read])
    return replace(prefix, labels=Labels()), list(borders)


def _alike(outcome: Outcome, failure: Outcome) -> bool:
    """The same status and the same signature. Of a crash the signal and the stage count, for what a library prints
    before it aborts depends on how memory happens to lie; a time-out or exhausted memory has no message of its own."""
    if outcome.status != failure.status:
        return False
    if failure.status == "crash":
        return outcome.signature.partition(" | ")[0] == failure.signature.partition(" | ")[0]
    return failure.status in _COSTLY or outcome.signature == failure.signature
