"""Gathers values into classes of equal ones, with prefix digests; marks elements that deviate from the first class."""

from __future__ import annotations

import base64
import dataclasses
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mindgap.compare.digest import Sketch, digest_array
from mindgap.compare.prefix_digests import Prefixes, prefix_digests
from mindgap.graph import Array
from mindgap.machines.collected_file import packed, unpacked

_UNUSED: Final = ("sample",)


@dataclass(frozen=True)
class NewClass:
    """A class of a value that was not seen before. `mask`: which elements deviate from class 0, None if not asked."""

    subject: str
    value: int
    digest: str
    prefixes: Prefixes
    sketch: Mapping[str, Any] | None
    mask: Array | None

    def to_json(self) -> list[Any]:
        mask = None
        if self.mask is not None:
            mask = [base64.b64encode(zlib.compress(np.packbits(self.mask).tobytes())).decode(), int(self.mask.size)]
        return [self.subject, self.value, self.digest, packed(self.prefixes), self.sketch, mask]

    @staticmethod
    def from_json(entry: list[Any]) -> NewClass:
        subject, value, digest, prefixes, sketch, mask = entry
        bits = None
        if mask is not None:
            raw = np.frombuffer(zlib.decompress(base64.b64decode(mask[0])), np.uint8)
            bits = np.unpackbits(raw, count=mask[1]).astype(bool)
        return NewClass(subject, value, digest, unpacked(prefixes), sketch, bits)


class ClassTable:
    """All classes of all values so far."""

    def __init__(self) -> None:
        self.classes: dict[tuple[str, int], list[NewClass]] = {}
        self._numbers: dict[tuple[str, int, str], int] = {}
        #: Class 0 of the values whose elements are compared.
        self._references: dict[tuple[str, int], Array] = {}

    def number_of(self, subject: str, value: int, values: Array, sketch: Sketch | None, compared: bool) -> int:
        """Returns the class of an array; makes a new class if it has none. `compared`: element by element too."""
        digest = digest_array(values)
        known = self._numbers.get((subject, value, digest))
        if known is not None:
            return known
        facts = None if sketch is None else {
            name: each for name, each in dataclasses.asdict(sketch).items() if name not in _UNUSED
        }  # fmt: skip
        mask = self._mask(subject, value, values) if compared else None
        return self.add(NewClass(subject, value, digest, prefix_digests(values), facts, mask))

    def add(self, new: NewClass) -> int:
        """Adds a class and returns its number."""
        known = self.classes.setdefault((new.subject, new.value), [])
        known.append(new)
        self._numbers[new.subject, new.value, new.digest] = len(known) - 1
        return len(known) - 1

    def restore(self, subject: str, value: int, values: Array) -> bool:
        """Gives class 0 of a compared value back its elements, after an interruption. Returns whether they are its."""
        self._references[subject, value] = values.copy()
        return self._numbers.get((subject, value, digest_array(values))) == 0

    def deviating(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Returns how many elements of each compared value differ between any two classes, and how many there are."""
        found: dict[tuple[str, int], tuple[int, int]] = {}
        for key, classes in self.classes.items():
            masks = [each.mask for each in classes if each.mask is not None]
            if masks:
                found[key] = int(np.logical_or.reduce(masks).sum()), int(masks[0].size)
        return found

    def _mask(self, subject: str, value: int, values: Array) -> Array:
        reference = self._references.setdefault((subject, value), values.copy())
        same = (reference == values) & (np.signbit(reference) == np.signbit(values))
        return ~(same | (np.isnan(reference) & np.isnan(values))).reshape(-1)
