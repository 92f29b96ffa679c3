"""Reads the convolution ablation (Figure 4), and checks the published counts of classes against its pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from math import isqrt
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from mindgap.graph.compare.metrics import MANTISSA_BITS
from mindgap_studies.deviations.published.parquet import BadData, read_rows

#: The only run whose hosts all had the same weights and inputs (README of the published data).
SOUND_RUN: Final = "2021_11_03_11:21:55"
#: The configurations of Figure 4: channels and filters.
_CHANNELS: Final = 3
_FILTERS: Final = (1, 3)


@dataclass(frozen=True, slots=True)
class HostPair:
    """A row of the file: two hosts, and the bits that their outputs of one configuration share. `at`: its number."""

    at: int
    source_run: str
    c: int
    f: int
    k: int
    i: int
    multiplications: int
    precision: int
    equivalence_classes: int
    row: int


_PAIRS: Final = TypeAdapter(list[HostPair])
_COLUMNS: Final = tuple(each.name for each in fields(HostPair))[1:]


@dataclass(frozen=True, slots=True)
class Convolution:
    """One configuration on some hosts: `filters` of `kernel` × `kernel` over an input of `size` × `size` × `channels`.

    `precision`: the smallest remaining precision of two hosts, in bits of float32. `classes`: of the hosts' outputs.
    """

    channels: int
    filters: int
    kernel: int
    size: int
    multiplications: int
    hosts: int
    precision: int
    classes: int


def read_ablation(path: Path) -> tuple[Convolution, ...]:
    """Reads the configurations of the sound run. Raises `BadData`, also where pairs and counts disagree."""
    groups: dict[tuple[int, ...], list[HostPair]] = {}
    for pair in read_rows(path, _PAIRS, _COLUMNS):
        if pair.source_run == SOUND_RUN:
            groups.setdefault((pair.c, pair.f, pair.k, pair.i), []).append(pair)
    if not groups:
        raise BadData(path, f"no row is of the sound run {SOUND_RUN}", column="source_run")
    found = tuple(_convolution(path, groups[key]) for key in sorted(groups))
    if {each.filters for each in in_figure_4(found)} != set(_FILTERS):
        what = f"the sound run does not have {_CHANNELS} channels with each of {_FILTERS} filters"
        raise BadData(path, what, column="f")
    return found


def in_figure_4(ablation: Iterable[Convolution]) -> tuple[Convolution, ...]:
    return tuple(each for each in ablation if each.channels == _CHANNELS and each.filters in _FILTERS)


def _convolution(path: Path, pairs: list[HostPair]) -> Convolution:
    """Makes a configuration from its pairs of hosts."""
    pairs.sort(key=lambda each: each.row)
    first, hosts = pairs[0], (1 + isqrt(1 + 8 * len(pairs))) // 2
    if hosts * (hosts - 1) // 2 != len(pairs):
        what = f"{len(pairs)} rows of one configuration are not all pairs of hosts"
        raise BadData(path, what, column="row", row=first.at)
    bits = [each.precision for each in pairs]
    classes = _classes(bits, hosts)
    for each in pairs:
        if not 0 <= each.precision <= MANTISSA_BITS["float32"]:
            raise BadData(path, f"{each.precision} bits of float32", column="precision", row=each.at)
        if each.equivalence_classes != classes:
            what = f"{each.equivalence_classes} classes, but the precisions of the pairs make {classes}"
            raise BadData(path, what, column="equivalence_classes", row=each.at)
    return Convolution(first.c, first.f, first.k, first.i, first.multiplications, hosts, min(bits), classes)


def _classes(bits: Sequence[int], hosts: int) -> int:
    """Counts the classes of hosts. `bits`: of the pairs, in the order of `itertools.combinations`."""
    equal = {pair for pair, each in zip(combinations(range(hosts), 2), bits, strict=True) if each == 23}
    return sum(all((before, host) not in equal for before in range(host)) for host in range(hosts))
