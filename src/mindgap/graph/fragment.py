"""Graphs prepared to be parts of larger ones, and how such parts are fed."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from mindgap.graph import wire
from mindgap.graph.encoder import node_columns
from mindgap.graph.entries import ROLE_CODE, kind_entry, seed_of
from mindgap.graph.graph import Graph
from mindgap.graph.validate import validate

T = TypeVar("T")

#: Bytes in which a fragment holds a seed, little-endian: the most that a recipe may have.
SEED_BYTES: Final = 16
#: (index of a piece, number of a value in that piece's own graph)
Source = tuple[int, int]


class Fragment:
    """A valid graph with the columns of its content, to be used in any number of assemblies. Never changed.

    Raises `GraphError` for a graph that breaks a rule. The graph's outputs, `grad` and labels play no part.
    `again`: gives the graph anew; then the graph is not held, which takes three quarters of the memory. `known`: parts
    that many fragments have alike, held once for all of them.

    Integers in bytes are int32 in this machine's order.
    `kinds`: for each input its entry. `roles`, `seeds`: for each input one byte and `SEED_BYTES`. `seeded`: for each
    input 1 where it has a seed, else 0. `templates`: for each node its entry. `codes`: for each hole of each node the
    code of the reference in it, or anything where that is to an input. `reads`: for each reference to an input its
    hole, the number of the input, and how many slots the nodes before it made. `slots`: for each slot its entry
    (`tables.Columns`). `values`: the spec of every value. `sizes`: how many inputs, slots, holes and reads.
    """

    __slots__ = (
        "_again", "_graph", "codes", "kinds", "reads", "roles", "seeded", "seeds", "sizes", "slots", "templates",
        "values",
    )  # fmt: skip

    def __init__(
        self, graph: Graph, again: Callable[[], Graph] | None = None, known: dict[Any, Any] | None = None
    ) -> None:
        validate(graph)
        known = {} if known is None else known
        nodes = node_columns(graph)
        inputs = len(graph.inputs)
        codes: list[int] = []
        reads: list[int] = []
        current = inputs
        for node, holes in zip(graph.nodes, nodes.operands, strict=True):
            for value in holes:
                if value < inputs:
                    reads += (len(codes), value, current - inputs)
                codes.append(wire.REFERENCE_KINDS * (current - value - 1))
            current += len(node.outputs)
        seeds = [seed_of(given.recipe) for given in graph.inputs]
        self._graph, self._again = (graph, None) if again is None else (None, again)
        self.kinds = _shared(map(kind_entry, graph.inputs), known)
        self.roles = bytes([ROLE_CODE[given.role] for given in graph.inputs])
        self.seeds = b"".join([(seed or 0).to_bytes(SEED_BYTES, "little") for seed in seeds])
        self.seeded = bytes([seed is not None for seed in seeds])
        self.templates = _shared(nodes.templates, known)
        self.codes = array("i", codes).tobytes()
        self.reads = array("i", reads).tobytes()
        self.slots = _shared(nodes.slots, known)
        self.values = _shared(nodes.values, known)
        self.sizes = (inputs, len(nodes.slots), len(codes), len(reads) // 3)

    @property
    def graph(self) -> Graph:
        """The graph, made again where it is not held."""
        if self._graph is not None:
            return self._graph
        assert self._again is not None
        return self._again()

    @property
    def nodes(self) -> int:
        """How many."""
        return len(self.templates)


def _shared(parts: Iterable[T], known: dict[Any, Any]) -> tuple[T, ...]:
    """The parts, each the first of its equals."""
    return tuple([known.setdefault(part, part) for part in parts])


@dataclass(frozen=True, slots=True)
class Piece:
    """A fragment in an assembly. `feeds`: for some of its inputs, the value of an earlier piece that is read instead.

    The inputs that are not fed become inputs of the assembled graph. A source may itself be an input, fed or not.
    """

    fragment: Fragment
    feeds: Mapping[int, Source] = field(default_factory=dict[int, Source])
