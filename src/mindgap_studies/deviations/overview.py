"""Defines what a page shows of a deviations study, of published data and of one's own machines alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Literal

from mindgap_studies.deviations.feature_clusters import FlagClusters
from mindgap_studies.equivalence.dendrogram import Dendrogram
from mindgap_surveys.report.study_page import Block, Cell, Figure, Text
from mindgap_surveys.table import StudyTable, made

_FLAGS: Final = (
    "Features that occur on the same platforms form a cluster. A cluster that all platforms of a class have, or none "
    "of them, may explain the class: those rows stand first and are marked ●. {} features that all platforms have are "
    "left out. Classes of {}, numbered as above."
)


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

    `grid`: a class matrix, platforms × models (`class_grid`). `by_setting`: that of Figure 2. `casts`: Figure 6.
    `ablation`: the table of Figure 4. `cumulative`: that of Figure 1. `activations`: Tables SUP-8 and SUP-9.
    `unavailable`, `failed`: what did not run, with the reason.
    """

    source: str
    answers: tuple[Figure, Figure, Figure]
    remarks: tuple[str, ...]
    grid: StudyTable
    trees: tuple[ClassTree, ...]
    flags: tuple[Block, ...]
    layers: tuple[LayerProfile, ...]
    by_setting: StudyTable | None
    casts: tuple[ClassTree, ...]
    ablation: StudyTable
    cumulative: StudyTable | None
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


def class_cell(number: int, *, steady: bool = True) -> Cell:
    """Makes a cell of a class matrix. `steady`: all runs of the platform gave this output."""
    hint = "" if steady else "repeated runs differ"
    return Cell(f"{number}{'' if steady else '*'}", "k k1" if number == 1 else "k", hint, number)


def classless_cell(state: Literal["other_input", "not_run"], reason: str, *, steady: bool = True) -> Cell:
    """Makes a cell of an output of another input, or of none."""
    sign = "≠" if state == "other_input" else "–"
    return Cell(f"{sign}{'' if steady else '*'}", state, reason)


def class_grid(
    corner: str, columns: Sequence[str], rows: Iterable[tuple[str, str, Sequence[Cell]]], note: str, *,
    counted: bool = False,
) -> StudyTable:  # fmt: skip
    """Makes a class matrix. `rows`: group and name of a platform, and its cells; those of a group follow each other.
    `note`: where equal numbers are equal. `counted`: with the number of classes of each column below."""
    rows = list(rows)
    made_rows: list[tuple[Any, ...]] = []
    for group, members in groupby(rows, lambda row: row[0]):
        made_rows += [("" if place else group, name, *cells) for place, (_, name, cells) in enumerate(members)]
    if counted:
        classes = (
            {cell.hue for cell in column} - {None} for column in zip(*(cells for *_, cells in rows), strict=True)
        )
        made_rows.append(("all", "distinct results", *map(len, classes)))
    return made("", "", ("", corner, *columns), made_rows, note)


def flag_blocks(subject: str, clusters: FlagClusters, classes: Mapping[str, int]) -> tuple[Block, ...]:
    """Lays clusters beside classes. `classes`: the class of each platform that the clusters are of."""
    leaves = [
        _leaf(number, [i for i, each in enumerate(classes.values()) if each == number], list(classes), list(classes))
        for number in dict.fromkeys(classes.values())
    ]

    def cell(leaf: Leaf, present: frozenset[str]) -> Cell:
        have, size = sum(name in present for name in leaf.platforms), len(leaf.platforms)
        return Cell("all", "all") if have == size else Cell(f"{have} of {size}", "some") if have else Cell("")

    rows = (
        ("●" if aligned else "○", " ".join(members), *(cell(leaf, present) for leaf in leaves))
        for members, present, aligned in zip(clusters.clusters, clusters.present, clusters.aligned, strict=True)
    )
    columns = ("aligned", "features", *(f"{leaf.number}: {leaf.label}" for leaf in leaves))
    return Text(_FLAGS.format(len(clusters.common), subject)), made("", "", columns, rows)


def _leaf(number: int, members: Sequence[int], names: Sequence[str], kinds: Sequence[str]) -> Leaf:
    counts = Counter(kinds[i] for i in members)
    label = ", ".join(f"{count} × {kind}" if count > 1 else kind for kind, count in counts.most_common())
    return Leaf(number, label, tuple(names[i] for i in members))
