"""The tables of a graph's content, and its columns that are indices into them; the layout is described in `wire`."""

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


@dataclass(frozen=True, slots=True)
class Columns:
    """A graph as its content has it.

    `kinds`: for each input. `seeds`: as bytes. `templates`: for each node. `operands`: as bytes. `slots`: for each
    output slot of each node the entry of its spec, `NO_TENSOR` or `LIKE_FIRST`. `outputs`: each counted back from the
    last value. `grad`: numbers of inputs.
    """

    kinds: Iterable[KindEntry]
    seeds: bytes
    templates: Sequence[TemplateEntry]
    operands: bytes
    slots: Iterable[bytes]
    outputs: Sequence[int]
    grad: Sequence[int] = ()


def content_of(columns: Columns) -> bytes:
    """The canonical content: each table holds what the columns refer to, in the order of first use."""
    kinds: _Places[KindEntry] = _Places(wire.NEXT)
    inputs = list(map(kinds.__getitem__, columns.kinds))
    kind_parts = list(chain.from_iterable(kinds))
    specs = _Numbers()
    kind_parts[1::4] = map(specs.__getitem__, kind_parts[1::4])
    known = [NO_TENSOR, LIKE_FIRST, *specs]
    slots: _Places[bytes] = _Places(2 + wire.NEXT)
    slots.update(zip(known, map(_count, (0, 1, *range(3, len(known) + 1))), strict=True))
    slot_codes = b"".join(map(slots.__getitem__, columns.slots))
    templates: _Places[TemplateEntry] = _Places(wire.NEXT)
    nodes = b"".join(map(templates.__getitem__, columns.templates))
    strings = _Numbers()
    template_parts = list(chain.from_iterable(templates))
    template_parts[0::2] = map(strings.__getitem__, template_parts[0::2])
    return b"".join((
        _count(len(strings)), *strings,
        _count(len(slots) - 2), *islice(slots, 2, None),
        _count(len(kinds)), *kind_parts,
        _count(len(inputs)), *inputs, columns.seeds,
        _count(len(templates)), *template_parts,
        _count(len(columns.templates)), nodes, columns.operands, slot_codes,
        _put_outputs(columns.outputs), _put_grad(columns.grad),
    ))  # fmt: skip


def numbered(strings: Sequence[bytes]) -> tuple[list[bytes], bytes]:
    """For each entry of a string its number, and the table of them."""
    table = _Numbers()
    numbers = [table[entry] for entry in strings]
    return numbers, b"".join((_count(len(table)), *table))


class _Numbers(dict[bytes, bytes]):
    """Entries in the order of first use, each with its number as a count."""

    def __missing__(self, entry: bytes) -> bytes:
        self[entry] = code = _COUNTS[number] if (number := len(self)) < _READY else _count(number)
        return code


class _Places(dict[_E, bytes], Generic[_E]):
    """Entries in the order of first use, each with its index as columns hold it from its second use on."""

    def __init__(self, first: int) -> None:
        self._first = _count(first)

    def __missing__(self, entry: _E) -> bytes:
        self[entry] = _COUNTS[number] if (number := len(self) + 1) < _READY else _count(number)
        return self._first


def _count(number: int) -> bytes:
    out = bytearray()
    put_count(out, number)
    return bytes(out)


#: Counts that are looked up instead of made: most tables are shorter.
_READY: Final = 1 << 10
_COUNTS: Final = tuple(map(_count, range(_READY)))


def _put_outputs(outputs: Sequence[int]) -> bytes:
    codes = [_COUNTS[output] if output < _READY else _count(output) for output in outputs]
    return b"".join((_count(len(outputs)), *codes))


def _put_grad(grad: Sequence[int]) -> bytes:
    out = bytearray()
    put_count(out, len(grad))
    before = -1
    for number in grad:
        put_count(out, wire.zigzag(number - before - 1))
        before = number
    return bytes(out)
