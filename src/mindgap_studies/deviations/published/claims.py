"""Lays the paper's statements beside what its data show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, Final

from mindgap.graph import Array
from mindgap.graph.compare.digest import digest_array
from mindgap_studies.deviations.definitions import numbers
from mindgap_studies.deviations.published.ablation import Convolution, in_figure_4
from mindgap_studies.deviations.published.figures import CASTS, NamedDendrogram
from mindgap_studies.deviations.published.matrix import COLUMNS, MODELS, ClassMatrix
from mindgap_studies.deviations.published.records import Output
from mindgap_surveys.table import StudyTable, made

#: Classes in Figures 6, SUP-2 and SUP-3, as float16, float32 and float64.
_CASTS: Final = {"medium": "3/9/4", "small": "1/3/2", "large": "3/8/5"}


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of the paper and what the data show. `agrees`: they are the same."""

    claim: str
    where: str
    paper: str
    data: str
    agrees: bool
    remark: str = ""


def claim(what: str, where: str, paper: str, data: str, remark: str = "") -> Claim:
    return Claim(what, where, paper, data, paper == data, remark)


def claims_table(claims: Iterable[Claim]) -> StudyTable:
    columns = [field.name for field in fields(Claim)]
    note = "paper: as the paper states it. data: recomputed from the published data, under the paper's definitions."
    return made("claims", "The paper's statements and its data", columns, (astuple(each) for each in claims), note)


def claims_of_classes(matrix: ClassMatrix) -> list[Claim]:
    cpus, gpus = matrix.part(gpu=False), matrix.part(gpu=True)
    merged = [platform for platform in matrix.platforms if len(platform.instances) > 1]
    same = "; ".join(f"{' and '.join(platform.instances)} are one platform" for platform in merged)
    cells = [cell for row in gpus.cells for cell in row]
    unsteady = sum(not cell.mode.deterministic for cell in cells)
    tied = [(name, cell) for name in COLUMNS for cell in gpus.column(name) if cell.tied]
    tie = f"{', '.join(name for name, _ in tied)}: the class of one GPU rests on a tie of its runs (table ties)"
    return [
        claim("CPU platforms", "3", "64", str(len(cpus.platforms)), same),
        claim("GPU platforms", "3", "11", str(len(gpus.platforms))),
        claim("classes of a model on CPUs", "3", "3 to 16", _range(cpus), _of_one_input("large", cpus)),
        claim("classes of a model on GPUs", "3", "8 to 10", _range(gpus), tie if tied else ""),
        claim("GPU outputs that are not deterministic", "3", "39 of 99", f"{unsteady} of {len(cells)}"),
        claim("different outputs of a model over all platforms, up to", "1", "26", str(max(_distinct(matrix).values())),
              _of_one_input("medium", matrix) + "; " + _of_one_input("large", matrix)),
        _gpus_alone(gpus),
    ]  # fmt: skip


def _range(part: ClassMatrix) -> str:
    counts = [max(cell.paper for cell in part.column(name)) for name in COLUMNS]
    return f"{min(counts)} to {max(counts)}"


def _distinct(matrix: ClassMatrix) -> dict[str, int]:
    return {name: max(numbers([cell.values for cell in matrix.column(name)])) for name in COLUMNS}


def _of_one_input(model: str, matrix: ClassMatrix) -> str:
    """States how many classes of a model remain without the cells of another input."""
    columns = [matrix.column(name) for name in COLUMNS if name.startswith(model)]
    kept = [len({cell.ours for cell in column if not cell.other_input}) for column in columns]
    return f"{model}: {max(kept)} without the cells of another input (table other_inputs)"


def _gpus_alone(gpus: ClassMatrix) -> Claim:
    largest = {name: max(Counter(cell.paper for cell in gpus.column(name)).values()) for name in COLUMNS}
    shared = [f"{name}: {size}" for name, size in largest.items() if size > 1]
    remark = f"Table SUP-2 contradicts the text as well. Largest classes: {', '.join(shared)}" if shared else ""
    return claim("GPUs in one class, at most", "3", "1", str(max(largest.values())), remark)


def claims_of_flags(matrix: ClassMatrix, flags_of_table_1: int) -> list[Claim]:
    flags = frozenset[str]().union(*(platform.flags for platform in matrix.platforms if not platform.is_gpu))
    remark = f"the number is that of all CPU platforms; the nine dual-core ones of Table 1 have {flags_of_table_1}"
    return [claim("CPU flags", "3.1", "169", str(len(flags)), remark)]


def claims_of_cores(trees: Iterable[NamedDendrogram]) -> list[Claim]:
    """Checks where classes of processors collapse as cores grow (section 3.1, Figure 2)."""
    newer = ("Haswell", "Broadwell", "Skylake", "Cascade Lake", "Ice Lake")
    counts: list[str] = []
    for tree in trees:
        its = {number for name, number in zip(tree.names, tree.numbers, strict=True) if name.endswith(newer)}
        counts.append(f"{len(its)} at {tree.panel[0]}")
    what = "classes of Intel processors newer than Ivy Bridge, by cores"
    return [claim(what, "3.1", "3 at 2, 2 at 4, 2 at 8, 1 at 16, 1 at 32", ", ".join(counts))]


def claims_of_runs(outputs: Iterable[Output]) -> list[Claim]:
    runs: dict[Any, list[Array]] = {}
    for output in outputs:
        if output.experiment == "race_conditions" and output.role == "run":
            runs.setdefault(output.instance, []).append(output.values)
    steady = sum(max(numbers(each)) == 1 for each in runs.values())
    remark = "only these were published with repetitions, ten each; the 64 CPU platforms have one output each"
    what = "CPU platforms with repetitions that are deterministic"
    return [Claim(what, "3", "all", f"{steady} of {len(runs)}", 0 < steady == len(runs), remark)]


def claims_of_ablation(ablation: Sequence[Convolution]) -> list[Claim]:
    shown = in_figure_4(ablation)
    smallest = [each.classes for each in shown if (each.kernel, each.filters) == (2, 1)]
    middle = {f: max(_classes(shown, f, 10**5, 10**7), default=0) for f in (1, 3)}
    large = {f: max(_classes(shown, f, 10**7, 10**8), default=0) for f in (1, 3)}
    more = all(middle[f] > large[f] for f in (1, 3))
    by_order: dict[tuple[int, int, int], dict[int, int]] = {}
    for each in ablation:
        order = len(str(each.multiplications))
        by_order.setdefault((each.filters, each.kernel, order), {})[each.channels] = each.classes
    comparable = [outcomes for outcomes in by_order.values() if len(outcomes) > 1]
    unlike = sum(len(set(outcomes.values())) > 1 for outcomes in comparable)
    return [
        claim("classes in the convolution ablation, at most", "3.3", "4", str(max(each.classes for each in shown))),
        claim("classes for kernel 2 and filter 1", "3.3", "1", str(max(smallest, default=0))),
        claim("remaining precision drops to", "3.3", "0", str(min(each.precision for each in shown))),
        claim("more classes at 10^6 to 10^7 multiplications than at 10^8", "3.3", "yes", "yes" if more else "no",
              "at most " + "; ".join(f"{middle[f]} and {large[f]} for f={f}" for f in (1, 3))),
        Claim("other numbers of channels than 3 give the same classes", "3.3", "yes",
              f"not in {unlike} of {len(comparable)}", unlike == 0,
              "of the settings of filters, kernel and order of magnitude that were run with several channels"),
    ]  # fmt: skip


def _classes(shown: Iterable[Convolution], filters: int, low: int, high: int) -> list[int]:
    return [each.classes for each in shown if each.filters == filters and low <= each.multiplications < high]


def claims_of_casts(trees: Iterable[NamedDendrogram]) -> list[Claim]:
    by_panel = {tree.panel: tree for tree in trees}
    ours = {size: "/".join(str(by_panel[size, dtype].classes) for dtype in CASTS) for size in MODELS.values()}
    where = {"medium": "3.4", "small": "E", "large": "E"}
    claims = [
        claim(f"classes as float16/float32/float64, {size}", where[size], _CASTS[size], ours[size]) for size in _CASTS
    ]
    half = by_panel["medium", "float16"]
    rome = {number for name, number in zip(half.names, half.numbers, strict=True) if "rome" in name}
    what = "float16 classes of Cifar10-R18 that hold an AMD Rome"
    return [*claims, claim(what, "3.4", "all", "all" if len(rome) == half.classes else str(len(rome)))]


def claims_of_layers(outputs: Iterable[Output]) -> list[Claim]:
    settings: dict[tuple[str | None, ...], dict[str, str]] = {}
    for each in outputs:
        if each.layer_name == "conv2d_11":
            key = each.experiment, each.param_variant, each.input_variant
            settings.setdefault(key, {})[each.platform] = digest_array(each.values)
    partitions = {_partition(outcomes) for outcomes in settings.values()}
    what = "ways in which weights and inputs of conv2d_11 divide the platforms"
    return [claim(what, "3.5", "1", str(len(partitions)), f"over {len(settings)} settings of weights and inputs")]


def _partition(class_of: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    groups: dict[str, list[str]] = {}
    for name in sorted(class_of):
        groups.setdefault(class_of[name], []).append(name)
    return tuple(map(tuple, groups.values()))
