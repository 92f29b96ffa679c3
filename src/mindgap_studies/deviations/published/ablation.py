"""Reads the convolution ablation (Figure 4), and checks the published counts of classes against its pairs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isqrt
from pathlib import Path
from typing import Any, Final

from mindgap.graph.compare.metrics import MANTISSA_BITS
from mindgap_studies.deviations.published.parquet import BadData, ParquetColumn, read_columns

#: The only run whose hosts all had the same weights and inputs (README of the published data).
SOUND_RUN: Final = "2021_11_03_11:21:55"
#: The configurations of Figure 4: channels and filters.
_CHANNELS: Final = 3
_FILTERS: Final = (1, 3)
_INTEGERS: Final = ("c", "f", "k", "i", "multiplications", "precision", "equivalence_classes", "row")
_COLUMNS: Final = {"source_run": ParquetColumn("text"), **dict.fromkeys(_INTEGERS, ParquetColumn("integer"))}


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
    groups: dict[tuple[int, ...], list[tuple[int, dict[str, Any]]]] = {}
    for at, row in enumerate(read_columns(path, _COLUMNS)):
        if row["source_run"] == SOUND_RUN:
            groups.setdefault(tuple(row[name] for name in "cfki"), []).append((at, row))
    if not groups:
        raise BadData(path, f"no row is of the sound run {SOUND_RUN}", column="source_run")
    found = tuple(_convolution(path, groups[key]) for key in sorted(groups))
    if {each.filters for each in in_figure_4(found)} != set(_FILTERS):
        what = f"the sound run does not have {_CHANNELS} channels with each of {_FILTERS} filters"
        raise BadData(path, what, column="f")
    return found


def in_figure_4(ablation: Iterable[Convolution]) -> tuple[Convolution, ...]:
    return tuple(each for each in ablation if each.channels == _CHANNELS and each.filters in _FILTERS)


def _convolution(path: Path, rows: list[tuple[int, dict[str, Any]]]) -> Convolution:
    """Makes a configuration from its rows, one for each pair of hosts."""
    rows.sort(key=lambda each: each[1]["row"])
    at, first = rows[0]
    hosts = (1 + isqrt(1 + 8 * len(rows))) // 2
    if hosts * (hosts - 1) // 2 != len(rows):
        raise BadData(path, f"{len(rows)} rows of one configuration are not all pairs of hosts", column="row", row=at)
    bits = [row["precision"] for _, row in rows]
    outside = [i for i, each in enumerate(bits) if not 0 <= each <= MANTISSA_BITS["float32"]]
    if outside:
        raise BadData(path, f"{bits[outside[0]]} bits of float32", column="precision", row=rows[outside[0]][0])
    classes = _classes(bits, hosts)
    for row, each in rows:
        if each["equivalence_classes"] != classes:
            what = f"{each['equivalence_classes']} classes, but the precisions of the pairs make {classes}"
            raise BadData(path, what, column="equivalence_classes", row=row)
    about = (first["c"], first["f"], first["k"], first["i"], first["multiplications"])
    return Convolution(*about, hosts, min(bits), classes)


def _classes(bits: Sequence[int], hosts: int) -> int:
    """Counts the classes of hosts. `bits`: of the pairs, in the order of `itertools.combinations`."""
    equal = {pair for pair, each in zip(combinations(range(hosts), 2), bits, strict=True) if each == 23}
    return sum(all((before, host) not in equal for before in range(host)) for host in range(hosts))
