"""The remaining precision between many tensors, and the classes into which it merges them.

The remaining precision of two floats is the number of leading mantissa bits that are the same, from 0 to the mantissa's
length; 0 where sign or exponent differ, or only one is a NaN. Of two tensors it is the minimum over their elements.
Source: section 2 of "Causes and Effects of Unanticipated Numerical Deviations in Neural Network Inference Frameworks"
(NeurIPS 2023).
(`mindgap.graph.compare.metrics.remaining_precision` is another measure: it counts steps between representable values.)

The length of a common prefix is an ultrametric: p(a, c) ≥ min(p(a, b), p(b, c)). The minimum over elements keeps it so.
So a dendrogram holds the remaining precision of all pairs.
"""

from __future__ import annotations

from dataclasses import dataclass


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
        merged: list[Merge] = []
        before = self.classes()
        for bits in sorted({each for each in self.shared if each < self.mantissa}, reverse=True):
            after = self.classes(bits)
            parts = {whole: tuple(part for part in before if part[0] in whole) for whole in after}
            merged += (Merge(bits, groups) for groups in parts.values() if len(groups) > 1)
            before = after
        return tuple(merged)
