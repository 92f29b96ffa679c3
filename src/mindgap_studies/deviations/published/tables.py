"""Makes Tables 1, SUP-1, SUP-2 and SUP-3, and the tables of classes under both sets of definitions."""

from __future__ import annotations

from typing import Any, Final

from mindgap.graph import MindgapError
from mindgap_studies.deviations.definitions import numbers
from mindgap_studies.deviations.feature_clusters import FlagClusters, flag_clusters
from mindgap_studies.deviations.published.matrix import COLUMNS, ClassMatrix, near
from mindgap_studies.deviations.published.platforms import PublishedPlatform
from mindgap_surveys.table import StudyTable, made

#: Rows of Table 1, by instance: the dual-core instances of the Google cloud.
_TABLE_1: Final = (
    *("intel_sandy_bridge", "intel_ivy_bridge", "intel_haswell", "intel_broadwell", "intel_skylake"),
    *("intel_cascade_lake", "intel_ice_lake", "amd_rome", "amd_milan"),
)  # fmt: skip
#: The model and sample whose classes Table 1 and Figure 2 show.
MAIN: Final = "medium_0"


def table_sup1(matrix: ClassMatrix) -> StudyTable:
    cpus = matrix.part(gpu=False)
    seen: dict[Any, int] = {}
    rows: list[tuple[Any, ...]] = []
    for platform, cells in zip(cpus.platforms, cpus.cells, strict=True):
        cpu_class = seen.setdefault(platform.cpu_class, len(seen))
        about = (platform.vendor, platform.cores, platform.generation, platform.device, platform.memory, platform.cloud)
        rows.append((*about, cpu_class, *(cell.text for cell in cells)))
    about = ("vendor", "cores", "generation", "device_name", "memory", "cloud", "cc")
    note = "Classes by model and sample, numbered in each column from top to bottom. Memory in GiB. cc: CPU class."
    return made("table_sup1", "Table SUP-1: classes on CPUs", (*about, *COLUMNS), rows, note)


def table_sup2(matrix: ClassMatrix) -> StudyTable:
    gpus = matrix.part(gpu=True)
    rows = (
        (platform.vendor, platform.generation, platform.device, platform.cloud, *(cell.text for cell in cells))
        for platform, cells in zip(gpus.platforms, gpus.cells, strict=True)
    )
    note = "The class is that of the most frequent output. An asterisk: not all repetitions gave the same output."
    columns = ("vendor", "generation", "device_name", "cloud", *COLUMNS)
    return made("table_sup2", "Table SUP-2: classes on GPUs", columns, rows, note)


def table_1_platforms(matrix: ClassMatrix) -> tuple[tuple[str, PublishedPlatform, int], ...]:
    """Returns the name, the platform and the class of each row of Table 1. Raises `MindgapError` for a missing one."""
    by_instance = {name: i for i, each in enumerate(matrix.platforms) for name in each.instances if not each.is_gpu}
    missing = [name for name in _TABLE_1 if name not in by_instance]
    if missing:
        raise MindgapError(f"Table 1 needs the platform {missing[0]}, and the data do not have it")
    cells = matrix.column(MAIN)
    seen: dict[int, int] = {}
    rows: list[tuple[str, PublishedPlatform, int]] = []
    for name in _TABLE_1:
        index = by_instance[name]
        number = seen.setdefault(cells[index].paper, len(seen) + 1)
        rows.append((instance_title(name), matrix.platforms[index], number))
    return tuple(rows)


def instance_title(name: str) -> str:
    """Returns an instance's name as the paper prints it: `intel_sandy_bridge` is `Intel Sandy Bridge`."""
    vendor, *words = name.replace("-", "_").split("_")
    return " ".join([{"amd": "AMD", "intel": "Intel"}[vendor], *(word.capitalize() for word in words)])


def clusters_of_table_1(matrix: ClassMatrix) -> FlagClusters:
    rows = table_1_platforms(matrix)
    return flag_clusters({name: it.flags for name, it, _ in rows}, {name: number for name, _, number in rows})


def table_1(matrix: ClassMatrix, clusters: FlagClusters) -> StudyTable:
    rows = (
        (name, number, *("×" if name in present else None for present in clusters.present))
        for name, _, number in table_1_platforms(matrix)
    )
    columns = ("platform", "eqc", *map(str, range(len(clusters.clusters))))
    aligned = ", ".join(str(i) for i, each in enumerate(clusters.aligned) if each)
    note = f"Flags that occur on the same platforms form a cluster. The same within each class are clusters {aligned}."
    return made("table_1", "Table 1: flag clusters and classes of dual-core CPUs", columns, rows, note)


def table_sup3(clusters: FlagClusters) -> StudyTable:
    rows = ((flag, clusters.cluster_of(flag)) for flag in clusters.flags)
    note = "C: common to all platforms of Table 1."
    return made("table_sup3", "Table SUP-3: CPU flags and their clusters", "flag cluster", rows, note)


def classes(matrix: ClassMatrix) -> StudyTable:
    rows: list[tuple[Any, ...]] = []
    for platform, cells in zip(matrix.platforms, matrix.cells, strict=True):
        for name, cell in zip(COLUMNS, cells, strict=True):
            model, sample = name.split("_")
            mode = cell.mode
            counts = (mode.runs, mode.count, mode.distinct, len(mode.ties))
            about = (platform.name, "gpu" if platform.is_gpu else "cpu", model, int(sample))
            rows.append((*about, cell.paper, cell.ours, mode.deterministic, *counts, cell.other_input))
    columns = (
        "platform device model sample class_paper class_mindgap deterministic runs runs_of_the_mode distinct ties "
        "other_input"
    )
    note = (
        "class_paper: in Table SUP-1 or SUP-2. class_mindgap: over CPUs and GPUs together, by digests, the largest "
        "class first; empty for a cell of another input. ties: other outputs as frequent as the chosen one."
    )
    return made("classes", "Classes under both sets of definitions", columns, rows, note)


def other_inputs(matrix: ClassMatrix) -> StudyTable:
    """Makes the table of the cells whose platform evidently saw another input, each with the reason."""
    rows: list[tuple[Any, ...]] = []
    for name in COLUMNS:
        column = matrix.column(name)
        common = sum(not cell.other_input for cell in column)
        for platform, cell in zip(matrix.platforms, column, strict=True):
            if cell.nearest is None:
                continue
            like = [
                other
                for other, its in zip(matrix.platforms, column, strict=True)
                if other is not platform and its.other_input and near(its.values, cell.values)
            ]
            clouds = sorted({other.cloud for other in (platform, *like)})
            reason = f"its output is about {cell.nearest:.3g} from those of {common} platforms that agree, and agrees "
            reason += f"with {len(like)} others, all {'/'.join(clouds)}" if like else "with none"
            rows.append((platform.name, *name.split("_"), cell.nearest, len(like), cell.text, reason))
    columns = "platform model sample distance agrees_with class_paper reason"
    note = (
        "distance: the largest difference of an element of the softmax vector from the nearest output of the common "
        "input. Rounding moves an element by less than 0.003 in these data, another input by more than 0.04."
    )
    return made("other_inputs", "Cells whose platform evidently saw another input", columns, rows, note)


def ties(matrix: ClassMatrix) -> StudyTable:
    rows: list[tuple[Any, ...]] = []
    for gpu in (False, True):
        part = matrix.part(gpu=gpu)
        for name in COLUMNS:
            column = part.column(name)
            values = [cell.values for cell in column]
            for i, (platform, cell) in enumerate(zip(part.platforms, column, strict=True)):
                for other in cell.tied:
                    instead = max(numbers([*values[:i], other, *values[i + 1 :]]))
                    about = (platform.name, *name.split("_"), cell.mode.runs, cell.mode.count, cell.text)
                    rows.append((*about, max(each.paper for each in column), instead))
    columns = "platform model sample runs runs_of_each class_paper classes classes_with_the_other"
    note = "classes: of all GPUs (CPUs) of this model and sample, with the chosen output and with the tied one."
    return made("ties", "Repeated runs without a single most frequent output", columns, rows, note)
