"""Remembers which operators made a platform fail, and finds the same operators in other graphs.

Models of one family fail in the same place. The search for the smallest part that fails takes minutes where each try
costs a worker; that these operators fail in another graph too takes one job.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from mindgap.graph import Graph, operands
from mindgap.run.outcome import Outcome

#: How many sets of operators are remembered for failures of one kind, and in how many places of a graph each is tried.
_MOST_PATTERNS: Final = 4
_MOST_PLACES: Final = 2
#: How many nodes are looked at for one pattern in one graph.
_MOST_STEPS: Final = 20_000


@dataclass(frozen=True, slots=True)
class FailurePattern:
    """Operators in the order of their calls. `reads`: the operands of each: the number of the operator in the pattern
    that makes it, and its slot; None for any value."""

    ops: tuple[str, ...]
    reads: tuple[tuple[tuple[int, int] | None, ...], ...]


def pattern_of(graph: Graph, nodes: Sequence[int]) -> FailurePattern:
    """The pattern of some nodes, which are in execution order."""
    made = {graph.first_value[node] + slot: (number, slot) for number, node in enumerate(nodes)
            for slot in range(len(graph.nodes[node].outputs))}  # fmt: skip
    reads = tuple(tuple(made.get(value) for value in operands(graph.nodes[node])) for node in nodes)
    return FailurePattern(tuple(graph.nodes[node].op for node in nodes), reads)


def places_of(graph: Graph, pattern: FailurePattern) -> Iterator[tuple[int, ...]]:
    """The nodes of a graph that form the pattern, for each place, in execution order. Ends where looking takes too
    long."""
    left = _MOST_STEPS

    def extended(chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        nonlocal left
        number = len(chosen)
        if number == len(pattern.ops):
            yield chosen
            return
        for index in range(chosen[-1] + 1 if chosen else 0, len(graph.nodes)):
            left -= 1
            if left < 0:
                return
            if graph.nodes[index].op == pattern.ops[number] and _reads(graph, index, pattern.reads[number], chosen):
                yield from extended((*chosen, index))

    return extended(())


def _reads(graph: Graph, index: int, reads: Sequence[tuple[int, int] | None], chosen: Sequence[int]) -> bool:
    """Whether a node's operands come from the chosen nodes as in the pattern."""
    values = operands(graph.nodes[index])
    if len(values) != len(reads):
        return False
    pairs = zip(values, reads, strict=True)
    return all(place is None or value == graph.first_value[chosen[place[0]]] + place[1] for value, place in pairs)


class KnownFailures:
    """The patterns that made platforms fail, by platform, status and signature, the newest first. Thread-safe."""

    def __init__(self) -> None:
        self._patterns: dict[tuple[str, str, str], list[FailurePattern]] = {}
        self._lock = threading.Lock()

    def add(self, failure: Outcome, graph: Graph, nodes: Sequence[int]) -> None:
        """Remembers the nodes that fail by themselves in the way of `failure`."""
        pattern = pattern_of(graph, nodes)
        with self._lock:
            known = self._patterns.setdefault(_kind(failure), [])
            if pattern in known:
                known.remove(pattern)
            known.insert(0, pattern)
            del known[_MOST_PATTERNS:]

    def places(self, failure: Outcome, graph: Graph) -> Iterator[tuple[int, ...]]:
        """The nodes of a graph that may fail in the way of `failure`, because their like did in another graph."""
        with self._lock:
            known = [*self._patterns.get(_kind(failure), ())]
        for pattern in known:
            yield from islice(places_of(graph, pattern), _MOST_PLACES)


def _kind(failure: Outcome) -> tuple[str, str, str]:
    """What alike failures have in common. What a library prints before it aborts does not count."""
    return failure.platform, failure.status, failure.signature.partition(" | ")[0]
