"""Reads a graph's bytes piece by piece, within a budget."""

from __future__ import annotations

import math
import struct

from mindgap.graph import wire


class Reader:
    """Bytes and a read position. IndexError if they end too early. `place`: the part that is read now."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._left = wire.MAX_THINGS
        self.place = "beginning"

    def byte(self) -> int:
        at = self._at
        self._at = at + 1
        return self._data[at]

    def count(self) -> int:
        """Reads an unsigned LEB128 number."""
        data, at = self._data, self._at
        low = data[at]
        if low < 0x80:
            self._at = at + 1
            return low
        number, shift = low & 0x7F, 7
        for byte in data[at + 1 : at + wire.MAX_VARINT]:
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                self._at = at + shift // 7
                return number
        if at + wire.MAX_VARINT > len(data):
            raise IndexError
        raise ValueError(f"a number is longer than {wire.MAX_VARINT} bytes")

    def take(self, length: int) -> bytes:
        if length > len(self._data) - self._at:
            raise IndexError
        start = self._at
        self._at = start + length
        return self._data[start : self._at]

    def double(self) -> float:
        """Reads 64 bits as a float; every NaN becomes math.nan."""
        (number,) = struct.unpack("<d", self.take(8))
        return number if number == number else math.nan

    def things(self) -> int:
        """Reads a count of objects to make, each of which takes at least a byte here or counts against a budget."""
        number = self.count()
        self.spend(number)
        return number

    def spend(self, number: int) -> None:
        """Counts objects against the budget of a file."""
        self._left -= number
        if self._left < 0:
            raise ValueError(f"it holds more than {wire.MAX_THINGS} things")

    @property
    def ended(self) -> bool:
        """Whether nothing is left."""
        return self._at == len(self._data)

    def expect_end(self) -> None:
        if self._at != len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes are left over")
