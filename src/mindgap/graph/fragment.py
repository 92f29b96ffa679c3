"""Graphs prepared to be parts of larger ones, and how such parts are fed."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mindgap.graph.encoder import node_columns
from mindgap.graph.entries import ROLE_CODE, kind_entry, seed_of
from mindgap.graph.graph import Graph
from mindgap.graph.validate import validate

#: Bytes in which a fragment holds a seed, little-endian: the most that a recipe may have.
SEED_BYTES: Final = 16
#: (index of a piece, number of a value in that piece's own graph)
Source = tuple[int, int]


class Fragment:
    """A valid graph with the columns of its content, to be used in any number of assemblies. Never changed.

    Raises `GraphError` for a graph that breaks a rule. The graph's outputs, `grad` and labels play no part.

    `kinds`: for each input its entry. `roles`, `seeds`: for each input one byte and `SEED_BYTES`. `seeded`: for each
    input 1 where it has a seed, else 0. `templates`: for each node its entry. `reads`: for each hole of each node two
    int32 in this machine's order, the value that goes there and the number of slots that nodes before it made.
    `slots`: for each slot its entry (`tables.Columns`). `sizes`: how many inputs, slots and holes.
    """

    __slots__ = ("graph", "kinds", "reads", "roles", "seeded", "seeds", "sizes", "slots", "templates")

    def __init__(self, graph: Graph) -> None:
        validate(graph)
        templates, operands, slots = node_columns(graph)
        inputs = len(graph.inputs)
        seeds = [seed_of(given.recipe) for given in graph.inputs]
        reads = array("i")
        made = 0
        for node, holes in zip(graph.nodes, operands, strict=True):
            for value in holes:
                reads.append(value)
                reads.append(made)
            made += len(node.outputs)
        self.graph = graph
        self.kinds = tuple(map(kind_entry, graph.inputs))
        self.roles = bytes([ROLE_CODE[given.role] for given in graph.inputs])
        self.seeds = b"".join([(seed or 0).to_bytes(SEED_BYTES, "little") for seed in seeds])
        self.seeded = bytes([seed is not None for seed in seeds])
        self.templates = tuple(templates)
        self.reads = reads.tobytes()
        self.slots = tuple(slots)
        self.sizes = (inputs, len(slots), len(reads) // 2)


@dataclass(frozen=True, slots=True)
class Piece:
    """A fragment in an assembly. `feeds`: for some of its inputs, the value of an earlier piece that is read instead.

    The inputs that are not fed become inputs of the assembled graph. A source may itself be an input, fed or not.
    """

    fragment: Fragment
    feeds: Mapping[int, Source] = field(default_factory=dict[int, Source])
