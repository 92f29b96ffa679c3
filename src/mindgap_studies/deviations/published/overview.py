"""Lays out the study of published data for its page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mindgap_studies.deviations.overview import (
    ClassTree,
    Overview,
    answers,
    class_cell,
    class_grid,
    class_tree,
    classless_cell,
    flag_blocks,
)
from mindgap_studies.deviations.published.figures import NamedDendrogram, by_year
from mindgap_studies.deviations.published.matrix import COLUMNS, TITLES, ClassMatrix
from mindgap_studies.deviations.published.study import PublishedStudy
from mindgap_studies.deviations.published.tables import MAIN, table_1_platforms
from mindgap_studies.equivalence.prefix_digests import dendrogram
from mindgap_surveys.report.study_page import Cell, Figure
from mindgap_surveys.table import StudyTable, records

_SOURCE: Final = (
    "Published results of Schlögl, Hofer, Böhme, “Causes and Effects of Unanticipated Numerical Deviations in Neural "
    "Network Inference Frameworks”, NeurIPS 2023; classes and bits computed from the stored outputs"
)


def published_overview(study: PublishedStudy) -> Overview:
    """Lays out the study for its page. The matrix and the dendrograms have mindgap's definitions."""
    cpus, gpus = study.matrix.part(gpu=False), study.matrix.part(gpu=True)
    trees = tuple(_tree(study.matrix, name) for name in COLUMNS)
    counts = f"{len(cpus.platforms)} CPU and {len(gpus.platforms)} GPU platforms"
    platforms = Figure(len(study.matrix.platforms), "platforms", counts)
    found = dict(zip(study.matrix.platforms, study.matrix.column(MAIN), strict=True))
    # Numbers as in the matrix: those of Table 1 count again from 1.
    numbers = {name: found[platform].ours or 0 for name, platform, _ in table_1_platforms(study.matrix)}
    return Overview(
        source=_SOURCE,
        answers=answers(platforms, trees),
        remarks=_remarks(study, gpus),
        grid=_grid(study),
        trees=tuple(sorted(trees, key=lambda each: each.title != _title(MAIN))),
        flags=flag_blocks(f"{_title(MAIN)}, processors with two cores", study.flags, numbers),
        layers=(),
        by_setting=_by_cores(study.by_cores),
        casts=tuple(
            class_tree(f"{TITLES[each.panel[0]]}, {each.panel[1]}", each.names, each.names, each.numbers, each.tree)
            for each in study.by_cast
        ),
        ablation=study.table("figure_4"),
        cumulative=study.table("figure_1"),
        tables=study.tables,
    )


def _title(column: str) -> str:
    model, sample = column.split("_")
    return f"{TITLES[model]}, sample {sample}"


def _remarks(study: PublishedStudy, gpus: ClassMatrix) -> tuple[str, ...]:
    cells = [cell for row in gpus.cells for cell in row]
    unsteady = sum(not cell.mode.deterministic for cell in cells)
    agree = sum(each.agrees for each in study.claims)
    apart, every = len(study.table("other_inputs").rows), len(study.table("classes").rows)
    return (
        f"{unsteady} of {len(cells)} outputs of GPUs are not deterministic: runs on the same GPU gave other bits.",
        f"{apart} of {every} outputs are evidently of another input. They are hatched, have no class and are not "
        "compared. The paper counts them, so its numbers of classes are higher in some columns.",
        f"{agree} of {len(study.claims)} statements of the paper agree with its data.",
    )


def _grid(study: PublishedStudy) -> StudyTable:
    reasons = {
        (row["platform"], f"{row['model']}_{row['sample']}"): row["reason"]
        for row in records(study.table("other_inputs"))
    }
    lines = sorted(zip(study.matrix.platforms, study.matrix.cells, strict=True), key=lambda each: by_year(each[0]))
    rows: list[tuple[str, str, list[Cell]]] = []
    for platform, cells in lines:
        size = [] if platform.is_gpu else [f"{platform.cores} cores", f"{platform.memory} GiB"]
        shown = [
            class_cell(cell.ours, steady=cell.mode.deterministic)
            if cell.ours is not None
            else classless_cell("other_input", reasons[platform.name, name], steady=cell.mode.deterministic)
            for name, cell in zip(COLUMNS, cells, strict=True)
        ]
        words = ", ".join([platform.device, *size, platform.cloud])
        rows.append((f"{platform.vendor} {platform.generation}", words, shown))
    note = (
        "Equal numbers in one column are equal outputs. 1 is the most frequent output of the column. Of repeated runs, "
        "the most frequent output counts."
    )
    return class_grid("platform", list(map(_title, COLUMNS)), rows, note, counted=True)


def _tree(matrix: ClassMatrix, name: str) -> ClassTree:
    """Makes the dendrogram of all outputs of the common input, under mindgap's definitions."""
    pairs = zip(matrix.platforms, matrix.column(name), strict=True)
    kept = [(platform, cell.ours, cell.values) for platform, cell in pairs if cell.ours is not None]
    return class_tree(
        _title(name),
        [platform.name for platform, _, _ in kept],
        [f"{platform.vendor} {platform.generation}" for platform, _, _ in kept],
        [number for _, number, _ in kept],
        dendrogram([each for _, _, each in kept]),
    )


def _by_cores(trees: Sequence[NamedDendrogram]) -> StudyTable:
    names = list(dict.fromkeys(name for tree in trees for name in tree.names))
    classes = [dict(zip(tree.names, tree.numbers, strict=True)) for tree in trees]
    absent = classless_cell("not_run", "there is no such instance")
    rows = (
        (name.split()[0], name.partition(" ")[2],
         [class_cell(its[name]) if name in its else absent for its in classes])
        for name in names
    )  # fmt: skip
    note = f"{_title(MAIN)}. Equal numbers in one column are equal outputs. Each column counts its classes anew."
    return class_grid("processor", [f"cores, {tree.panel[0]}" for tree in trees], rows, note)
