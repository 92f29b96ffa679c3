"""Gathers values into classes of equal ones, with prefix digests; marks elements that deviate from a reference."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass

import numpy as np

from mindgap.graph import Array
from mindgap.graph.compare.digest import digest_array
from mindgap_studies.equivalence.prefix_digests import value_digests
from mindgap_studies.machines.collected_file import packed


@dataclass(frozen=True)
class NewClass:
    """A class of a value that was not seen before. `prefixes`: its digests, packed."""

    subject: str
    value: int
    digest: str
    prefixes: str


@dataclass(frozen=True)
class NewMask:
    """Which elements of a class deviate from the reference, the first array of the value that was compared. `bits`: a
    bit for each of `size` elements, compressed, as text."""

    subject: str
    value: int
    digest: str
    bits: str
    size: int

    @property
    def mask(self) -> Array:
        raw = np.frombuffer(zlib.decompress(base64.b64decode(self.bits)), np.uint8)
        return np.unpackbits(raw, count=self.size).astype(bool)


class ClassTable:
    """All classes of all values so far, and the elements that deviate."""

    def __init__(self) -> None:
        self.classes: dict[tuple[str, int], list[NewClass]] = {}
        self.masks: list[NewMask] = []
        self._numbers: dict[tuple[str, int, str], int] = {}
        self._compared: set[tuple[str, int, str]] = set()
        self._references: dict[tuple[str, int], Array] = {}

    def number_of(self, subject: str, value: int, values: Array) -> int:
        digest = digest_array(values)
        known = self._numbers.get((subject, value, digest))
        if known is not None:
            return known
        return self.add(NewClass(subject, value, digest, packed(value_digests(values))))

    def add(self, new: NewClass) -> int:
        known = self.classes.setdefault((new.subject, new.value), [])
        known.append(new)
        self._numbers[new.subject, new.value, new.digest] = len(known) - 1
        return len(known) - 1

    def compare(self, subject: str, value: int, values: Array) -> None:
        """Compares an array with the reference element by element, once for each class. The first is the reference."""
        digest = digest_array(values)
        if (subject, value, digest) in self._compared:
            return
        reference = self._references.setdefault((subject, value), values.copy())
        same = (reference == values) & (np.signbit(reference) == np.signbit(values))
        deviates = ~(same | (np.isnan(reference) & np.isnan(values))).reshape(-1)
        bits = base64.b64encode(zlib.compress(np.packbits(deviates).tobytes())).decode()
        self.add_mask(NewMask(subject, value, digest, bits, deviates.size))

    def add_mask(self, new: NewMask) -> None:
        self.masks.append(new)
        self._compared.add((new.subject, new.value, new.digest))

    def restore(self, subject: str, value: int, values: Array) -> bool:
        """Gives a compared value its reference back, after an interruption. Returns whether it is the one it had."""
        self._references[subject, value] = values.copy()
        first = next(each for each in self.masks if (each.subject, each.value) == (subject, value))
        return first.digest == digest_array(values)

    def deviating(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Returns how many elements of each compared value differ between any two classes, and how many there are."""
        found: dict[tuple[str, int], Array] = {}
        for each in self.masks:
            key, mask = (each.subject, each.value), each.mask
            found[key] = mask | found[key] if key in found else mask
        return {key: (int(mask.sum()), int(mask.size)) for key, mask in found.items()}
