"""Prepares a graph for cutting: use-def lists, shared memory, sizes and work of every node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import torch

from mindgap.aten.counterpart import counterpart
from mindgap.aten.dead_nodes import known_at_load, memory_groups
from mindgap.aten.operators import is_inplace, overload
from mindgap.graph import Graph, GraphError, Node, TensorSpec, UnknownOperator, operands
from mindgap.graph.operators import traits
from mindgap.graph_capture.random_operators import is_random
from mindgap_campaign.synth.values.constraints import index_operands, shape_operands
from mindgap_campaign.synth.values.rules import value_rules


@dataclass(frozen=True)
class PreparedGraph:
    """A graph with the facts that cutting needs, computed once. Lists are by node, or by value where stated.

    `operands`: values that each node reads. `readers`: nodes that read each value. `memory`: for each value the
    number of the memory it lies in. `writers`: nodes that write to a memory. `touched`: memories of a node that some
    node writes to. `bytes`: of the largest tensor that a node reads or makes. `made`: bytes of all that it makes.
    `work`: multiplications, roughly. `usable`: whether the node may be part of a region. `shape_operands`: operands
    whose values decide a shape. `index_operands`: operands that are indices. `folded_operands`: operands that are
    computed from weights and constants alone, such as a dequantised weight. `output_values`: outputs of the graph.
    """

    graph: Graph
    operands: tuple[tuple[int, ...], ...]
    readers: tuple[tuple[int, ...], ...]
    memory: tuple[int, ...]
    writers: dict[int, list[int]]
    touched: tuple[tuple[int, ...], ...]
    bytes: tuple[int, ...]
    made: tuple[int, ...]
    work: tuple[int, ...]
    usable: tuple[bool, ...]
    shape_operands: tuple[tuple[int, ...], ...]
    index_operands: tuple[tuple[int, ...], ...]
    folded_operands: tuple[tuple[int, ...], ...]
    output_values: frozenset[int]
    _starts: dict[tuple[int, int, int], list[int]] = field(default_factory=dict[tuple[int, int, int], list[int]])

    def starts(self, most_bytes: int, most_total: int, most_work: int) -> list[int]:
        """Returns the nodes that fit within the bounds by themselves."""
        key = (most_bytes, most_total, most_work)
        if key not in self._starts:
            self._starts[key] = [
                node
                for node, usable in enumerate(self.usable)
                if usable
                and self.bytes[node] <= most_bytes
                and self.made[node] <= most_total
                and self.work[node] <= most_work
            ]
        return self._starts[key]


def prepare_graph(graph: Graph) -> PreparedGraph:
    """Prepares a base, once for any number of cuts."""
    bare = Graph(graph.inputs, graph.nodes, graph.outputs)
    read = tuple(operands(node) for node in bare.nodes)
    readers: list[list[int]] = [[] for _ in bare.values]
    for index, values in enumerate(read):
        for value in values:
            if not readers[value] or readers[value][-1] != index:
                readers[value].append(index)
    memory, writes = memory_groups(bare)
    writers: dict[int, list[int]] = {}
    for index, groups in enumerate(writes):
        for group in groups:
            writers.setdefault(group, []).append(index)
    sizes = [0 if spec is None else spec.nbytes for spec in bare.values]
    made = [bare.results(index) for index in range(len(bare.nodes))]
    folded = {value for value in known_at_load(bare) if bare.producer[value] >= 0}
    return PreparedGraph(
        bare,
        read,
        tuple(tuple(each) for each in readers),
        memory,
        writers,
        tuple(
            tuple(sorted({memory[v] for v in (*read[i], *made[i])} & writers.keys())) for i in range(len(bare.nodes))
        ),
        tuple(max((sizes[v] for v in (*read[i], *made[i])), default=0) for i in range(len(bare.nodes))),
        tuple(sum(sizes[v] for v in made[i]) for i in range(len(bare.nodes))),
        tuple(_work(node, [bare.values[v] for v in read[i]]) for i, node in enumerate(bare.nodes)),
        tuple(usable(node) for node in bare.nodes),
        tuple(shape_operands(bare, node, value_rules()) for node in bare.nodes),
        tuple(index_operands(node, value_rules()) for node in bare.nodes),
        tuple(tuple(value for value in values if value in folded) for values in read),
        frozenset(bare.outputs),
    )


def usable(node: Node) -> bool:
    """Tells whether a region may contain the node.

    It must return a tensor, exist in this PyTorch and be deterministic, and may write only to operands that its schema
    declares: a graph that resizes tensors can neither be judged nor translated.
    """
    if not node.outputs:
        return False
    known = _usable_operator(node.op)
    if known is not None:
        return known
    try:
        return not is_random(overload(node.op), node.args, dict(node.kwargs))
    except KeyError:
        return False


@cache
def _usable_operator(op: str) -> bool | None:
    """Tells whether calls of an operator are usable; None if that depends on the arguments."""
    try:
        tags = overload(op).tags
        if is_inplace(op):
            counterpart(op)
    except (UnknownOperator, GraphError):
        return False
    if traits(op).returns_uninitialised:
        return False
    return None if torch.Tag.nondeterministic_seeded in tags else True


def _work(node: Node, read: Sequence[TensorSpec | None]) -> int:
    """Estimates the multiplications of a node to an order of magnitude; exact for matrix products."""
    sizes = [spec.numel for spec in (*read, *node.outputs) if spec is not None]
    if not traits(node.op).contracts or len(sizes) < 3:
        return sum(sizes)
    first, second, third = sorted(sizes, reverse=True)[:3]
    return int((first * second * third) ** 0.5) + sum(sizes)
