"""Classes and dendrograms of one value over platforms, and the columns that describe a subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mindgap.compare.prefix_digests import Prefixes, dendrogram_of
from mindgap.compare.ultrametric import Dendrogram
from mindgap.machines.merging import Column, Merged
from mindgap.studies.deviations.computed_table import made as made
from mindgap.studies.deviations.definitions import PAPER, class_numbers

#: The model whose classes the tables of flags and options show: the paper's Cifar10-R18, first sample.
MAIN: Final = "resnet18-relu-max-trained/0"
#: Facts of a model, as columns.
MODEL_COLUMNS: Final = ("model", "activation", "pooling", "trained", "sample")


def numbers_of(prefixes: Sequence[Prefixes]) -> tuple[int, ...]:
    """Returns class numbers from 1, in the order of first appearance, as in the paper's tables."""
    return class_numbers([each[-1].hex() for each in prefixes], PAPER)


def classes_and_precision(prefixes: Sequence[Prefixes]) -> tuple[int, int]:
    """Returns the number of classes, and the smallest remaining precision of any two platforms in bits."""
    distinct = tuple(dict.fromkeys(prefixes))
    return len(distinct), dendrogram_of(distinct).minimum


def tree(prefixes: Sequence[Prefixes]) -> Dendrogram:
    """Returns the dendrogram of platforms."""
    return dendrogram_of(prefixes)


def result(column: Column) -> tuple[Prefixes, ...]:
    """Returns the digests of all outputs of a subject (gradients too) together, by platform.

    Number k is equal on two platforms if all outputs share k bits or more there. A subject has outputs of one dtype.
    """
    outputs = [column.prefixes[value.number] for value in column.subject.values if value.output]
    by_platform = zip(*outputs, strict=True)
    return tuple(tuple(b"".join(cut) for cut in zip(*each, strict=True)) for each in by_platform)


def model_facts(column: Column) -> tuple[Any, ...]:
    """Returns the cells of `MODEL_COLUMNS`."""
    return tuple(column.subject.facts.get(name) for name in MODEL_COLUMNS)


def main(merged: Merged) -> Column | None:
    """Returns the column of `MAIN`, None where no platform ran it."""
    column = merged.columns.get(MAIN)
    return column if column is not None and column.platforms else None


def options_of(platform: str) -> Mapping[str, str]:
    """Returns the options of a platform's name."""
    _, _, listed = platform.partition("@")
    return dict(item.split("=", 1) for item in listed.split(",") if item)
