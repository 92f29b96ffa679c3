"""Makes the data of Figures 1, 2, 4 and 6."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mindgap.graph import Array
from mindgap_studies.deviations.definitions import numbers
from mindgap_studies.deviations.published.ablation import Convolution, in_figure_4
from mindgap_studies.deviations.published.matrix import COLUMNS, MODELS, ClassMatrix
from mindgap_studies.deviations.published.parquet import BadData
from mindgap_studies.deviations.published.platforms import BY_YEAR, PublishedPlatform
from mindgap_studies.deviations.published.records import Output
from mindgap_studies.deviations.published.tables import MAIN, instance_title
from mindgap_studies.equivalence.dendrogram import Dendrogram
from mindgap_studies.equivalence.prefix_digests import dendrogram
from mindgap_surveys.table import StudyTable, made

#: A Google cloud instance: its processor, and the number of cores unless that is 2.
_INSTANCE: Final = re.compile(r"((?:amd|intel)[_-][a-z_-]*[a-z])(?:[_-](\d+))?")
CASTS: Final = ("float16", "float32", "float64")


@dataclass(frozen=True, slots=True)
class NamedDendrogram:
    """A dendrogram with the names of its leaves and their class numbers, by number of the leaf.

    `panel`: which one of a figure's panels it is, by the figure's columns.
    """

    panel: tuple[Any, ...]
    names: tuple[str, ...]
    numbers: tuple[int, ...]
    tree: Dendrogram

    @property
    def classes(self) -> int:
        return max(self.numbers)

    def rows(self) -> list[tuple[Any, ...]]:
        """Returns panel, name, class, number of classes, and bits shared with the leaf above, by leaf."""
        leaves = zip(self.tree.order, (None, *self.tree.shared), strict=True)
        return [(*self.panel, self.names[i], self.numbers[i], self.classes, bits) for i, bits in leaves]


def figure_1(matrix: ClassMatrix) -> StudyTable:
    order = sorted(range(len(matrix.platforms)), key=lambda i: (by_year(matrix.platforms[i]), i))
    counts: list[list[int]] = []
    for name in COLUMNS:
        cells = matrix.column(name)
        found = numbers([cells[i].values for i in order])
        counts.append([max(found[: i + 1]) for i in range(len(found))])
    rows: list[tuple[Any, ...]] = []
    for position, i in enumerate(order):
        each = matrix.platforms[i]
        about = (each.vendor, each.generation, each.cores, each.device, each.memory, each.cloud)
        rows.append((position + 1, *about, *(column[position] for column in counts)))
    columns = ("position", "vendor", "generation", "cores", "device_name", "memory", "cloud", *COLUMNS)
    note = "Different softmax vectors among this platform and those above it, by model and sample."
    return made("figure_1", "Figure 1: different outputs over all platforms", columns, rows, note)


def by_year(platform: PublishedPlatform) -> tuple[str, int, int]:
    """Returns the key that orders platforms by vendor, generation in the order of years, and cores."""
    return (platform.vendor, BY_YEAR.index(platform.generation), platform.cores or 0)


def dendrograms_by_cores(matrix: ClassMatrix) -> tuple[NamedDendrogram, ...]:
    """Makes a dendrogram of the Google cloud's platforms for each number of cores that all of its CPUs come with."""
    cells = matrix.column(MAIN)
    groups: dict[int, list[tuple[str, Array]]] = {}
    for platform, cell in zip(matrix.platforms, cells, strict=True):
        match = _INSTANCE.fullmatch(platform.instances[0])
        if match and not platform.is_gpu:
            groups.setdefault(int(match[2] or 2), []).append((instance_title(match[1]), cell.values))
    return tuple(_named((cores,), sorted(groups[cores], key=lambda each: each[0])) for cores in sorted(groups))


def figure_2(trees: Iterable[NamedDendrogram]) -> StudyTable:
    rows = (row for tree in trees for row in tree.rows())
    columns = "cores platform eqc classes shared_bits"
    note = "Cifar10-R18, sample 0. shared_bits: remaining precision with the row above, in bits of float32."
    return made("figure_2", "Figure 2: classes of processors by the number of cores", columns, rows, note)


def figure_4(ablation: Sequence[Convolution]) -> StudyTable:
    rows = (
        (each.filters, each.kernel, each.channels, each.size, each.multiplications, each.precision, each.classes)
        for each in sorted(in_figure_4(ablation), key=lambda each: (each.filters, each.kernel, each.multiplications))
    )
    columns = "filters kernel channels size multiplications remaining_precision classes"
    note = "Nine hosts. From the published pairs of hosts: the outputs themselves were never published."
    return made("figure_4", "Figure 4: a convolution's size and its deviations", columns, rows, note)


def dendrograms_by_cast(path: Path, outputs: Iterable[Output]) -> tuple[NamedDendrogram, ...]:
    """Makes a dendrogram for each model and dtype it was cast to. Raises `BadData` for a missing one."""
    groups: Mapping[tuple[str, str], list[tuple[str, Array]]] = {(m, d): [] for m in MODELS.values() for d in CASTS}
    for output in outputs:
        panel = (MODELS.get(output.model or "", ""), output.dtype_variant or "")
        if output.experiment == "precision" and panel in groups:
            groups[panel].append((output.platform, output.values))
    for (model, dtype), members in groups.items():
        if not members:
            raise BadData(path, f"no row is of precision, {model} and {dtype}", column="experiment")
    return tuple(_named(panel, sorted(members, key=lambda each: each[0])) for panel, members in groups.items())


def figure_6(trees: Iterable[NamedDendrogram]) -> StudyTable:
    rows = (row for tree in trees for row in tree.rows())
    columns = "model dtype platform eqc classes shared_bits"
    note = (
        "Figure 6 is medium (Cifar10-R18), Figures SUP-2 and SUP-3 are small and large. shared_bits: remaining "
        "precision with the row above, in bits of the dtype."
    )
    return made("figure_6", "Figures 6, SUP-2, SUP-3: classes of models cast to other dtypes", columns, rows, note)


def _named(panel: tuple[Any, ...], members: Sequence[tuple[str, Array]]) -> NamedDendrogram:
    values = [each for _, each in members]
    tree = dendrogram(values)
    return NamedDendrogram(panel, tuple(name for name, _ in members), numbers(values), tree)
