"""Writes the tables of a graph's content and the columns of indices into them; the layout is described in `wire`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final, Generic, TypeVar

from mindgap.graph import wire
from mindgap.graph.entries import KindEntry, TemplateEntry
from mindgap.graph.wire import put_count

_E = TypeVar("_E")

#: In a column of slots, in place of the entry of a spec: no tensor, and the spec of the node's first operand.
NO_TENSOR: Final = b"\0"
LIKE_FIRST: Final = b"\1"
#: In the same column: the first use of a spec.
FIRST_SLOT: Final = 2 + wire.NEXT


@dataclass(frozen=True, slots=True)
class Column(Generic[_E]):
    """A table and the column of indices into it.

    `entries`: the table, in the order of first use. `length`: of the column. `codes`: the column, as bytes.
    """

    entries: Sequence[_E]
    length: int
    codes: bytes


@dataclass(frozen=True, slots=True)
class Columns:
    """The tables and columns of a graph's content.

    `kinds`: for each input. `seeds`: as bytes. `templates`: for each node. `operands`: as bytes. `slots`: for each
    output slot of each node; its table begins with the specs of the kinds. `outputs`: each counted back from the last
    value. `grad`: numbers of inputs.
    """

    kinds: Column[KindEntry]
    seeds: bytes
    templates: Column[TemplateEntry]
    operands: bytes
    slots: Column[bytes]
    outputs: Sequence[int]
    grad: Sequence[int] = ()


def column(entries: Iterable[_E]) -> Column[_E]:
    """Makes a table of the distinct entries, and the column of indices into it."""
    table: _BackReferences[_E] = _BackReferences(wire.NEXT)
    codes = list(map(table.__getitem__, entries))
    return Column(tuple(table), len(codes), b"".join(codes))


def specs_of(kinds: Iterable[KindEntry]) -> list[bytes]:
    """Returns the specs of a table of kinds, in the order of first use."""
    return list(dict.fromkeys([kind[1] for kind in kinds]))


def slot_column(specs: Sequence[bytes], slots: Iterable[bytes]) -> Column[bytes]:
    """Makes the table of specs, inputs' first, and the column of `NO_TENSOR`, `LIKE_FIRST` and specs."""
    known = [NO_TENSOR, LIKE_FIRST, *specs]
    table: _BackReferences[bytes] = _BackReferences(FIRST_SLOT)
    table.update(zip(known, map(_count, (0, 1, *range(FIRST_SLOT + 1, len(known) + 1))), strict=True))
    codes = list(map(table.__getitem__, slots))
    return Column(tuple(islice(table, 2, None)), len(codes), b"".join(codes))


def content_of(columns: Columns) -> bytes:
    """Writes the canonical content."""
    kinds, templates = columns.kinds, columns.templates
    kind_parts = list(chain.from_iterable(kinds.entries))
    specs = _Numbers()
    kind_parts[1::4] = map(specs.__getitem__, kind_parts[1::4])
    strings = _Numbers()
    template_parts = list(chain.from_iterable(templates.entries))
    template_parts[0::2] = map(strings.__getitem__, template_parts[0::2])
    return b"".join((
        _count(len(strings)), *strings,
        _count(len(columns.slots.entries)), *columns.slots.entries,
        _count(len(kinds.entries)), *kind_parts,
        _count(kinds.length), kinds.codes, columns.seeds,
        _count(len(templates.entries)), *template_parts,
        _count(templates.length), templates.codes, columns.operands, columns.slots.codes,
        _put_outputs(columns.outputs), _put_grad(columns.grad),
    ))  # fmt: skip


def numbered(strings: Sequence[bytes]) -> tuple[list[bytes], bytes]:
    """Numbers the entries of strings. Returns the numbers, and the table."""
    table = _Numbers()
    numbers = [table[entry] for entry in strings]
    return numbers, b"".join((_count(len(table)), *table))


class _Numbers(dict[bytes, bytes]):
    """Entries in the order of first use, each with its number as a count."""

    def __missing__(self, entry: bytes) -> bytes:
        self[entry] = code = _count(len(self))
        return code


class _BackReferences(dict[_E, bytes], Generic[_E]):
    """Entries in the order of first use, each with its index as columns hold it from its second use on."""

    def __init__(self, first: int) -> None:
        self._first = _count(first)

    def __missing__(self, entry: _E) -> bytes:
        self[entry] = _count(len(self) + 1)
        return self._first


def _made(number: int) -> bytes:
    out = bytearray()
    put_count(out, number)
    return bytes(out)


#: Counts that are looked up instead of made: most tables are shorter.
_COUNTS: Final = tuple(map(_made, range(1 << 10)))


def _count(number: int) -> bytes:
    return _COUNTS[number] if number < len(_COUNTS) else _made(number)


def _put_outputs(outputs: Sequence[int]) -> bytes:
    return b"".join((_count(len(outputs)), *map(_count, outputs)))


def _put_grad(grad: Sequence[int]) -> bytes:
    out = bytearray()
    put_count(out, len(grad))
    before = -1
    for number in grad:
        put_count(out, wire.zigzag(number - before - 1))
        before = number
    return bytes(out)
