"""Measures the remaining precision of many large tensors: linear minimum, clustering, and all pairs directly.

    python benchmarks/remaining_precision.py
    python benchmarks/remaining_precision.py --platforms 75 --elements 25000000 --classes 26

Tensors are made one at a time, in one buffer. Each class differs from the common tensor in the low bits of every
element. Two sets of classes are measured:

- `tree`: classes also differ in higher bits of a few elements, in a tree of several depths.
- `distinct`: every platform has a class of its own, and a few exponents differ in every part of the tensor. All pairs
  share the same number of bits. This is the worst case for a comparison of pairs.

The direct version holds all tensors and compares all pairs with numpy: exclusive or, and the largest. It runs on fewer
elements. Its time is scaled up by their number, and the output says so.

Times are CPU seconds of one process with one thread, and wall-clock seconds in brackets. Making a tensor is apart from
comparing.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

import numpy as np

from mindgap_studies.equivalence.ultrametric import dendrogram, minimum_precision

T = TypeVar("T")


@dataclass
class Clock:
    """CPU and wall-clock seconds."""

    cpu: float = 0.0
    wall: float = 0.0

    @classmethod
    def now(cls) -> Clock:
        return cls(time.process_time(), time.perf_counter())

    def __sub__(self, other: Clock) -> Clock:
        return Clock(self.cpu - other.cpu, self.wall - other.wall)

    def __add__(self, other: Clock) -> Clock:
        return Clock(self.cpu + other.cpu, self.wall + other.wall)

    def __str__(self) -> str:
        return f"{self.cpu:.2f} s ({self.wall:.2f} s)"


class Tensors:
    """Makes the tensors of platforms, one at a time, in one buffer. Counts loads and the time they take."""

    def __init__(self, platforms: int, elements: int, classes: int, *, tree: bool) -> None:
        draw = np.random.default_rng(0)
        self.base = draw.standard_normal(elements, dtype=np.float32).view(np.uint32)
        self.noise = draw.integers(0, 2**6, size=elements // 8 + classes, dtype=np.uint32)
        self.buffer = np.empty_like(self.base)
        self.of = [i % classes for i in range(platforms)]
        self.tree = tree
        self.spent, self.loads = Clock(), 0

    def load(self, i: int) -> np.ndarray:
        start = Clock.now()
        number, eighth = self.of[i], self.base.size // 8
        for part in range(0, self.base.size, eighth):
            end = min(part + eighth, self.base.size)
            noise = self.noise[number : number + end - part]
            np.bitwise_xor(self.base[part:end], noise, out=self.buffer[part:end])
        if self.tree:
            for depth in range(3):
                branch = number // 3**depth
                self.buffer[(branch * 7919 + depth * 104729) % self.base.size] ^= np.uint32(1 << (8 + 5 * depth))
        else:
            self.buffer[number :: 1 << 14] ^= np.uint32(1 << 24)
        self.loads += 1
        self.spent += Clock.now() - start
        return self.buffer.view(np.float32)

    def release(self) -> None:
        """Frees the memory."""
        self.base = self.noise = self.buffer = np.empty(0, np.uint32)

    def timed(self, compute: Callable[[], T]) -> tuple[T, Clock]:
        """Returns a result, and the time without making tensors. Prints both."""
        self.spent, self.loads = Clock(), 0
        start = Clock.now()
        found = compute()
        spent = Clock.now() - start - self.spent
        print(f"    {self.loads} loads; comparing {spent}, making tensors {self.spent}")
        return found, spent


def directly(tensors: Tensors, platforms: int) -> tuple[dict[tuple[int, int], int], Clock]:
    """Compares all pairs of tensors that are all in memory. Returns bits by pair, and the time."""
    kept = [tensors.load(i).view(np.uint32).copy() for i in range(platforms)]
    start = Clock.now()
    pairs = combinations(range(platforms), 2)
    found = {(i, j): max(0, 23 - int((kept[i] ^ kept[j]).max()).bit_length()) for i, j in pairs}
    return found, Clock.now() - start


def measured(name: str, platforms: int, elements: int, classes: int, small: int, *, tree: bool) -> None:
    print(f"{name}: {platforms} platforms in {classes} classes, {elements:,} float32 elements")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tensors = Tensors(platforms, elements, classes, tree=tree)
    print("  smallest remaining precision of any pair")
    least, linear = tensors.timed(lambda: minimum_precision(platforms, tensors.load))
    print("  dendrogram of all classes")
    found, clustering = tensors.timed(lambda: dendrogram(platforms, tensors.load))
    assert found.minimum == least and len(found.classes()) == classes
    print(f"  smallest {least} bits; bits at which classes merge: {sorted({each.bits for each in found.merges()})}")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    one = elements * 4 / 2**20
    print(
        f"  memory grew by {grown:.0f} MiB; a tensor has {one:.0f} MiB. Held are the reference, the loaded tensor, and"
    )
    print("    the benchmark's common tensor")
    tensors.release()
    few = Tensors(platforms, small, classes, tree=tree)
    tree_of_few = dendrogram(platforms, few.load)
    pairs, spent = directly(few, platforms)
    assert all(tree_of_few.precision(*pair) == bits for pair, bits in pairs.items()), "the tree differs from the pairs"
    scaled = spent.cpu * elements / small
    print(f"  all {len(pairs)} pairs directly, all equal to the dendrogram's: {spent} with {small:,} elements,")
    print(f"    scaled to {elements:,} elements: {scaled:.0f} s")
    print(f"  minimum {linear.cpu:.2f} s and dendrogram {clustering.cpu:.2f} s: {scaled / linear.cpu:.0f} and "
          f"{scaled / clustering.cpu:.0f} times faster than all pairs")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platforms", type=int, default=75)
    parser.add_argument("--elements", type=int, default=25_000_000)
    parser.add_argument("--classes", type=int, default=26)
    parser.add_argument("--small", type=int, default=1_000_000, help="elements for the direct version")
    asked = parser.parse_args()
    measured("tree", asked.platforms, asked.elements, asked.classes, asked.small, tree=True)
    measured("distinct", asked.platforms, asked.elements, asked.platforms, asked.small, tree=False)


if __name__ == "__main__":
    main()
