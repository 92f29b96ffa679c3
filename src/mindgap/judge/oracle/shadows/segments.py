"""Splits a graph into segments of consecutive nodes, so that shadows and bounds of all values need not be in memory.

What one segment makes and a later one reads crosses the border and is held, unless it is large and a few operators make
it from inputs alone, as the weights of a quantised layer are. Everything else can be computed again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from mindgap.aten.operators import packet_of
from mindgap.aten.tape import last_uses
from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.graph import Graph, Ref, TensorSpec, operands
from mindgap.judge.oracle.evaluation.float64 import only_looks_up
from mindgap.judge.oracle.evaluation.formats import is_real
from mindgap.judge.oracle.evaluation.large_weights import large_weight

#: Values, bounds and residuals of one segment: larger ones are slower by nothing, smaller ones run short operators.
SEGMENT_BYTES: Final = 128 << 20
#: How many full segments are held of those that were used, where that is a small part of the free memory.
HELD: Final = 4
FREE_SHARE: Final = 8
#: What runs of the graph side by side may hold at a border, all together.
SIDE_BY_SIDE_BYTES: Final = 128 << 20
MOST_SIDE_BY_SIDE: Final = 8
#: What replays inject is held for the whole graph up to this size at least, so that they need no segments: without it
#: each replay computes the bounds again.
NOISE_BYTES: Final = 256 << 20
#: And up to this one at most, where it is a small part of the free memory: a judge may be one of several.
MOST_NOISE_BYTES: Final = 1 << 30
#: What crosses a border is not held from this size on, where so many operators make it from inputs.
RECOMPUTED_BYTES: Final = 4 << 20
MOST_RECOMPUTED_NODES: Final = 12
#: Temporary float64 copies of its operands and results that an operator's bound needs at a time.
_WORKING: Final = 6
#: Copies, in declared dtypes, of a weight that float64 takes a block at a time: those with other roundings.
_NARROW: Final = 3


def held_bytes(spec: TensorSpec | None) -> int:
    """What S holds of one value: itself, and if it rounds two bounds and the residual."""
    if spec is None:
        return 0
    bound = _bound_size(spec)
    return spec.numel * (TORCH_DTYPES[spec.dtype].itemsize + (2 * bound + 4 if bound else 0))


def segments(graph: Graph, most_bytes: int = SEGMENT_BYTES) -> tuple[range, ...]:
    """All nodes in order, in segments that hold `most_bytes`, or of one node. One empty segment for no nodes."""
    ranges: list[range] = []
    start = held = 0
    for index, node in enumerate(graph.nodes):
        size = sum(held_bytes(spec) for spec in node.outputs)
        if held and held + size > most_bytes:
            ranges.append(range(start, index))
            start, held = index, 0
        held += size
    return (*ranges, range(start, len(graph.nodes)))


def segment_bytes(graph: Graph, nodes: range) -> int:
    """What S holds of all values that these nodes make."""
    return sum(held_bytes(spec) for index in nodes for spec in graph.nodes[index].outputs)


def crossing(graph: Graph, parts: Sequence[range]) -> frozenset[int]:
    """The values that are read in a later segment than the one that makes them."""
    home = [number for number, nodes in enumerate(parts) for _ in nodes]
    return frozenset(
        value
        for index, node in enumerate(graph.nodes)
        for value in operands(node)
        if (made := graph.producer[value]) >= 0 and home[made] < home[index]
    )


def recomputed(graph: Graph, parts: Sequence[range]) -> Mapping[int, tuple[int, ...]]:
    """The large values that cross a border and are not held, each with the nodes that make it from inputs, in order."""
    recomputed_values: dict[int, tuple[int, ...]] = {}
    chains: dict[int, frozenset[int] | None] = {}
    for index, node in enumerate(graph.nodes):
        chain: frozenset[int] | None = frozenset((index,))
        for value in operands(node):
            before = chains[made] if (made := graph.producer[value]) >= 0 else frozenset[int]()
            chain = None if chain is None or before is None else chain | before
        chains[index] = chain if chain is not None and len(chain) <= MOST_RECOMPUTED_NODES else None
    for value in crossing(graph, parts):
        spec, chain = graph.values[value], chains[graph.producer[value]]
        if spec is not None and spec.nbytes >= RECOMPUTED_BYTES and chain is not None:
            recomputed_values[value] = tuple(sorted(chain))
    return recomputed_values


def most_alive(graph: Graph, parts: Sequence[range]) -> int:
    """Bytes, in their declared dtypes, of what is alive at the fullest border, inputs apart."""
    ends = {nodes.stop for nodes in parts[:-1]}
    alive = worst = 0
    # What is looked at is looked at when it is made, and need not stay alive for that.
    for index, (node, dying) in enumerate(zip(graph.nodes, last_uses(replace(graph, outputs=())), strict=True)):
        alive += sum(spec.nbytes for spec in node.outputs if spec is not None)
        alive -= sum(spec.nbytes for number in dying if (spec := graph.values[number]) is not None)
        if index + 1 in ends:
            worst = max(worst, alive)
    return worst


def noise_bytes(graph: Graph) -> int:
    """What the errors of all values that may round take."""
    return sum(spec.numel * _bound_size(spec) for node in graph.nodes for spec in node.outputs if spec is not None)


def _bound_size(spec: TensorSpec) -> int:
    if not is_real(spec.dtype):
        return 0
    return 8 if spec.dtype in ("float64", "complex128") else 4


def replays_at_once(graph: Graph, parts: Sequence[range]) -> int:
    """How many replays go side by side, segment by segment."""
    return max(1, min(MOST_SIDE_BY_SIDE, SIDE_BY_SIDE_BYTES // max(most_alive(graph, parts), 1)))


def needed_bytes(graph: Graph, parts: Sequence[range], watched: Collection[int]) -> tuple[int, int]:
    """What judging holds at its fullest, and the share of it that the largest operator alone asks for."""
    values = graph.values

    def elements(numbers: Collection[int]) -> int:
        return sum(spec.numel for number in numbers if (spec := values[number]) is not None)

    segment = max(segment_bytes(graph, nodes) for nodes in parts)
    operator = max((_working_bytes(graph, i) for i in range(len(graph.nodes))), default=0)
    again = recomputed(graph, parts)
    borders = sum(s.nbytes for n in crossing(graph, parts) - again.keys() if (s := values[n]) is not None)
    borders += max((_bytes_made_again(graph, nodes, again) for nodes in parts), default=0)
    runs = noise_bytes(graph)
    if runs > NOISE_BYTES:
        runs = replays_at_once(graph, parts) * most_alive(graph, parts)
    # W, the squares, and a comparison's own copies of one output.
    outputs = 24 * elements(watched) + 48 * max((elements([n]) for n in graph.outputs), default=0)
    return segment + operator + borders + runs + outputs, operator


def _bytes_made_again(graph: Graph, nodes: range, again: Mapping[int, tuple[int, ...]]) -> int:
    """What is computed again before a segment: all that it reads and that is not held, with what that is made of."""
    read = {n for i in nodes for n in operands(graph.nodes[i]) if n in again and graph.producer[n] not in nodes}
    made = {node for number in read for node in again[number]}
    return sum(spec.nbytes for node in made for spec in graph.nodes[node].outputs if spec is not None)


def _working_bytes(graph: Graph, index: int) -> int:
    node = graph.nodes[index]
    dtypes = [spec.dtype for n in operands(node) if (spec := graph.values[n]) is not None]
    if only_looks_up(node, dtypes):
        return 16 * sum(spec.numel for spec in node.outputs if spec is not None)
    large = large_weight(graph, node, packet_of(node.op))
    weight = node.args[large.weight] if large is not None else None
    blocked = weight.index if isinstance(weight, Ref) else -1
    specs = [graph.values[n] for n in operands(node) if n != blocked] + list(node.outputs)
    whole = graph.values[blocked] if blocked >= 0 else None
    narrow = 0 if whole is None else _NARROW * whole.nbytes
    return narrow + 8 * _WORKING * sum(spec.numel for spec in specs if spec is not None)
