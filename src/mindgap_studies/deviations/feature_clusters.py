"""Clusters CPU flags that always occur together, and lays them beside the classes (Tables 1 and SUP-3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: The flags that the paper takes for SIMD widths: their clusters come first, in this order.
_SIMD: Final = ("avx2", "avx512f", "avx512vbmi", "sse4a")


@dataclass(frozen=True, slots=True)
class FlagClusters:
    """Flags of some platforms, those together that occur on the same platforms.

    `clusters`: each flag of a cluster occurs on exactly the platforms in `present`, at the same index. `common`: flags
    of all platforms. `aligned`: the clusters that are the same within each class, and so may explain it.
    """

    clusters: tuple[tuple[str, ...], ...]
    present: tuple[frozenset[str], ...]
    common: frozenset[str]
    aligned: tuple[bool, ...]

    def cluster_of(self, flag: str) -> int | str:
        """Returns a flag's cluster; `C` for a common flag."""
        if flag in self.common:
            return "C"
        return next(i for i, cluster in enumerate(self.clusters) if flag in cluster)

    @property
    def flags(self) -> tuple[str, ...]:
        return tuple(sorted(self.common.union(*self.clusters)))


def flag_clusters(flags: Mapping[str, frozenset[str]], classes: Mapping[str, int]) -> FlagClusters:
    """Clusters the flags of platforms. `flags`, `classes`: by platform, at least one.

    Clusters are numbered as in Table 1: SIMD clusters first, then the other aligned ones, then those that vary within a
    class; each part in the alphabetical order of the cluster's first flag.
    """
    common = frozenset[str].intersection(*flags.values())
    platforms = {
        flag: frozenset(name for name, its in flags.items() if flag in its)
        for flag in sorted(frozenset[str]().union(*flags.values()) - common)
    }
    aligned = {flag: _aligned(present, classes) for flag, present in platforms.items()}
    clusters: dict[frozenset[str], list[str]] = {}
    rank = {flag: place for place, flag in enumerate(_SIMD)}
    for flag in sorted(platforms, key=lambda flag: (not aligned[flag], rank.get(flag, len(rank)), flag)):
        clusters.setdefault(platforms[flag], []).append(flag)
    members = tuple(tuple(sorted(each)) for each in clusters.values())
    return FlagClusters(members, tuple(clusters), common, tuple(aligned[each[0]] for each in members))


def _aligned(present: frozenset[str], classes: Mapping[str, int]) -> bool:
    """Tells whether platforms of one class agree in having a flag."""
    having = {number for name, number in classes.items() if name in present}
    return having.isdisjoint(number for name, number in classes.items() if name not in present)
