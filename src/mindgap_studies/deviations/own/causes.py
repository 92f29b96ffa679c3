"""Flags and settings beside the classes (Table 1), and threads (Figure 2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from mindgap_studies.deviations.feature_clusters import FlagClusters, flag_clusters
from mindgap_studies.deviations.own.columns import main, numbers_of, result, threads_of, title
from mindgap_studies.machines.merging import MachinePlatform, MergedMachines
from mindgap_surveys.table import StudyTable, made


def table_1(merged: MergedMachines) -> StudyTable:
    rows: list[tuple[Any, ...]] = []
    found = clusters_and_classes(merged)
    if found is not None:
        clusters, classes = found
        parts = zip(clusters.clusters, clusters.present, clusters.aligned, strict=True)
        for number, (members, present, aligned) in enumerate(parts):
            inside = sorted({classes[key] for key in present})
            whole = [c for c in inside if all((key in present) for key, each in classes.items() if each == c)]
            rows.append((number, " ".join(members), len(present), len(inside), len(whole), aligned))
    columns = "cluster members platforms classes_with classes_with_it_throughout aligned"
    note = (
        "Features that occur on the same platforms form a cluster: processor flags, and PLATFORM, ATEN, ONEDNN, MKL, "
        "LAYOUT, THREADS, PRECISION as in force; those of all platforms are left out. aligned: each class has it "
        f"throughout or not at all. Classes of {_main_title(merged)}."
    )
    return made("own_table_1", "Table 1: flags and settings beside the classes", columns, rows, note)


def clusters_and_classes(merged: MergedMachines) -> tuple[FlagClusters, dict[str, int]] | None:
    """Returns the clusters of features, and each platform's class of the main model. None without models."""
    column = main(merged)
    if column is None:
        return None
    classes = dict(zip(map(_key, column.platforms), numbers_of(result(column)), strict=True))
    return flag_clusters({_key(where): _features(merged, where) for where in column.platforms}, classes), classes


def option_effects(merged: MergedMachines) -> StudyTable:
    pairs: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    column = main(merged)
    if column is not None:
        numbers = dict(zip(column.platforms, numbers_of(result(column)), strict=True))
        for one, other in combinations(column.platforms, 2):
            option = _only_difference(one, other)
            if option:
                pairs[option] += 1
                changed[option] += numbers[one] != numbers[other]
    rows = ((name, pairs[name], changed[name], changed[name] / pairs[name]) for name in pairs)
    note = (
        "Pairs of platforms of one machine whose names differ in one option alone (another value, or none: the "
        f"library's choice), and those of them that are in two classes of {_main_title(merged)}."
    )
    return made("own_options", "Settings that make classes", "option pairs changed share", rows, note)


def figure_2(merged: MergedMachines) -> StudyTable:
    rows: list[tuple[Any, ...]] = []
    for column in (*merged.of("models"), *merged.of("operators")):
        if column.subject.facts.get("sample") or column.subject.facts.get("trained") is False:
            continue
        places = [i for i, where in enumerate(column.platforms) if {*where.platform.options} == {"isa", "threads"}]
        for value in (each for each in column.subject.values if each.output):
            output = column.output(value.number)
            numbers = numbers_of([output[i] for i in places])
            for i, number in zip(places, numbers, strict=True):
                options = column.platforms[i].platform.options
                about = (column.subject.name, value.where or value.op, column.platforms[i].machine)
                rows.append((*about, options["isa"], int(options["threads"]), number, max(numbers)))
    columns = "subject output machine isa threads class classes"
    note = "Platforms isa=…,threads=… only. The threads may be more than the machine's cores."
    return made("own_figure_2", "Figure 2: levels of instructions by threads", columns, rows, note)


def thread_effects(table: StudyTable) -> StudyTable:
    """Makes, of Figure 2, the number of classes over threads at each level: 1 where threads change nothing."""
    found: dict[tuple[Any, ...], dict[int, int]] = {}
    for subject, output, machine, isa, threads, number, _ in table.rows:
        found.setdefault((subject, output, machine, isa), {})[threads] = number
    rows = ((*key, len(numbers), len(set(numbers.values()))) for key, numbers in found.items() if len(numbers) > 1)
    columns = "subject output machine isa thread_counts classes"
    note = "classes: different results over the numbers of threads, at one level of instructions."
    return made("own_threads", "Results that depend on the number of threads", columns, rows, note)


def _main_title(merged: MergedMachines) -> str:
    column = main(merged)
    return "no model, since none ran" if column is None else title(column)


def _key(where: MachinePlatform) -> str:
    return f"{where.machine} {where.platform}"


def _features(merged: MergedMachines, where: MachinePlatform) -> frozenset[str]:
    facts: Mapping[str, Any] = merged.settings[where]
    force = {f"PLATFORM:{where.platform.device_mode}"}
    if "capability" in facts:
        onednn = facts.get("onednn_isa", "") if facts.get("onednn") else "off"
        force |= {
            f"ATEN:{facts['capability']}",
            f"ONEDNN:{onednn}".replace(" ", "_"),
            f"MKL:{facts.get('mkl_branch')}",
            f"LAYOUT:{where.platform.options.get('layout', 'as_given')}",
        }
    if threads_of(facts) is not None:
        force.add(f"THREADS:{threads_of(facts)}")
    if "precision_in_force" in facts:
        force.add(f"PRECISION:{facts['precision_in_force']}")
    return frozenset(merged.machines[where.machine].flags) | force


def _only_difference(one: MachinePlatform, other: MachinePlatform) -> str:
    """Returns the option in which two platforms of one machine differ, empty if there is another number of them."""
    a, b = one.platform.options, other.platform.options
    differ = [name for name in {**a, **b} if a.get(name) != b.get(name)]
    alike = one.machine == other.machine and one.platform.device_mode == other.platform.device_mode
    return differ[0] if alike and len(differ) == 1 else ""
