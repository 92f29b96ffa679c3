"""Reads tables of a FlatBuffers file. Every offset is checked before it is followed, so that a damaged file is refused.

The layout is that of FlatBuffers' description of its internals (flatbuffers.dev, "FlatBuffer Internals"): numbers are
little-endian; a table begins with the signed distance back to its list of field positions; texts, vectors and tables
are reached by unsigned distances forward, and vectors and texts begin with their length.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np

from mindgap.graph import Array, MindgapError

#: Bytes and sign of a number by its format character (module `struct`).
_SIZES: Final = {"b": 1, "B": 1, "?": 1, "h": 2, "H": 2, "i": 4, "I": 4, "f": 4, "q": 8, "Q": 8}


class DamagedFile(MindgapError):
    """An offset or a length leads out of the file, or a text is none."""


class Table:
    """One table. Fields have the numbers of the schema; one that is left out has its default."""

    def __init__(self, data: bytes, at: int) -> None:
        """`at`: the position of the table. Raises `DamagedFile`."""
        self._data, self._at = data, at
        self._fields = at - _number(data, at, "i")
        self._count = (_number(data, self._fields, "H") - 4) // 2
        if self._count > 0:
            _number(data, self._fields + 2 + 2 * self._count, "H")  # the last of the list is there

    @classmethod
    def root(cls, data: bytes) -> Table:
        """Returns the table at which a file begins."""
        return cls(data, _number(data, 0, "I"))

    def place(self, field: int) -> int | None:
        """Returns the position of a field's bytes in the file, or None if it is left out."""
        if field >= self._count:
            return None
        offset = _number(self._data, self._fields + 4 + 2 * field, "H")
        return self._at + offset if offset else None

    def number(self, field: int, kind: str = "i", default: float = 0) -> Any:
        """Returns a number. `kind`: a format character of the module `struct`."""
        place = self.place(field)
        return default if place is None else _number(self._data, place, kind)

    def _target(self, field: int) -> int | None:
        place = self.place(field)
        return None if place is None else place + _number(self._data, place, "I")

    def table(self, field: int) -> Table | None:
        """Returns a table, or None if it is left out."""
        at = self._target(field)
        return None if at is None else Table(self._data, at)

    def tables(self, field: int) -> list[Table]:
        """Returns the tables of a vector."""
        at = self._target(field)
        if at is None:
            return []
        places = _vector(self._data, at, "I")
        return [Table(self._data, at + 4 + 4 * i + int(each)) for i, each in enumerate(places)]

    def numbers(self, field: int, kind: str = "i") -> Array | None:
        """Returns the numbers of a vector, or None if it is left out."""
        at = self._target(field)
        return None if at is None else _vector(self._data, at, kind)

    def text(self, field: int) -> str:
        """Returns a text; what is no UTF-8 in it is replaced."""
        found = self.numbers(field, "B")
        return "" if found is None else found.tobytes().decode("utf-8", "replace")


def _number(data: bytes, at: int, kind: str) -> Any:
    if not 0 <= at <= len(data) - _SIZES[kind]:
        raise DamagedFile(f"an offset leads to byte {at}, and the file has {len(data)}")
    return struct.unpack_from(f"<{kind}", data, at)[0]


def _vector(data: bytes, at: int, kind: str) -> Array:
    length = _number(data, at, "I")
    if length * _SIZES[kind] > len(data) - at - 4:
        raise DamagedFile(f"a vector of {length} elements leads out of the file")
    return np.frombuffer(data, f"<{kind}", length, at + 4)
