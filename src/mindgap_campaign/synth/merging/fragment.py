"""Prepares graphs as parts of larger graphs."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, TypeVar

from mindgap.graph import wire
from mindgap.graph.encoder import node_columns
from mindgap.graph.entries import ROLE_CODE, KindEntry, TemplateEntry, kind_entry, seed_of
from mindgap.graph.graph import Graph, Input
from mindgap.graph.tables import LIKE_FIRST, NO_TENSOR
from mindgap.graph.validation import validate

_E = TypeVar("_E")

#: Bytes in which a fragment holds a seed, little-endian: the most that a recipe may have.
SEED_BYTES: Final = 16
#: Bytes of columns that are often the same in other fragments.
_SHORT: Final = 64
#: (index of a piece, number of a value in that piece's own graph)
Source = tuple[int, int]


class Numbered(Generic[_E]):
    """Numbers entries from 0 in the order of first use."""

    def __init__(self) -> None:
        self.entries: list[_E] = []
        self._numbers: dict[_E, int] = {}

    def number(self, entry: _E) -> int:
        """Returns the number of an entry, and adds a new one."""
        position = self._numbers.setdefault(entry, len(self.entries))
        if position == len(self.entries):
            self.entries.append(entry)
        return position

    def numbers(self, entries: Iterable[_E]) -> bytes:
        """Returns the number of each entry, as int32."""
        return array("i", map(self.number, entries)).tobytes()


class Parts:
    """The tables that the fragments of an assembly share. Not thread-safe while fragments are made.

    `kinds`, `templates`, `slots`: entries of the tables of content.
    """

    __slots__ = ("_same", "kinds", "slots", "templates")

    def __init__(self) -> None:
        self.kinds: Numbered[KindEntry] = Numbered()
        self.templates: Numbered[TemplateEntry] = Numbered()
        self.slots: Numbered[bytes] = Numbered()
        for entry in (NO_TENSOR, LIKE_FIRST):
            self.slots.number(entry)
        self._same: dict[Any, Any] = {}

    def kind_numbers(self, inputs: Iterable[Input]) -> bytes:
        """Returns the number of each input's kind, as int32. Adds their specs to the table of slots too."""
        kinds = [kind_entry(given) for given in inputs]
        self.slots.numbers([kind[1] for kind in kinds])
        return self.kinds.numbers(kinds)

    def same(self, thing: _E) -> _E:
        """Returns the first of equal objects. Fragments are used out of order, so shared objects stay in the cache."""
        return self._same.setdefault(thing, thing)


class FragmentColumns(NamedTuple):
    """The columns of a graph's content before its place in an assembly is known; int32 in this machine's order.

    `kinds`: for each input the number of its kind. `roles`, `seeds`: for each input one byte and `SEED_BYTES`.
    `seeded`: for each input 1 where it has a seed, else 0. `templates`: for each node the number of its template.
    `codes`: for each hole of each node the code of the reference in it, or anything where that is to an input. `reads`:
    for each reference to an input its hole, the number of the input, and how many slots the nodes before it made.
    `slots`: for each slot the number of its entry.
    """

    kinds: bytes = b""
    roles: bytes = b""
    seeds: bytes = b""
    seeded: bytes = b""
    templates: bytes = b""
    codes: bytes = b""
    reads: bytes = b""
    slots: bytes = b""


class Fragment:
    """The columns of a graph's content, to be used in any number of assemblies. Never changed.

    Raises `GraphError` for a graph that breaks a rule. The graph's outputs, `grad` and labels play no part.
    `parts`: one for all fragments that are put together. The graph itself is not held: it would take more memory than
    all else.

    `nodes`: how many. `values`: the spec of every value. `sizes`: how many inputs, slots, holes and reads.
    """

    __slots__ = ("columns", "nodes", "parts", "sizes", "values")

    def __init__(self, graph: Graph, parts: Parts) -> None:
        validate(graph)
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
        self.parts = parts
        self.nodes = len(graph.nodes)
        columns = FragmentColumns(
            kinds=parts.kind_numbers(graph.inputs),
            roles=bytes([ROLE_CODE[given.role] for given in graph.inputs]),
            seeds=b"".join([(seed or 0).to_bytes(SEED_BYTES, "little") for seed in seeds]),
            seeded=bytes([seed is not None for seed in seeds]),
            templates=parts.templates.numbers(nodes.templates),
            codes=array("i", codes).tobytes(),
            reads=array("i", reads).tobytes(),
            slots=parts.slots.numbers(nodes.slots),
        )
        self.columns = FragmentColumns(*[parts.same(c) if len(c) <= _SHORT else c for c in columns])
        self.values = parts.same(tuple(map(parts.same, nodes.values)))
        self.sizes = parts.same((inputs, len(nodes.slots), len(codes), len(reads) // 3))


@dataclass(frozen=True, slots=True)
class Piece:
    """A fragment in an assembly. `feeds`: for some of its inputs, the value of an earlier piece that is read instead.

    The inputs that are not fed become inputs of the assembled graph. A source may itself be an input, fed or not.
    """

    fragment: Fragment
    feeds: Mapping[int, Source] = field(default_factory=dict[int, Source])
