"""Cuts random connected regions out of a graph, each with every write to the memory that it reads."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from mindgap.graph import Graph, GraphError, extract
from mindgap.graph.sizes import input_bytes
from mindgap_campaign.synth.regions.prepared import PreparedGraph
from mindgap_campaign.synth.values.constraints import passes_constraints_back
from mindgap_campaign.synth.values.rules import value_rules

#: Nodes that are added to a cut for the sake of what its shapes and indices depend on.
_MOST_GROUND: Final = 24
#: Bytes of the largest tensor of a region, and of all that it takes and makes. Forty regions at the bound are a graph
#: of a thousand nodes in 320 MiB; most stay far below.
MOST_BYTES: Final = 2 << 20
MOST_TOTAL: Final = 8 << 20
#: Multiplications of one region: about two milliseconds of one core.
MOST_WORK: Final = 20_000_000
MOST_NODES: Final = 50


@dataclass(frozen=True)
class RegionCut:
    """`nodes` of a base as a graph of their own; borders have placeholder recipes (`mindgap.graph.extract`).

    `borders`: the base's numbers of the cut's inputs; `outputs`: those of its outputs.
    """

    nodes: tuple[int, ...]
    graph: Graph
    borders: tuple[int, ...]
    outputs: tuple[int, ...]


def cut(
    base: PreparedGraph,
    rng: random.Random,
    most_nodes: int = MOST_NODES,
    most_bytes: int = MOST_BYTES,
    *,
    most_total: int = MOST_TOTAL,
    most_work: int = MOST_WORK,
    start: int | None = None,
) -> RegionCut | None:
    """Cuts a random connected region of 1 to `most_nodes` nodes; None if this draw gave none.

    No tensor in it is larger than `most_bytes`, what it takes and what it makes come to `most_total` bytes each at
    most. It holds every write to memory that it sees between its first and its last look at it, and no two
    borders of memory that it writes to. `start`: a node that it is to hold.
    """
    starts = base.starts(most_bytes, most_total, most_work)
    if start is None:
        if not starts:
            return None
        start = starts[rng.randrange(len(starts))]
    fits = _Bounds(base, most_nodes, most_bytes, most_total, most_work)
    if not fits.take(start):
        return None
    wanted = _size(rng, most_nodes)
    _grow(base, rng, fits, wanted, 12 + 4 * wanted)
    _ground(base, fits)
    if not _close(base, fits):
        return None
    return _within(base, fits, most_total)


def cut_of(base: PreparedGraph, nodes: Collection[int]) -> RegionCut:
    """Cuts exactly these nodes. Raises `GraphError` if they are not all nodes of the base.

    Its outputs: what the rest of the base reads or returns, what nothing reads, and borders that it writes to.
    """
    order = sorted(set(nodes))
    if order and not 0 <= order[0] <= order[-1] < len(base.graph.nodes):
        raise GraphError(f"cannot cut: there is no node {order[-1]}, the graph has {len(base.graph.nodes)}")
    outputs = _outputs(base, order)
    small, borders = extract(base.graph, order, outputs)
    return RegionCut(tuple(order), small, tuple(borders), outputs)


def whole_graph_cut(base: PreparedGraph, most_nodes: int = MOST_NODES) -> RegionCut | None:
    """Cuts all usable nodes of a base, if they are within the bounds of `cut`; else None.

    What gives memory that nothing has written to yet stays out, and becomes a border.
    """
    fits = _Bounds(base, most_nodes, MOST_BYTES, MOST_TOTAL, MOST_WORK)
    if not all(fits.take(node) for node, usable in enumerate(base.usable) if usable):
        return None
    return _within(base, fits, MOST_TOTAL)


def _within(base: PreparedGraph, fits: _Bounds, most_total: int) -> RegionCut | None:
    region = cut_of(base, fits.nodes)
    if not region.outputs or input_bytes(region.graph) > most_total:
        return None
    return region


@dataclass
class _Bounds:
    """The nodes chosen so far, and the remaining bytes and work."""

    base: PreparedGraph
    most_nodes: int
    most_bytes: int
    total: int
    work: int
    nodes: set[int] = field(default_factory=set[int])
    order: list[int] = field(default_factory=list[int])

    def take(self, node: int) -> bool:
        """Adds a node if it fits. Returns whether it did."""
        base = self.base
        if (
            not base.usable[node]
            or len(self.nodes) >= self.most_nodes
            or base.bytes[node] > self.most_bytes
            or base.made[node] > self.total
            or base.work[node] > self.work
        ):
            return False
        self.total -= base.made[node]
        self.work -= base.work[node]
        self.nodes.add(node)
        self.order.append(node)
        return True


def _size(rng: random.Random, most: int) -> int:
    """Draws a number of nodes: half of the time uniform, half of the time log-uniform."""
    if rng.random() < 0.5:
        return rng.randint(1, most)
    return min(int(most ** rng.random()) + 1, most)


def _grow(base: PreparedGraph, rng: random.Random, fits: _Bounds, wanted: int, patience: int) -> None:
    """Adds neighbours of what is there. Each cut has its own leaning: to go on where it last was (chains) or anywhere
    (fan-in and fan-out), and to readers or to producers."""
    producer, first, nodes = base.graph.producer, base.graph.first_value, base.graph.nodes
    onwards, forward = rng.choice((0.2, 0.6, 0.95)), rng.choice((0.2, 0.5, 0.8))
    while len(fits.nodes) < wanted and patience:
        at = fits.order[-1] if rng.random() < onwards else fits.order[rng.randrange(len(fits.order))]
        if rng.random() < forward:
            made = range(first[at], first[at] + len(nodes[at].outputs))
            near = [r for value in made for r in base.readers[value] if r not in fits.nodes]
        else:
            near = [p for value in base.operands[at] if (p := producer[value]) >= 0 and p not in fits.nodes]
        if not near or not fits.take(near[rng.randrange(len(near))]):
            patience -= 1


def _ground(base: PreparedGraph, fits: _Bounds) -> None:
    """Adds what computes the integers and masks on which shapes depend, indices that no rule can follow back to a
    border, and operands made of weights alone, as far as there is room: what was captured goes together, drawn numbers
    need not, and a runtime folds what is made of weights."""
    graph = base.graph
    folded = [value for node in sorted(fits.nodes) for value in base.folded_operands[node]]
    pending = [(value, True) for node in sorted(fits.nodes) for value in base.shape_operands[node]]
    pending += [(value, False) for node in sorted(fits.nodes) for value in base.index_operands[node]]
    seen = set(pending)
    room = _MOST_GROUND
    while pending and room:
        value, wanted = pending.pop()
        maker, spec = graph.producer[value], graph.values[value]
        if maker < 0 or spec is None or spec.kind not in ("int", "bool"):
            continue
        if maker not in fits.nodes:
            if not wanted or not fits.take(maker):
                continue
            room -= 1
        wanted = wanted or not passes_constraints_back(graph.nodes[maker], value_rules())
        further = [(operand, wanted) for operand in base.operands[maker] if (operand, wanted) not in seen]
        seen.update(further)
        pending += further
    while folded and room:
        maker = graph.producer[folded.pop()]
        if maker in fits.nodes or not fits.take(maker):
            continue
        room -= 1
        folded += base.folded_operands[maker]


def _close(base: PreparedGraph, fits: _Bounds) -> bool:
    """Adds the nodes that shared memory requires. Returns False if they do not fit."""
    if not base.writers:
        return True
    while missing := _missing(base, fits.nodes):
        if not all(fits.take(node) for node in missing):
            return False
    return True


def _missing(base: PreparedGraph, nodes: set[int]) -> list[int]:
    """Returns the nodes that the cut must also contain because of one memory that it touches and a node writes."""
    touching: dict[int, list[int]] = {}
    for node in sorted(nodes):
        for group in base.touched[node]:
            touching.setdefault(group, []).append(node)
    for group, inside in touching.items():
        writers = base.writers[group]
        between = writers[bisect_right(writers, inside[0]) : bisect_right(writers, inside[-1] - 1)]
        if absent := [node for node in between if node not in nodes]:
            return absent
        if any(node in nodes for node in writers) and (views := _outer_views(base, nodes, inside, group)):
            return views
    return []


def _outer_views(base: PreparedGraph, nodes: set[int], inside: Sequence[int], group: int) -> list[int]:
    """Returns the view nodes between several borders of one memory."""
    producer, memory = base.graph.producer, base.memory
    read = {v for node in inside for v in base.operands[node] if memory[v] == group}
    borders = {value for value in read if producer[value] not in nodes}
    begun = any(all(memory[v] != group for v in base.operands[node]) for node in inside)
    if len(borders) + begun < 2:
        return []
    makers = sorted({producer[value] for value in borders} - {-1})
    return [node for node in makers if any(memory[value] == group for value in base.operands[node])]


def _outputs(base: PreparedGraph, nodes: Sequence[int]) -> tuple[int, ...]:
    inside, graph = set(nodes), base.graph
    made = {value for node in nodes for value in graph.results(node)}
    written = {group for node in nodes for group in base.touched[node] if node in base.writers[group]}
    borders = {
        value
        for node in nodes
        for value in base.operands[node]
        if value not in made and base.memory[value] in written
    }  # fmt: skip
    held = {base.memory[value] for value in borders}
    numbers = sorted(borders)
    for value in sorted(made):
        if graph.values[value] is None:
            continue
        readers = base.readers[value]
        if (
            value in base.output_values
            or any(node not in inside for node in readers)
            or (not readers and base.memory[value] not in held)
        ):
            numbers.append(value)
    return tuple(numbers)
