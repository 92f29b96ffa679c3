"""Cuts small graphs from a large one and runs many of them in one job."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from mindgap.aten.operators import facts
from mindgap.graph import Graph, UnknownOperator, concatenate, extract, numpy_dtype, operands
from mindgap.graph.sizes import input_bytes, output_bytes
from mindgap.judge.oracle import decision_slots
from mindgap.platforms.name import PlatformName
from mindgap.run.outcome import Job, Outcome

Array = np.ndarray[Any, np.dtype[Any]]
Execute = Callable[[Job], Outcome]
#: Failures after which the halving of a job stops: enough for five operators among a thousand that fail alone.
PATIENCE: Final = 50


@dataclass(frozen=True)
class Subgraph:
    """Nodes of the whole graph as a graph of their own.

    `borders`: the whole graph's numbers of the cut's inputs; `outputs`: those of its outputs.
    """

    nodes: tuple[int, ...]
    graph: Graph
    borders: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class SubgraphResult:
    """A platform's results for one subgraph: arrays in the order of the cut's outputs, or the outcome that failed.

    Neither where it was never run.
    """

    cut: Subgraph
    arrays: tuple[Array, ...] | None
    failure: Outcome | None


def readers_of(graph: Graph) -> dict[int, set[int]]:
    """Maps each value number to the nodes that read it; -1 stands for the graph's outputs."""
    readers: dict[int, set[int]] = {number: {-1} for number in graph.outputs}
    for index, node in enumerate(graph.nodes):
        for value in operands(node):
            readers.setdefault(value, set()).add(index)
    return readers


def cut(
    graph: Graph,
    nodes: Sequence[int],
    readers: Mapping[int, set[int]] | None = None,
    hidden: Collection[int] = (),
    show_all: bool = False,
) -> Subgraph:
    """Cuts out these nodes. Outputs: what the rest of the graph reads, and every decision taken inside.

    `readers`: those of the graph, where many cuts are made of one. `hidden`: values that are never outputs.
    `show_all`: every other value made is an output.
    """
    readers = readers_of(graph) if readers is None else readers
    inside = set(nodes)
    made = {graph.first_value[i] + s for i in nodes for s in range(len(graph.nodes[i].outputs))}
    last = set(_final_values(graph, nodes))
    shown = [
        v
        for v in sorted(made.difference(hidden))
        if graph.values[v] is not None and (show_all or v in last or readers.get(v, set()) - inside)
    ]
    decided = [v for v in sorted(made & set(decision_slots(graph, nodes))) if v not in shown] if len(nodes) > 1 else []
    outputs = tuple(shown + decided)
    small, borders = extract(graph, nodes, outputs)
    return Subgraph(tuple(nodes), small, tuple(borders), outputs)


def _final_values(graph: Graph, nodes: Sequence[int]) -> list[int]:
    index = nodes[-1]
    return [graph.first_value[index] + slot for slot in range(len(graph.nodes[index].outputs))]


def fits(one: Subgraph, values: Mapping[int, Array]) -> bool:
    """Whether `values` has an array of the right shape and dtype for each input of the cut."""
    return all(
        border in values
        and values[border].shape == given.spec.shape
        and values[border].dtype == numpy_dtype(given.spec.dtype)
        for border, given in zip(one.borders, one.graph.inputs, strict=True)
    )


def written_as_it_ran(single: Subgraph, original_op: str) -> Subgraph:
    """A cut of one functional operator with the in-place operator that ran (`relu` → `relu_`), where the two take
    the same arguments and give a result of the same dtype and shape; the cut unchanged otherwise."""
    node = single.graph.nodes[0]
    if original_op == node.op or not original_op.split(".")[1].endswith("_"):
        return single
    if original_op.split(".")[1].removesuffix("_") != node.op.split(".")[1]:
        return single
    try:
        mine, theirs = facts(node.op), facts(original_op)
    except UnknownOperator:
        return single
    if mine.arguments != theirs.arguments or any(i.role != "input" for i in single.graph.inputs[:1]):
        return single
    written, result = single.graph.values[operands(node)[0]], node.outputs[0]
    if written is None or result is None or (written.dtype, written.shape) != (result.dtype, result.shape):
        return single
    return replace(single, graph=replace(single.graph, nodes=(replace(node, op=original_op),)))


def window(graph: Graph, last: int, size: int) -> tuple[int, ...]:
    """The node `last` and its nearest producers, `size` nodes at most, in execution order.

    A view comes with its base's producer for as long as there is room.
    """
    chosen = {last}
    while len(chosen) < size:
        producers = {
            graph.producer[v] for i in chosen for v in operands(graph.nodes[i]) if graph.producer[v] >= 0
        } - chosen
        if not producers:
            break
        chosen.add(max(producers))
    return tuple(sorted(chosen))


def values_after(graph: Graph, numbers: Collection[int]) -> set[int]:
    """The values that are computed from these."""
    after: set[int] = set()
    for index, node in enumerate(graph.nodes):
        if any(number in numbers or number in after for number in operands(node)):
            after.update(graph.results(index))
    return after


def leading_to(graph: Graph, numbers: Sequence[int]) -> list[int]:
    """The nodes that these values come from, in execution order."""
    nodes = {graph.producer[n] for n in numbers} - {-1}
    for index in range(max(nodes, default=-1), -1, -1):
        if index in nodes:
            nodes |= {graph.producer[v] for v in operands(graph.nodes[index])} - {-1}
    return sorted(nodes)


def batches(cuts: Sequence[Subgraph], most_bytes: int) -> Iterator[list[Subgraph]]:
    """Groups subgraphs, in order, by the bytes of their inputs and outputs: `most_bytes` at most, or one subgraph."""
    group: list[Subgraph] = []
    held = 0
    for one in cuts:
        size = input_bytes(one.graph) + output_bytes(one.graph)
        if group and held + size > most_bytes:
            yield group
            group, held = [], 0
        group.append(one)
        held += size
    if group:
        yield group


def run_subgraphs(
    cuts: Sequence[Subgraph],
    values: Mapping[int, Array],
    platform: PlatformName,
    execute: Execute,
    deadline_s: float = 120.0,
) -> list[SubgraphResult]:
    """Runs all subgraphs in one job; where that fails, halves it until those that fail run alone.

    After `PATIENCE` failures (a job that took its worker with it counts as several) what is left is given up:
    those cuts have neither arrays nor outcome.
    """
    return _run_cuts(cuts, values, platform, execute, deadline_s, [PATIENCE]) if cuts else []


def _run_cuts(
    cuts: Sequence[Subgraph],
    values: Mapping[int, Array],
    platform: PlatformName,
    execute: Execute,
    deadline_s: float,
    left: list[int],
) -> list[SubgraphResult]:
    if left[0] <= 0:
        return [SubgraphResult(c, None, None) for c in cuts]
    joined = concatenate([c.graph for c in cuts])
    arrays = dict(enumerate(values[b] for c in cuts for b in c.borders))
    outcome = execute(Job(platform, joined, want="outputs", repeat=1, deadline_s=deadline_s, inputs=arrays))
    if outcome.ran and outcome.arrays is not None and len(outcome.arrays) == sum(len(c.outputs) for c in cuts):
        return _dealt(cuts, outcome.arrays)
    left[0] -= 5 if outcome.status in ("crash", "timeout", "oom") else 1
    if len(cuts) == 1:
        return [SubgraphResult(cuts[0], None, outcome)]
    middle = len(cuts) // 2
    halves = (cuts[:middle], cuts[middle:])
    return [r for half in halves for r in _run_cuts(half, values, platform, execute, deadline_s, left)]


def _dealt(cuts: Sequence[Subgraph], arrays: Sequence[Array]) -> list[SubgraphResult]:
    results: list[SubgraphResult] = []
    start = 0
    for one in cuts:
        results.append(SubgraphResult(one, tuple(arrays[start : start + len(one.outputs)]), None))
        start += len(one.outputs)
    return results
