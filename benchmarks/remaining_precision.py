"""Measures the remaining precision of many large tensors: linear minimum, clustering, and all pairs directly.

    python benchmarks/remaining_precision.py
    python benchmarks/remaining_precision.py --platforms 75 --elements 25000000 --classes 26

Tensors are made one at a time, in one buffer: a common tensor, and for each class some elements with lower mantissa
bits flipped, in a tree: classes share between 0 and 22 bits. Making a tensor is timed apart from comparing it.
`distinct`: every platform has a class of its own and shares the same number of bits with each other one, which is the
worst case for a comparison of pairs.

The direct version holds all tensors and compares all pairs with numpy: exclusive or, and the largest. It runs on fewer
elements, and its time is scaled up by their number, and says so.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from itertools import combinations

import numpy as np

from mindgap.compare.ultrametric import Dendrogram, dendrogram, minimum_precision


class Tensors:
    """Makes the tensors of platforms, one at a time, in one buffer. Counts loads and the seconds they take."""

    def __init__(self, platforms: int, elements: int, classes: int, *, tree: bool) -> None:
        draw = np.random.default_rng(0)
        self.base = draw.standard_normal(elements, dtype=np.float32).view(np.uint32)
        self.buffer = np.empty_like(self.base)
        self.of = [i % classes for i in range(platforms)]
        self.flips = [self._flips(each, elements, tree) for each in range(classes)]
        self.seconds, self.loads = 0.0, 0

    @staticmethod
    def _flips(number: int, elements: int, tree: bool) -> list[tuple[int, int]]:
        """Returns elements and bits to flip. In a tree, classes with a common digit of their numbers share a flip."""
        if not tree:
            return [(number * 31 % elements, 14)]
        return [
            (
                (number // 3**depth * 7919 + depth * 104729) % elements,
                max(0, 22 - 3 * (3 - depth) - number % 3**depth % 5),
            )
            for depth in range(4)
        ]

    def load(self, i: int) -> np.ndarray:
        start = time.perf_counter()
        np.copyto(self.buffer, self.base)
        for element, bit in self.flips[self.of[i]]:
            self.buffer[element] ^= np.uint32(1 << bit)
        self.loads += 1
        self.seconds += time.perf_counter() - start
        return self.buffer.view(np.float32)

    def timed(self, compute: Callable[[], Dendrogram | int]) -> tuple[Dendrogram | int, float]:
        """Returns a result, and the seconds without making tensors. Prints both."""
        self.seconds, self.loads = 0.0, 0
        start = time.perf_counter()
        found = compute()
        whole = time.perf_counter() - start
        print(f"    {self.loads} loads; {whole - self.seconds:.2f} s comparing, {self.seconds:.2f} s making tensors")
        return found, whole - self.seconds


def directly(tensors: Tensors, platforms: int) -> tuple[dict[tuple[int, int], int], float]:
    """Compares all pairs of tensors that are all in memory. Returns bits by pair, and the seconds."""
    kept = [tensors.load(i).view(np.uint32).copy() for i in range(platforms)]
    start = time.perf_counter()
    found = {
        (i, j): max(0, 23 - int((kept[i] ^ kept[j]).max()).bit_length()) for i, j in combinations(range(platforms), 2)
    }
    return found, time.perf_counter() - start


def measured(name: str, platforms: int, elements: int, classes: int, small: int, *, tree: bool) -> None:
    print(f"{name}: {platforms} platforms in {classes} classes, {elements:,} float32 elements")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tensors = Tensors(platforms, elements, classes, tree=tree)
    print("  smallest remaining precision of any pair")
    least, linear = tensors.timed(lambda: minimum_precision(platforms, tensors.load))
    print("  dendrogram of all classes")
    found, clustering = tensors.timed(lambda: dendrogram(platforms, tensors.load))
    assert isinstance(found, Dendrogram) and found.minimum == least and len(found.classes()) == classes
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    one = elements * 4 / 2**20
    print(
        f"  memory grew by {grown:.0f} MiB; one tensor has {one:.0f} MiB, and the benchmark's own base is one of them"
    )
    few = Tensors(platforms, small, classes, tree=tree)
    tree_of_few = dendrogram(platforms, few.load)
    pairs, seconds = directly(few, platforms)
    assert all(tree_of_few.precision(*pair) == bits for pair, bits in pairs.items()), "the tree differs from the pairs"
    scaled = seconds * elements / small
    print(f"  all {len(pairs)} pairs directly: {seconds:.2f} s with {small:,} elements, all equal to the dendrogram's;")
    print(f"    scaled to {elements:,} elements: {scaled:.0f} s")
    print(f"  both linear passes: {linear + clustering:.2f} s, {scaled / (linear + clustering):.0f} times faster")


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
