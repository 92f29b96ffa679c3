"""Lays out the study of one's own machines for its page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from mindgap.graph import MindgapError
from mindgap_studies.deviations.overview import (
    ClassTree,
    LayerProfile,
    Overview,
    answers,
    class_cell,
    class_grid,
    class_tree,
    classless_cell,
    flag_blocks,
)
from mindgap_studies.deviations.own.causes import clusters_and_classes
from mindgap_studies.deviations.own.columns import MODEL_COLUMNS, main, model_facts, numbers_of, result, title
from mindgap_studies.equivalence.prefix_digests import dendrogram_of
from mindgap_studies.machines.merging import MachinePlatform, MergedMachines, SubjectColumn
from mindgap_surveys.report.study_page import Block, Cell, Figure
from mindgap_surveys.table import StudyTable, StudyTables, records

#: Settings of `cpu/eager` that a machine lacks are counted; more platforms than these are counted too.
_NAMED: Final = 8
_EAGER: Final = "cpu/eager@"


def own_overview(merged: MergedMachines, study: StudyTables) -> Overview:
    """Lays out the study for its page. The matrix and the answers are of the models in float32.

    Raises `MindgapError` if no model ran on two platforms.
    """
    first = main(merged)
    models = sorted(merged.of("models"), key=lambda column: column is not first)
    trees = tuple(_tree(column) for column in models if len(column.platforms) > 1)
    if not trees:
        raise MindgapError("no page: no model ran on more than one platform; --out DIR writes the tables of the others")
    machines = len(merged.machines)
    grid, platforms = _grid(merged.of("models"), merged)
    counts = f"on {machines} machine{'' if machines == 1 else 's'}"
    return Overview(
        source="; ".join(
            f"{each.processor}, {each.cores} cores, torch {each.versions.get('torch', 'unknown')}, {each.collected}"
            for each in merged.machines.values()
        ),
        answers=answers(Figure(platforms, "platforms", counts), trees),
        remarks=_remarks(merged, study, platforms),
        grid=grid,
        trees=trees,
        flags=_flags(merged),
        layers=_layers(merged, study.table("own_figure_5")),
        by_setting=_by_threads(study.table("own_figure_2"), study.table("own_threads")),
        casts=tuple(_tree(column) for column in _formats(merged)),
        ablation=study.table("own_figure_4"),
        cumulative=None,
        tables=study.tables,
        activations=tuple(t for name in ("own_table_sup8", "own_table_sup9") if (t := study.table(name)).rows),
        unavailable=_unavailable(merged),
        failed=_failed(merged),
    )


def _remarks(merged: MergedMachines, study: StudyTables, platforms: int) -> tuple[str, ...]:
    missing = sum("unavailable" in facts for facts in merged.settings.values())
    unsteady = sum(len(column.nondeterministic) for column in merged.columns.values())
    runs = sum(len(column.platforms) for column in merged.columns.values())
    failed = len(study.table("own_failures").rows)
    remarks = [
        f"{runs:,} outputs of {len(merged.columns)} models, operators and convolutions were compared. "
        f"{unsteady} are not deterministic, and {failed} {'run' if failed == 1 else 'runs'} failed or "
        f"{'was' if failed == 1 else 'were'} refused."
    ]
    others = sum("unavailable" not in facts for facts in merged.settings.values()) - platforms
    if others:
        remarks.append(
            f"{others} more platforms ran none of these models: see other number formats, and what did not run."
        )
    if missing > _NAMED:
        remarks.append(f"{missing} platforms are not available on their machine (table own_platforms).")
    return tuple(remarks)


def _unavailable(merged: MergedMachines) -> tuple[tuple[str, str], ...]:
    """Returns the platforms that a machine lacks, with the reason; nothing for more than a few."""
    reasons = [
        (where.platform, str(facts["unavailable"]))
        for where, facts in merged.settings.items()
        if "unavailable" in facts
    ]
    return tuple(dict.fromkeys(reasons)) if len(reasons) <= _NAMED else ()


def _failed(merged: MergedMachines) -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"{title(column)} on {where.platform}", f"{status}: {message}".rstrip(": "))
        for column in merged.columns.values()
        if column.subject.experiment == "models"
        for where, status, message in column.failed
    )


def _formats(merged: MergedMachines) -> Iterator[SubjectColumn]:
    """Yields the casts of each model after the model itself, then the models on settings of any precision."""
    shown = set[str]()
    for cast in merged.of("casts"):
        plain = merged.columns.get(cast.subject.name.rpartition("/")[0])
        if plain is not None and plain.platforms and plain.subject.name not in shown:
            shown.add(plain.subject.name)
            yield plain
        yield cast
    yield from merged.of("reduced")


def _tree(column: SubjectColumn) -> ClassTree:
    digests = result(column)
    machines = {where.machine for where in column.platforms}
    short = _short(column.platforms)
    names = [_name(where, short=short, with_machine=len(machines) > 1) for where in column.platforms]
    return class_tree(title(column), names, names, numbers_of(digests), dendrogram_of(digests))


def _short(platforms: Iterable[MachinePlatform]) -> bool:
    """Returns whether options alone name the platforms: all are settings of `cpu/eager`."""
    return all(where.platform.startswith(_EAGER) for where in platforms)


def _name(where: MachinePlatform, *, short: bool, with_machine: bool) -> str:
    name = where.platform.removeprefix(_EAGER) if short else where.platform
    return f"{where.machine}: {name}" if with_machine else name


def _grid(columns: Sequence[SubjectColumn], merged: MergedMachines) -> tuple[StudyTable, int]:
    """Makes the class matrix. Returns it, and the number of platforms in it."""
    cells = [_cells(column) for column in columns]
    absent = classless_cell("not_run", "not in the set of models for this platform")
    ran = [where for where in merged.settings if any(where in its for its in cells)]
    short = _short(ran)
    rows = (
        (f"{machine.processor}, {machine.cores} cores", _name(where, short=short, with_machine=False),
         [its.get(where, absent) for its in cells])
        for where in ran
        for machine in (merged.machines[where.machine],)
    )  # fmt: skip
    note = (
        "Equal numbers in one column are equal outputs. 1 is the output of the first platform that ran the model. Of "
        "repeated runs, the first counts."
    )
    corner = "setting" if short else "platform"
    return class_grid(corner, list(map(title, columns)), rows, note, counted=True), len(ran)


def _cells(column: SubjectColumn) -> dict[MachinePlatform, Cell]:
    numbers = numbers_of(result(column))
    cells = {
        where: class_cell(number, steady=where not in column.nondeterministic)
        for where, number in zip(column.platforms, numbers, strict=True)
    }
    for where, status, message in column.failed:
        cells[where] = classless_cell("not_run", f"{status}: {message}".rstrip(": "))
    return cells


def _flags(merged: MergedMachines) -> tuple[Block, ...]:
    clusters, column = clusters_and_classes(merged), main(merged)
    return () if clusters is None or column is None else flag_blocks(title(column), *clusters)


def _layers(merged: MergedMachines, table: StudyTable) -> tuple[LayerProfile, ...]:
    rows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in records(table):
        rows.setdefault(tuple(row[name] for name in MODEL_COLUMNS), []).append(row)
    first = main(merged)
    columns = [c for c in merged.of("models") if model_facts(c) in rows and len(c.platforms) > 1]
    return tuple(
        _profile(column, rows[model_facts(column)]) for column in sorted(columns, key=lambda each: each is not first)
    )


def _profile(column: SubjectColumn, rows: Sequence[dict[str, Any]]) -> LayerProfile:
    machines = {where.machine for where in column.platforms}
    short = _short(column.platforms)
    hidden = tuple(
        (_name(where, short=short, with_machine=len(machines) > 1), reason) for where, reason in column.hidden.items()
    )
    mantissa = max(row["mantissa"] for row in rows)
    name = title(column).removesuffix(f", sample {column.subject.facts.get('sample')}")
    return LayerProfile(name, rows[0]["platforms"], mantissa, tuple(rows), hidden)


def _by_threads(table: StudyTable, effects: StudyTable) -> StudyTable | None:
    """Makes Figure 2 of what depends on the threads: levels of instructions by numbers of threads."""
    moved = {(row["subject"], row["output"], row["machine"]) for row in records(effects) if row["classes"] > 1}
    threads = sorted({row["threads"] for row in records(table)})
    cells: dict[tuple[str, str], dict[int, Cell]] = {}
    machines = {row["machine"] for row in records(table)}
    for row in records(table):
        if (row["subject"], row["output"], row["machine"]) in moved:
            where = f", {row['machine']}" if len(machines) > 1 else ""
            group = f"{row['subject']}, output {row['output']}{where}"
            cells.setdefault((group, f"isa={row['isa']}"), {})[row["threads"]] = class_cell(row["class"])
    if not cells:
        return None
    absent = classless_cell("not_run", "it was not run")
    rows = ((*key, [its.get(number, absent) for number in threads]) for key, its in cells.items())
    subjects = len({(row["subject"], row["output"], row["machine"]) for row in records(table)})
    note = (
        f"Of {subjects} outputs, the {len(moved)} that depend on the number of threads at some level of instructions. "
        "Equal numbers below one heading are equal outputs."
    )
    return class_grid("instructions", [f"threads, {number}" for number in threads], rows, note)
