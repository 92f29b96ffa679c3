"""Computes remaining precision between many tensors, and the classes into which it merges them.

The remaining precision of two floats is the number of leading mantissa bits that are the same, from 0 to the mantissa's
length; 0 where sign or exponent differ, or only one is a NaN. Of two tensors it is the minimum over their elements.
Source: section 2 of "Causes and Effects of Unanticipated Numerical Deviations in Neural Network Inference Frameworks"
(NeurIPS 2023).
(`mindgap.graph.compare.metrics.remaining_precision` is another measure: it counts steps between representable values.)

The length of a common prefix is an ultrametric: p(a, c) ≥ min(p(a, b), p(b, c)). The minimum over elements keeps it so.
Two consequences save comparisons:

- The minimum over all pairs of n tensors is the minimum over the n − 1 pairs with one of them.
- Two tensors that share different numbers of bits with a third one share the smaller number with each other. Only
  tensors that share the same number with it have to be separated. Two tensors share k bits or more exactly if their
  elements, cut off after k mantissa bits, are the same. So digests of cut tensors at O(log m) lengths, m the length of
  the mantissa, order any number of tensors: O(n log m) passes, and no comparison of pairs.

Tensors are loaded one at a time. At most two are in memory: the first one and the one just loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import xxhash

from mindgap.graph import Array, MindgapError
from mindgap_studies.equivalence.equality import BITS, BinaryFormat, Equality, canonical_bits, format_of, raw_bits

#: Returns tensor number i. All have one dtype and one number of elements.
Load = Callable[[int], Array]
#: Elements that are looked at together: 128 KiB of float32. Both operands stay in a second-level cache.
CHUNK: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class Merge:
    """Groups of tensors that become one when only `bits` mantissa bits are compared. Each group is ascending."""

    bits: int
    groups: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Dendrogram:
    """The remaining precision of all pairs of n tensors.

    `mantissa`: its bits, the remaining precision of equal tensors. `order`: the tensors' numbers as the leaves of the
    tree. `shared`: bits that each leaf has in common with the one before it, n − 1 numbers. The remaining precision of
    any two tensors is the minimum of `shared` between them.
    """

    mantissa: int
    order: tuple[int, ...]
    shared: tuple[int, ...]

    def precision(self, i: int, j: int) -> int:
        """Returns the remaining precision of two tensors in bits; of a tensor with itself, all bits."""
        low, high = sorted((self.order.index(i), self.order.index(j)))
        return min(self.shared[low:high], default=self.mantissa)

    @property
    def minimum(self) -> int:
        """Returns the smallest remaining precision of any pair; of one tensor, all bits."""
        return min(self.shared, default=self.mantissa)

    def classes(self, bits: int | None = None) -> tuple[tuple[int, ...], ...]:
        """Returns the groups that share at least `bits` bits (default: all, that is equal tensors), by first member."""
        needed = self.mantissa if bits is None else bits
        groups = [[self.order[0]]]
        for leaf, shared in zip(self.order[1:], self.shared, strict=True):
            if shared >= needed:
                groups[-1].append(leaf)
            else:
                groups.append([leaf])
        return tuple(sorted(tuple(sorted(group)) for group in groups))

    def merges(self) -> tuple[Merge, ...]:
        """Returns where classes become one, most bits first."""
        merged: list[Merge] = []
        before = self.classes()
        for bits in sorted({each for each in self.shared if each < self.mantissa}, reverse=True):
            after = self.classes(bits)
            parts = {whole: tuple(part for part in before if part[0] in whole) for whole in after}
            merged += (Merge(bits, groups) for groups in parts.values() if len(groups) > 1)
            before = after
        return tuple(merged)


def remaining_precision(a: Array, b: Array, equality: Equality = BITS) -> int:
    """Returns the remaining precision of two arrays of one format and size, in bits."""
    return minimum_precision(2, (a, b).__getitem__, equality)


def minimum_precision(n: int, load: Load, equality: Equality = BITS) -> int:
    """Returns the smallest remaining precision of any two of n tensors in bits, after n − 1 comparisons.

    Raises `MindgapError` for no tensors, a dtype that is not a float format, and unlike dtypes or sizes.
    """
    tensors = _Tensors(n, load, equality)
    reference = _Reference.of(tensors.bits(0), tensors)
    least = tensors.form.mantissa
    for i in range(1, n):
        bits = tensors.bits(i)
        measured = None if reference is None else reference.compare(bits, digest=False)
        if measured is None:
            return 0
        least = min(least, measured.precision)
    return least


def dendrogram(n: int, load: Load, equality: Equality = BITS) -> Dendrogram:
    """Returns the remaining precision of all pairs of n tensors, after O(n log m) loads and no comparison of pairs.

    A tensor that is equal to nothing (it holds a NaN under `VALUES`) shares 0 bits with every other. Tensors are the
    same if their 128-bit digests are. Raises `MindgapError` as `minimum_precision` does.
    """
    tensors = _Tensors(n, load, equality)
    lone = list[int]()
    chosen = list[int]()
    near: dict[int, dict[str, list[int]]] = {}
    reference: _Reference | None = None
    for i in range(n):
        bits = tensors.bits(i)
        if reference is None:
            reference = _Reference.of(bits, tensors)
            (lone if reference is None else chosen).append(i)
            continue
        measured = reference.compare(bits, digest=True)
        if measured is None:
            lone.append(i)
        else:
            near.setdefault(measured.precision, {}).setdefault(measured.digest, []).append(i)
    reference = None
    parts = [(tensors.form.mantissa, _Tree((i,), ())) for i in chosen]
    parts += [(bits, _split_tensors(near[bits], bits, tensors)) for bits in sorted(near, reverse=True)]
    parts += [(0, _Tree((i,), ())) for i in lone]
    tree = _chained(parts)
    return Dendrogram(tensors.form.mantissa, tree.order, tree.shared)


@dataclass(frozen=True, slots=True)
class _Tree:
    """A part of a dendrogram, as `Dendrogram` has it."""

    order: tuple[int, ...]
    shared: tuple[int, ...]


class _Tensors:
    """Loads tensors as bits, and checks each against the first one's dtype and size. Keeps none."""

    def __init__(self, n: int, load: Load, equality: Equality) -> None:
        if n < 1:
            raise MindgapError("remaining precision of no tensors: give at least one")
        self._load = load
        self.equality = equality
        self._first: tuple[str, int] | None = None
        # That of the first tensor, as soon as it is loaded.
        self.form = format_of(np.dtype(np.float32))

    def bits(self, i: int) -> Array:
        values = self._load(i)
        about = (str(values.dtype), values.size)
        if self._first is None:
            self._first, self.form = about, format_of(values.dtype)
        if about != self._first:
            raise MindgapError(
                f"tensor {i} is {about[0]} of {about[1]} elements, tensor 0 is {self._first[0]} of {self._first[1]}: "
                "remaining precision is of tensors of one dtype and size"
            )
        return raw_bits(values)


@dataclass(frozen=True, slots=True)
class _Compared:
    """Mantissa bits that a tensor shares with the reference, and the digest of its canonical bits if requested."""

    precision: int
    digest: str


@dataclass(frozen=True, slots=True)
class _Reference:
    """A tensor in canonical bits, with which others are compared.

    `delicate`: by chunk, whether another tensor with the same signs and exponents may still not be in canonical bits:
    with an infinity it may hold a NaN, with a negative subnormal −0.
    """

    bits: Array
    delicate: tuple[bool, ...]
    form: BinaryFormat
    equality: Equality

    @classmethod
    def of(cls, bits: Array, tensors: _Tensors) -> _Reference | None:
        """Copies a tensor, since a load may use its buffer again. None for one that equals nothing."""
        form, equality = tensors.form, tensors.equality
        kept = np.empty_like(bits)
        delicate: list[bool] = []
        for chunk, place in zip(_chunks(bits), _chunks(kept), strict=True):
            place[:], lone = canonical_bits(chunk, form, equality)
            if lone:
                return None
            infinite = (place & form.bits.type(form.sign - 1)).max() >= form.infinity
            tiny = not equality.zeros_differ and bool(
                ((place > form.sign) & (place < form.sign + (1 << form.mantissa))).any()
            )
            delicate.append(bool(infinite) or tiny)
        return cls(kept, tuple(delicate), form, equality)

    def compare(self, bits: Array, *, digest: bool) -> _Compared | None:
        """Compares another tensor. None for one that equals nothing."""
        hasher = xxhash.xxh3_128()
        space = np.empty(min(CHUNK, bits.size), bits.dtype)
        same_exponents = 1 << self.form.mantissa
        worst = 0
        for chunk, part, delicate in zip(_chunks(bits), _chunks(self.bits), self.delicate, strict=True):
            largest = int(np.bitwise_xor(chunk, part, out=space[: chunk.size]).max())
            # Where signs and exponents are those of the reference, nothing needs to be brought into canonical bits.
            if delicate or largest >= same_exponents:
                canonical, lone = canonical_bits(chunk, self.form, self.equality)
                if lone:
                    return None
                if canonical is not chunk:
                    chunk = canonical
                    largest = int((chunk ^ part).max())
            worst = max(worst, largest)
            if digest:
                hasher.update(_buffer(chunk))
        return _Compared(max(0, self.form.mantissa - worst.bit_length()), hasher.hexdigest())


def _cut_digest(bits: Array, mantissa_bits: int, form: BinaryFormat, equality: Equality) -> str:
    """Digests a tensor cut off after some mantissa bits."""
    mask = form.bits.type(form.sign * 2 - (1 << (form.mantissa - mantissa_bits)))
    space = np.empty(min(CHUNK, bits.size), bits.dtype)
    hasher = xxhash.xxh3_128()
    for chunk in _chunks(bits):
        canonical = canonical_bits(chunk, form, equality)[0]
        hasher.update(_buffer(np.bitwise_and(canonical, mask, out=space[: chunk.size])))
    return hasher.hexdigest()


def _chunks(bits: Array) -> Iterator[Array]:
    return (bits[start : start + CHUNK] for start in range(0, bits.size, CHUNK))


def _buffer(bits: Array) -> Any:
    return bits.view(np.uint8)


def _split_tensors(same: dict[str, list[int]], low: int, tensors: _Tensors) -> _Tree:
    """Orders tensors that share `low` bits with a reference. `same`: equal tensors by their digest."""
    mantissa = tensors.form.mantissa

    def digest(i: int, bits: int) -> str:
        return _cut_digest(tensors.bits(i), bits, tensors.form, tensors.equality)

    # Tensors at one distance from the reference are often at that distance from each other, which one bit more shows.
    tree = _divided([each[0] for each in same.values()], low, low + 1, mantissa, digest)
    within = {each[0]: _Tree(tuple(each), (mantissa,) * (len(each) - 1)) for each in same.values()}
    return _expanded(tree, within)


def _divided(members: Sequence[int], low: int, middle: int, high: int, digest: Callable[[int, int], str]) -> _Tree:
    """Orders tensors that pairwise share at least `low` bits and fewer than `high`, by digests at the middle."""
    if len(members) == 1 or high - low <= 1:
        return _Tree(tuple(members), (low,) * (len(members) - 1))
    groups: dict[str, list[int]] = {}
    for i in members:
        groups.setdefault(digest(i, middle), []).append(i)
    within = {group[0]: _divided(group, middle, (middle + high) // 2, high, digest) for group in groups.values()}
    return _expanded(_divided(tuple(within), low, (low + middle) // 2, middle, digest), within)


def _expanded(tree: _Tree, within: dict[int, _Tree]) -> _Tree:
    """Puts a tree in place of each leaf."""
    return _chained([(bits, within[leaf]) for leaf, bits in zip(tree.order, (0, *tree.shared), strict=True)])


def _chained(parts: Sequence[tuple[int, _Tree]]) -> _Tree:
    """Puts trees one after another. Each comes with the bits that it shares with the one before it."""
    order: list[int] = []
    shared: list[int] = []
    for bits, tree in parts:
        if order:
            shared.append(bits)
        order += tree.order
        shared += tree.shared
    return _Tree(tuple(order), tuple(shared))
