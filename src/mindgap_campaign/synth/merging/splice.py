"""Splices the content of an assembled graph from the columns of its fragments.

Columns that do not depend on a piece's position are copied; value numbers are shifted for all pieces at once. No
nodes are made.

A *flat* number counts the inputs of all pieces, those of the first before those of the second, fed ones included; or
all their slots. A *source* is an input by its flat number, or -1 - the flat number of a slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from mindgap.graph import wire
from mindgap.graph.tables import FIRST_SLOT, LIKE_FIRST, NO_TENSOR, Column, Columns, content_of, specs_of
from mindgap_campaign.synth.merging.fragment import SEED_BYTES, Fragment, FragmentColumns, Numbered, Parts

_E = TypeVar("_E")
_Ints = np.ndarray[Any, np.dtype[np.int64]]
_Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_Bools = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Wiring:
    """Flat numbers: of the inputs that are `fed`, of the sources that they read instead, of the graph's outputs."""

    fed: Sequence[int]
    sources: Sequence[int]
    outputs: Sequence[int]


def spliced_content(fragments: Sequence[Fragment], wiring: Wiring) -> bytes:
    """Returns the canonical content of the graph of these fragments and this wiring."""
    sizes = np.fromiter(chain.from_iterable([fragment.sizes for fragment in fragments]), np.int64).reshape(-1, 4)
    inputs, slots, *_ = sizes.sum(axis=0).tolist()
    kept = np.ones(inputs, np.bool_)
    kept[np.array(wiring.fed, np.int64)] = False
    left = inputs - len(wiring.fed)
    number = np.cumsum(kept) - 1
    number[np.array(wiring.fed, np.int64)] = _numbers(wiring.sources, number, left)
    parts = fragments[0].parts if fragments else Parts()
    joined = FragmentColumns(*map(b"".join, zip(*[fragment.columns for fragment in fragments], strict=True)))
    kinds = _column(parts.kinds, _int32(joined.kinds)[kept])
    return content_of(
        Columns(
            kinds,
            _seeds(joined, kept),
            _column(parts.templates, _int32(joined.templates)),
            _references(joined, sizes, number, np.frombuffer(joined.roles, np.uint8)[kept]),
            _slot_column(parts.slots, specs_of(kinds.entries), _int32(joined.slots)),
            (left + slots - 1 - _numbers(wiring.outputs, number, left)).tolist(),
        )
    )


def _column(table: Numbered[_E], numbers: _Ints) -> Column[_E]:
    """Returns `tables.column` of the entries with these numbers."""
    position, first = _positions(table, numbers)
    return Column(_entries(table, numbers[first]), len(numbers), _counts(np.where(first, wire.NEXT, position + 1)))


def _slot_column(table: Numbered[bytes], specs: Sequence[bytes], numbers: _Ints) -> Column[bytes]:
    """Returns `tables.slot_column` of the entries with these numbers."""
    known = [table.number(entry) for entry in (NO_TENSOR, LIKE_FIRST, *specs)]
    position, first = _positions(table, np.concatenate((np.array(known, np.int64), numbers)))
    position, first = position[len(known) :], first[len(known) :]
    codes = np.where(first, FIRST_SLOT, position + (position >= FIRST_SLOT))
    return Column([*specs, *_entries(table, numbers[first])], len(numbers), _counts(codes))


def _entries(table: Numbered[_E], numbers: _Ints) -> list[_E]:
    wanted: list[int] = numbers.tolist()
    return [table.entries[number] for number in wanted]


def _positions(table: Numbered[Any], numbers: _Ints) -> tuple[_Ints, _Bools]:
    """Returns each number's index among the distinct ones, in order of first use, and whether it is the first use."""
    order = np.arange(len(numbers))
    begins = np.empty(len(table.entries), np.int64)
    begins[numbers[::-1]] = order[::-1]  # of what is assigned twice the last stays
    begin = begins[numbers]
    first = begin == order
    return (np.cumsum(first) - 1)[begin], first


def _numbers(sources: Sequence[int], number: _Ints, left: int) -> _Ints:
    """Converts flat numbers to value numbers. `left`: count of inputs; `number`: new number of each flat input."""
    wanted = np.array(sources, np.int64)
    return np.where(wanted < 0, left - 1 - wanted, number.take(wanted, mode="clip") if len(number) else 0)


def _references(joined: FragmentColumns, sizes: _Ints, number: _Ints, roles: _Bytes) -> bytes:
    """Returns the column of operands: the codes of `ReferenceCoder`, for all references at once.

    `number`: for each flat input its number in the assembled graph. `roles`: of the inputs of that.
    """
    codes = _int32(joined.codes)
    reads = _int32(joined.reads).reshape(-1, 3)
    starts = (np.cumsum(sizes, axis=0) - sizes)[:, (2, 0, 1)]
    hole, given, made = (reads + np.repeat(starts, sizes[:, 3], axis=0)).T
    read = number[given]
    back = made + (len(roles) - 1) - read
    inside = read < len(roles)
    code = wire.REFERENCE_KINDS * back
    code[inside] = _input_codes(read[inside], roles)
    codes[hole] = code
    return _counts(codes)


def _input_codes(read: _Ints, roles: _Bytes) -> _Ints:
    """Returns the codes of references to inputs; `read`: the inputs' numbers in the order of the references.

    Both inputs and references are sorted by role, so that a rank less the expected one is the difference between the
    places of two inputs, where they are of one role, and else the distance from the first input of that role.
    """
    position = np.empty(len(roles), np.int64)
    position[np.argsort(roles, kind="stable")] = np.arange(len(roles))
    role = roles[read]
    order = np.argsort(role, kind="stable")
    read_codes = position[read[order]]
    expected = np.empty_like(read_codes)
    expected[1:] = read_codes[:-1] + 1
    kinds = len(wire.ROLE_CODES)
    references, inputs = np.bincount(role, minlength=kinds), np.bincount(roles, minlength=kinds)
    first = (np.cumsum(references) - references)[references > 0]
    expected[first] = (np.cumsum(inputs) - inputs)[references > 0]
    difference = read_codes - expected
    codes = np.empty_like(read_codes)
    zigzag = np.where(difference < 0, -2 * difference - 1, 2 * difference)
    codes[order] = wire.REFERENCE_KINDS * zigzag + 1 + role[order]
    return codes


def _seeds(joined: FragmentColumns, kept: _Bools) -> bytes:
    """Returns the column of seeds of the inputs that are kept."""
    seeded = np.frombuffer(joined.seeded, np.bool_)[kept]
    seeds = np.frombuffer(joined.seeds, "<u8").reshape(-1, 2)[kept][seeded]
    if not len(seeds):
        return b"\0"
    low, high = seeds[:, 0], seeds[:, 1]
    largest = int(high.max()) << 64 or int(low.max())
    width = (largest.bit_length() + 7) // 8 or 1
    number = np.flatnonzero(seeded).astype(np.uint64)
    less = np.stack((low - number, high - (low < number)), axis=1).astype("<u8", copy=False)
    return bytes([width]) + less.view(np.uint8).reshape(-1, SEED_BYTES)[:, :width].tobytes()


def _int32(column: bytes) -> _Ints:
    return np.frombuffer(column, np.int32).astype(np.int64)


def _counts(numbers: _Ints) -> bytes:
    """Encodes each number (not negative) as a count of the byte format."""
    if not len(numbers):
        return b""
    largest = int(numbers.max())
    if largest < 1 << 7:
        return numbers.astype(np.uint8).tobytes()
    digits = numbers[:, None] >> 7 * np.arange((largest.bit_length() + 6) // 7)
    needed = digits > 0
    needed[:, 0] = True
    return (digits & 0x7F | (digits > 0x7F) * 0x80)[needed].astype(np.uint8).tobytes()
