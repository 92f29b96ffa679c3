"""Single convolutions: size (Figure 4), distributions of weights and inputs (§3.5)."""

from __future__ import annotations

from typing import Any

from mindgap_studies.deviations.own.columns import classes_and_precision, numbers_of, result
from mindgap_studies.machines.merging import MergedMachines
from mindgap_surveys.table import StudyTable, made


def figure_4(merged: MergedMachines) -> StudyTable:
    names = ("filters", "kernel", "channels", "size", "multiplications")
    rows: list[tuple[Any, ...]] = []
    for column in merged.of("convolutions"):
        classes, bits = classes_and_precision(result(column))
        rows.append((*(column.subject.facts[name] for name in names), bits, classes, len(column.platforms)))
    rows.sort(key=lambda row: (row[2], row[0], row[1], row[4]))
    columns = (*names, "remaining_precision", "classes", "platforms")
    note = "Weights and inputs uniform in [0, 1). size: height and width of the input."
    return made("own_figure_4", "Figure 4: a convolution's size and its deviations", columns, rows, note)


def distributions(merged: MergedMachines) -> StudyTable:
    rows: list[tuple[Any, ...]] = []
    partitions: dict[tuple[int, ...], int] = {}
    for column in merged.of("distributions"):
        classes, bits = classes_and_precision(result(column))
        partition = partitions.setdefault(numbers_of(result(column)), len(partitions) + 1)
        about = (column.subject.facts["weights"], column.subject.facts["inputs"])
        rows.append((*about, classes, bits, partition, len(column.platforms)))
    note = (
        "Equal numbers of partition: the same platforms are in a class with each other. The paper finds one partition."
    )
    columns = "weights inputs classes remaining_precision partition platforms"
    return made("own_distributions", "Section 3.5: distributions of weights and inputs", columns, rows, note)
