"""Defines what a page shows of a deviations study, of published data and of one's own machines alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mindgap_studies.deviations.feature_clusters import FlagClusters
from mindgap_studies.deviations.published.claims import Claim
from mindgap_studies.equivalence.dendrogram import Dendrogram
from mindgap_surveys.report.study_page import Figure
from mindgap_surveys.table import StudyTable


@dataclass(frozen=True, slots=True)
class GridCell:
    """An output in a class matrix. `number`: its class; None where it has none, and `reason` tells why.

    `state`: `other_input` for an output of another input, `not_run` for none. `deterministic`: all runs gave it.
    """

    number: int | None
    state: Literal["class", "other_input", "not_run"] = "class"
    deterministic: bool = True
    reason: str = ""

    @property
    def text(self) -> str:
        sign = {"class": str(self.number), "other_input": "≠", "not_run": "–"}[self.state]
        return sign if self.deterministic else f"{sign}*"


@dataclass(frozen=True, slots=True)
class GridRow:
    """A platform in a class matrix. `cells`: as the columns of the matrix."""

    group: str
    name: str
    cells: tuple[GridCell, ...]


@dataclass(frozen=True, slots=True)
class ClassGrid:
    """A class matrix: platforms × models. `columns`: group and name of each. `note`: where equal numbers are equal."""

    corner: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[GridRow, ...]
    note: str

    def numbers(self, column: int) -> tuple[int, ...]:
        """Returns the classes of a column in ascending order."""
        return tuple(sorted({n for row in self.rows if (n := row.cells[column].number) is not None}))

    @property
    def unsteady(self) -> int:
        return sum(not cell.deterministic for row in self.rows for cell in row.cells)

    def count(self, state: str) -> int:
        return sum(cell.state == state for row in self.rows for cell in row.cells)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A class in a dendrogram. `label`: what its platforms are, shortly. `platforms`: all their names."""

    number: int
    label: str
    platforms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClassTree:
    """The dendrogram of the classes of one model and sample. The tree's leaf i is `leaves[i]`."""

    title: str
    leaves: tuple[Leaf, ...]
    tree: Dendrogram

    @property
    def platforms(self) -> int:
        return sum(len(leaf.platforms) for leaf in self.leaves)


@dataclass(frozen=True, slots=True)
class FlagRow:
    """A cluster of features. `have`: platforms that have it, as `FlagGrid.classes`. `aligned`: all or none in each."""

    members: tuple[str, ...]
    have: tuple[int, ...]
    aligned: bool


@dataclass(frozen=True, slots=True)
class FlagGrid:
    """Clusters of features beside classes. `classes`: number, label, and platforms of each. `common`: those of all."""

    subject: str
    classes: tuple[Leaf, ...]
    rows: tuple[FlagRow, ...]
    common: int


@dataclass(frozen=True, slots=True)
class LayerProfile:
    """The nodes of a model in the order of execution: rows of the table of Figure 5, by the columns' names.

    `platforms`: how many show every node. `hidden`: the others, each with the reason.
    """

    title: str
    platforms: int
    mantissa: int
    points: tuple[Mapping[str, Any], ...]
    hidden: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Overview:
    """What the page shows. `answers`: platforms, distinct results, smallest remaining precision.

    `by_setting`: Figure 2. `casts`: Figure 6. `ablation`: the table of Figure 4. `cumulative`: that of Figure 1.
    `activations`: Tables SUP-8 and SUP-9. `unavailable`, `failed`: what did not run, with the reason.
    """

    title: str
    source: str
    answers: tuple[Figure, Figure, Figure]
    remarks: tuple[str, ...]
    grid: ClassGrid
    trees: tuple[ClassTree, ...]
    flags: FlagGrid | None
    layers: tuple[LayerProfile, ...]
    by_setting: ClassGrid | None
    casts: tuple[ClassTree, ...]
    ablation: StudyTable
    cumulative: StudyTable | None
    claims: tuple[Claim, ...]
    tables: tuple[StudyTable, ...]
    activations: tuple[StudyTable, ...] = ()
    unavailable: tuple[tuple[str, str], ...] = ()
    failed: tuple[tuple[str, str], ...] = ()


def answers(platforms: Figure, trees: Sequence[ClassTree]) -> tuple[Figure, Figure, Figure]:
    """Makes the three answers. The last two are reached in one of the dendrograms, at least one."""
    most = max(trees, key=lambda each: len(each.leaves))
    least = min(trees, key=lambda each: each.tree.minimum)
    return (
        platforms,
        Figure(len(most.leaves), "distinct results of one model and one input, at most", most.title),
        Figure(least.tree.minimum, f"of {least.tree.mantissa} bits agree, at worst", least.title),
    )


def class_tree(
    title: str, names: Sequence[str], kinds: Sequence[str], numbers: Sequence[int], tree: Dendrogram
) -> ClassTree:
    """Makes the dendrogram of classes from that of platforms. `kinds`: what a label counts, by platform."""
    first: dict[int, int] = {}
    order: list[int] = []
    shared: list[int] = []
    for leaf, bits in zip(tree.order, (0, *tree.shared), strict=True):
        if numbers[leaf] not in first:
            first[numbers[leaf]] = len(order)
            order.append(numbers[leaf])
            shared.append(bits)
    leaves = tuple(
        _leaf(number, [i for i, each in enumerate(numbers) if each == number], names, kinds) for number in order
    )
    return ClassTree(title, leaves, Dendrogram(tree.mantissa, tuple(range(len(order))), tuple(shared[1:])))


def flag_grid(subject: str, clusters: FlagClusters, classes: Mapping[str, int]) -> FlagGrid:
    """Lays clusters beside classes. `classes`: the class of each platform that the clusters are of."""
    leaves = [
        _leaf(number, [i for i, each in enumerate(classes.values()) if each == number], list(classes), list(classes))
        for number in dict.fromkeys(classes.values())
    ]
    rows = [
        FlagRow(members, tuple(sum(name in present for name in leaf.platforms) for leaf in leaves), aligned)
        for members, present, aligned in zip(clusters.clusters, clusters.present, clusters.aligned, strict=True)
    ]
    return FlagGrid(subject, tuple(leaves), tuple(rows), len(clusters.common))


def _leaf(number: int, members: Sequence[int], names: Sequence[str], kinds: Sequence[str]) -> Leaf:
    counts = Counter(kinds[i] for i in members)
    label = ", ".join(f"{count} × {kind}" if count > 1 else kind for kind, count in counts.most_common())
    return Leaf(number, label, tuple(names[i] for i in members))
