"""Finds the smallest part of a graph that shows a behaviour: delta debugging over nodes.

The search takes a predicate. First it finds the shortest prefix that shows the behaviour, then the shortest run of
nodes before the end of that prefix, then it drops nodes. Parts keep in-place operators. They return what the whole
graph returns of them, and values that they write to. Values from outside a part are computed by eager PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import torch

from mindgap.aten.dead_nodes import known_at_load, with_constants
from mindgap.aten.tape import Tape, written_inputs
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import Graph, Labels, extract
from mindgap.graph.compare.culprit import Culprit, OperatorCulprit, OutputsCulprit
from mindgap.judge.trace.subgraphs import Array, readers_of

#: Whether a graph shows the behaviour on these inputs (by input number).
Shows = Callable[[Graph, dict[int, Array]], bool]
#: The largest set of nodes that is named.
MOST_NODES: Final = 8


@dataclass(frozen=True, slots=True)
class SmallestPart:
    """The smallest part found.

    `nodes`: in execution order; none where no part of at most `MOST_NODES` nodes shows the behaviour. `reason`: why
    there are none. `twice`: the part shows it only while it returns a value twice.
    """

    nodes: tuple[int, ...]
    reason: str = ""
    twice: bool = False


def culprit_of_part(graph: Graph, part: SmallestPart) -> Culprit:
    """What a finding names for a part of the graph."""
    last = part.nodes[-1]
    if part.twice:
        return OutputsCulprit(last, label_of(graph, last))
    ops = tuple(dict.fromkeys(graph.nodes[node].op for node in part.nodes))
    return OperatorCulprit(ops, last, label_of(graph, last))


def label_of(graph: Graph, node: int) -> str:
    """Where a node comes from, empty where the graph does not say."""
    return graph.labels.nodes[node] if graph.labels.nodes else ""


class PartSearch:
    """Searches one graph for the smallest part for which `shows` holds.

    `costly`: each part that shows the behaviour costs seconds, so few of them may run. `most`: how many such parts may
    run while nodes are dropped. `folding`: a part that does not show it is tried again with those of
    its operands as constants that are known when the graph is loaded.
    """

    def __init__(
        self, graph: Graph, inputs: dict[int, Array], shows: Shows, *, costly: bool = False, most: int = 60,
        folding: bool = False,
    ) -> None:  # fmt: skip
        self._graph, self._inputs, self._shows, self._costly = graph, inputs, shows, costly
        self._readers = readers_of(graph)
        self._left = most
        self._known = known_at_load(graph) if folding else frozenset[int]()

    def smallest(self) -> SmallestPart:
        """The smallest part. The whole graph shows the behaviour."""
        if not self._graph.nodes:
            return SmallestPart((), "the graph has no operator")
        end = self._end_of_prefix()
        nodes = self._run_of_nodes(end)
        if not nodes:
            return SmallestPart((), self._without_nodes(end))
        nodes = self._fewer(nodes)
        if len(nodes) > MOST_NODES:
            where = f"between nodes {nodes[0]} and {nodes[-1]}; at most {MOST_NODES} are named"
            return SmallestPart((), f"the smallest part that was found has {len(nodes)} operators {where}")
        shown = self._shown(nodes)
        twice = len(set(shown)) < len(shown) and not self.holds(nodes, once=True)
        return SmallestPart(nodes, twice=twice)

    def holds(self, nodes: Sequence[int], once: bool = False) -> bool:
        """Whether these nodes show the behaviour as a graph of their own. `once`: which returns no value twice."""
        shown = self._shown(nodes)
        shown = list(dict.fromkeys(shown)) if once else shown
        part, borders = extract(self._graph, nodes, shown)
        written = [b for b in self._written(part, borders, nodes[-1]) if b not in shown]
        if written:
            part, borders = extract(self._graph, nodes, [*shown, *written])
        before = _values_before(self._graph, nodes, borders, self._inputs)
        given = {i: before[b] for i, b in enumerate(borders)}
        stays = self._shows(_unlabelled(part), given)
        if not stays:
            folded = with_constants(part, borders, self._known)
            stays = folded is not None and self._shows(_unlabelled(folded), given)
        self._left -= stays
        return stays

    def _end_of_prefix(self) -> int:
        """The last node of the shortest prefix that shows the behaviour."""
        low, high = 0, len(self._graph.nodes)
        # Invariant: the prefix of `high` nodes shows it, that of `low` does not.
        while high - low > 1:
            middle = low + max(1, (high - low) // (4 if self._costly else 2))
            low, high = (low, middle) if self._prefix_holds(middle) else (middle, high)
        return high - 1

    def _prefix_holds(self, length: int) -> bool:
        """A prefix returns what the graph returns of it, and what the rest of the graph reads."""
        nodes = range(length)
        passed = [v for v in self._graph.outputs if self._graph.producer[v] < 0]
        prefix, borders = extract(self._graph, nodes, [*passed, *self._shown(nodes)])
        return self._shows(_unlabelled(prefix), {i: self._inputs[b] for i, b in enumerate(borders)})

    def _run_of_nodes(self, end: int) -> tuple[int, ...]:
        """The nodes from some node to `end`, few of them, that show the behaviour; empty where none do."""
        width = 1
        while True:
            nodes = tuple(range(max(0, end + 1 - width), end + 1))
            if self.holds(nodes):
                return nodes
            if width > end:
                return ()
            width *= 2

    def _fewer(self, nodes: tuple[int, ...]) -> tuple[int, ...]:
        """The same without nodes that are not needed: halves are dropped first, then ever smaller parts."""
        size = len(nodes) // 2
        while size and self._left > 0:
            start = 0
            while start < len(nodes) and self._left > 0:
                rest = nodes[:start] + nodes[start + size :]
                if rest and self.holds(rest):
                    nodes = rest
                else:
                    start += size
            size //= 2
        return nodes

    def _shown(self, nodes: Sequence[int]) -> list[int]:
        """The values that a part returns: what the graph returns of it, as often, and what other nodes read; of a part
        without any, the last results."""
        graph, inside = self._graph, set(nodes)
        returned = [v for v in graph.outputs if graph.producer[v] in inside]
        made = [graph.first_value[i] + slot for i in nodes for slot in range(len(graph.nodes[i].outputs))]
        made = [v for v in made if graph.values[v] is not None]
        read = [v for v in made if v not in returned and self._readers.get(v, set()) - inside - {-1}]
        return returned + read or [v for v in made if nodes and graph.producer[v] == nodes[-1]]

    def _written(self, part: Graph, borders: Sequence[int], last: int) -> list[int]:
        """Values that enter a part, are written to there, and are seen afterwards, maybe through another view."""
        graph = self._graph
        changed = [borders[i] for i in written_inputs(part)]
        return [b for b in changed if graph.producer[b] >= 0 or any(r < 0 or r > last for r in self._readers[b])]

    def _without_nodes(self, end: int) -> str:
        """Why no run of nodes shows the behaviour although the prefix does."""
        graph = self._graph
        kept = tuple(v for v in graph.outputs if graph.producer[v] >= 0)
        if kept and kept != graph.outputs and not self._shows(_unlabelled(replace(graph, outputs=kept)), self._inputs):
            return "it needs an input that the graph returns"
        return f"no operators up to node {end} show it without the graph's own inputs"


def _unlabelled(graph: Graph) -> Graph:
    return replace(graph, labels=Labels())


def _values_before(
    graph: Graph, nodes: Sequence[int], borders: Sequence[int], inputs: dict[int, Array]
) -> dict[int, Array]:
    """The values that enter a part, by number. Made before its first node: as they are when that node is called, since
    an in-place operator may change them later. Made by a node in between that is left out: as they are at the end."""
    early = [b for b in borders if graph.producer[b] < nodes[0]]
    late = [b for b in borders if graph.producer[b] >= nodes[0]]
    return _values_at(graph, nodes[0], early, inputs) | _values_at(graph, nodes[-1], late, inputs)


def _values_at(graph: Graph, node: int, numbers: Sequence[int], inputs: dict[int, Array]) -> dict[int, Array]:
    """These values as they are when a node is called, from a run of what comes before it."""
    if not numbers:
        return {}
    before = replace(graph, nodes=graph.nodes[:node], outputs=tuple(numbers), grad=(), labels=Labels())
    tensors = [to_torch(inputs[i], given.spec) for i, given in enumerate(graph.inputs)]
    with torch.no_grad():
        results = Tape(before).run(tensors)
    return {number: to_numpy(tensor) for number, tensor in zip(numbers, results, strict=True)}
