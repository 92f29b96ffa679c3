"""Tables of machines, platforms, classes and dendrograms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mindgap_studies.deviations.own.columns import (
    MODEL_COLUMNS,
    classes_and_precision,
    model_facts,
    numbers_of,
    result,
    threads_of,
    versions_of,
)  # fmt: skip
from mindgap_studies.equivalence.prefix_digests import dendrogram_of
from mindgap_studies.machines.merging import MergedMachines
from mindgap_surveys.table import StudyTable, made


def machines(merged: MergedMachines) -> StudyTable:
    rows: list[tuple[Any, ...]] = []
    for name, each in merged.machines.items():
        platforms = [facts for where, facts in merged.settings.items() if where.machine == name]
        missing = sum("unavailable" in facts for facts in platforms)
        versions = " ".join(f"{package} {version}" for package, version in each.versions.items())
        counts = (len(platforms) - missing, missing)
        rows.append((name, each.processor, each.vendor, each.cores, each.memory_gib, versions, each.collected, *counts))
    columns = "machine processor vendor cores memory_gib versions collected platforms unavailable"
    return made("own_machines", "Machines", columns, rows, "unavailable: settings that the machine does not have.")


def settings(merged: MergedMachines) -> StudyTable:
    rows = (
        (where.machine, where.platform, *map(facts.get, ("capability", "onednn_isa", "onednn", "mkl_branch")),
         threads_of(facts), facts.get("precision_in_force"), versions_of(facts), facts.get("unavailable"))
        for where, facts in merged.settings.items()
    )  # fmt: skip
    columns = "machine platform aten onednn_isa onednn mkl threads precision versions unavailable"
    return made("own_platforms", "Platforms, and what was in force", columns, rows, "As the libraries report it.")


def summary(merged: MergedMachines) -> StudyTable:
    rows = (
        (name, column.subject.experiment, len(column.platforms), len(column.failed), len(column.nondeterministic),
         *(classes_and_precision(result(column)) if column.platforms else (None, None)))
        for name, column in merged.columns.items()
    )  # fmt: skip
    columns = "subject experiment platforms failed nondeterministic classes remaining_precision"
    note = (
        "Of all outputs together, gradients too. remaining_precision: leading mantissa bits that all platforms share."
    )
    return made("own_summary", "Subjects, classes and remaining precision", columns, rows, note)


def classes(merged: MergedMachines) -> StudyTable:
    rows: list[tuple[Any, ...]] = []
    for column in (c for each in ("models", "reduced", "casts") for c in merged.of(each)):
        facts = (*model_facts(column), column.subject.facts.get("dtype"), column.subject.experiment)
        numbers = numbers_of(result(column))
        for where, number in zip(column.platforms, numbers, strict=True):
            steady = where not in column.nondeterministic
            rows.append((*facts, where.machine, where.platform, number, max(numbers), steady))
    columns = (*MODEL_COLUMNS, "dtype", "experiment", "machine", "platform", "class", "classes", "deterministic")
    note = (
        "Classes of each model are numbered in the order of the platforms. experiment: reduced has the platforms that "
        "compute float32 in less, besides the others."
    )
    return made("own_classes", "Classes of models on platforms", columns, rows, note)


def failures(merged: MergedMachines) -> StudyTable:
    rows = (
        (name, where.machine, where.platform, status, message)
        for name, column in merged.columns.items()
        for where, status, message in column.failed
    )
    columns = "subject machine platform status message"
    return made("own_failures", "What did not run", columns, rows, "These cells are in no other table.")


def figure_6(merged: MergedMachines) -> StudyTable:
    def rows() -> Iterator[tuple[Any, ...]]:
        for cast in merged.of("casts"):
            plain = merged.columns.get(cast.subject.name.rpartition("/")[0])
            same = [] if plain is None else [plain] if cast.subject.facts.get("dtype") == "float16" else []
            for column in (*same, cast):
                digests = result(column)
                numbers, tree = numbers_of(digests), dendrogram_of(digests)
                about = (column.subject.facts["model"], column.subject.facts["dtype"], tree.mantissa)
                for leaf, bits in zip(tree.order, (None, *tree.shared), strict=True):
                    where = column.platforms[leaf]
                    yield (*about, where.machine, where.platform, numbers[leaf], max(numbers), bits)

    columns = "model dtype mantissa machine platform class classes shared_bits"
    note = "Leaves of a dendrogram in their order. shared_bits: remaining precision with the row above."
    return made("own_figure_6", "Figure 6: models cast to other dtypes", columns, rows(), note)
