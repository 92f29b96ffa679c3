"""The content of an assembled graph, spliced from the columns of its fragments.

Everything that does not depend on where a piece stands is taken as it is; numbers of values are put right for all
pieces at once. No nodes are made.

A *flat* number counts the values of all pieces, those of the first before those of the second, fed inputs included:
what pieces and their feeds are named by before they have numbers in the assembled graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any

import numpy as np

from mindgap.graph import wire
from mindgap.graph.fragment import SEED_BYTES, Fragment
from mindgap.graph.tables import Columns, content_of

_Ints = np.ndarray[Any, np.dtype[np.int64]]
_Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True)
class Wiring:
    """Which values are one, by flat number: `fed` inputs, and for each the source that is no fed input itself.

    `outputs`: the values that the assembled graph returns, fed inputs or not.
    """

    fed: Sequence[int]
    sources: Sequence[int]
    outputs: Sequence[int]


def spliced_content(fragments: Sequence[Fragment], wiring: Wiring) -> bytes:
    """The canonical content of the graph that these fragments make, wired so."""
    sizes = np.array([fragment.sizes for fragment in fragments], np.int64).reshape(-1, 3)
    numbers = _Numbers(sizes, wiring)
    kept = numbers.kept.tobytes()
    roles = _joined(fragments, "roles")[numbers.kept]
    kinds = compress(chain.from_iterable([fragment.kinds for fragment in fragments]), kept)
    last = len(numbers.number) - len(wiring.fed) - 1
    return content_of(
        Columns(
            kinds,
            _seeds(fragments, numbers.kept),
            list(chain.from_iterable([fragment.templates for fragment in fragments])),
            _references(fragments, sizes, numbers, roles),
            chain.from_iterable([fragment.slots for fragment in fragments]),
            (last - numbers.number[list(wiring.outputs)]).tolist() if wiring.outputs else (),
        )
    )


class _Numbers:
    """`number`: for each flat number the number in the assembled graph. `kept`: for each input whether it is one still.

    `inputs`: how many of those there are.
    """

    def __init__(self, sizes: _Ints, wiring: Wiring) -> None:
        is_input = np.repeat(np.tile([True, False], len(sizes)), sizes[:, :2].reshape(-1))
        kept = is_input.copy()
        fed = np.array(wiring.fed, np.int64)
        kept[fed] = False
        self.inputs = int(np.count_nonzero(kept))
        self.number = np.where(is_input, np.cumsum(kept), np.cumsum(~is_input) + self.inputs) - 1
        self.number[fed] = self.number[np.array(wiring.sources, np.int64)]
        self.kept = kept[is_input]


def _references(fragments: Sequence[Fragment], sizes: _Ints, numbers: _Numbers, roles: _Bytes) -> bytes:
    """The column of operands: what `ReferenceCoder` gives, for all at once."""
    reads = np.frombuffer(b"".join([fragment.reads for fragment in fragments]), np.int32).reshape(-1, 2)
    values = np.cumsum(sizes[:, 0] + sizes[:, 1]) - sizes[:, 0] - sizes[:, 1]
    slots = np.cumsum(sizes[:, 1]) - sizes[:, 1] + numbers.inputs
    read = numbers.number[reads[:, 0] + np.repeat(values, sizes[:, 2])]
    codes = wire.REFERENCE_KINDS * (reads[:, 1] + np.repeat(slots, sizes[:, 2]) - read - 1)
    from_input = np.flatnonzero(read < numbers.inputs)
    codes[from_input] = _input_codes(read[from_input], roles)
    return _counts(codes)


def _input_codes(read: _Ints, roles: _Bytes) -> _Ints:
    """Codes of references to inputs, which are numbered in `read` in the order in which nodes read them.

    Both inputs and references are sorted by role, so that a rank less the expected one is the difference between the
    places of two inputs, where they are of one role, and else the distance from the first input of that role.
    """
    place = np.empty(len(roles), np.int64)
    place[np.argsort(roles, kind="stable")] = np.arange(len(roles))
    role = roles[read]
    order = np.argsort(role, kind="stable")
    found = place[read[order]]
    expected = np.empty_like(found)
    expected[1:] = found[:-1] + 1
    kinds = len(wire.ROLE_CODES)
    references, inputs = np.bincount(role, minlength=kinds), np.bincount(roles, minlength=kinds)
    first = (np.cumsum(references) - references)[references > 0]
    expected[first] = (np.cumsum(inputs) - inputs)[references > 0]
    difference = found - expected
    codes = np.empty_like(found)
    zigzag = np.where(difference < 0, -2 * difference - 1, 2 * difference)
    codes[order] = wire.REFERENCE_KINDS * zigzag + 1 + role[order]
    return codes


def _seeds(fragments: Sequence[Fragment], kept: np.ndarray[Any, np.dtype[np.bool_]]) -> bytes:
    """The column of seeds of the inputs that are kept."""
    seeded = _joined(fragments, "seeded")[kept].view(np.bool_)
    seeds = np.frombuffer(b"".join([fragment.seeds for fragment in fragments]), "<u8").reshape(-1, 2)[kept][seeded]
    if not len(seeds):
        return b"\0"
    low, high = seeds[:, 0], seeds[:, 1]
    largest = int(high.max()) << 64 or int(low.max())
    width = (largest.bit_length() + 7) // 8 or 1
    number = np.flatnonzero(seeded).astype(np.uint64)
    less = np.stack((low - number, high - (low < number)), axis=1).astype("<u8", copy=False)
    return bytes([width]) + less.view(np.uint8).reshape(-1, SEED_BYTES)[:, :width].tobytes()


def _joined(fragments: Sequence[Fragment], column: str) -> _Bytes:
    return np.frombuffer(b"".join([getattr(fragment, column) for fragment in fragments]), np.uint8)


def _counts(numbers: _Ints) -> bytes:
    """Each number, none negative, as a count of the byte format."""
    if not len(numbers):
        return b""
    largest = int(numbers.max())
    if largest < 1 << 7:
        return numbers.astype(np.uint8).tobytes()
    digits = numbers[:, None] >> 7 * np.arange((largest.bit_length() + 6) // 7)
    needed = digits > 0
    needed[:, 0] = True
    return (digits & 0x7F | (digits > 0x7F) * 0x80)[needed].astype(np.uint8).tobytes()
