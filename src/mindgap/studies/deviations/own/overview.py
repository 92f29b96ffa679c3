"""Lays out the study of one's own machines for its page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mindgap.graph import MindgapError
from mindgap.machines.merging import Column, MachinePlatform, Merged
from mindgap.studies.deviations.overview import (
    Answer,
    ClassGrid,
    ClassTree,
    FlagGrid,
    GridCell,
    GridRow,
    LayerPoint,
    LayerProfile,
    Overview,
    answers,
    class_tree,
    flag_grid,
)
from mindgap.studies.deviations.own.causes import clusters_and_classes
from mindgap.studies.deviations.own.columns import MAIN, numbers_of, result, tree
from mindgap.studies.deviations.own.study import OwnStudy
from mindgap.studies.table import StudyTable, records

#: Mantissa bits of the values whose layers are shown.
_FLOAT32 = 23


def own_overview(merged: Merged, study: OwnStudy) -> Overview:
    """Lays out the study for its page. The matrix and the answers are of the models in float32.

    Raises `MindgapError` if no model ran on two platforms.
    """
    models = sorted(merged.of("models"), key=lambda column: column.subject.name != MAIN)
    trees = tuple(_tree(column) for column in models if len(column.platforms) > 1)
    if not trees:
        raise MindgapError("no page: no model ran on more than one platform; --out DIR writes the tables of the others")
    machines = len(merged.machines)
    grid = _grid(merged.of("models"), merged)
    counts = f"settings of {machines} machine{'' if machines == 1 else 's'}"
    return Overview(
        title="How many answers does one model give?",
        source="; ".join(
            f"{each.processor}, {each.cores} cores, torch {each.versions.get('torch', 'unknown')}, {each.collected}"
            for each in merged.machines.values()
        ),
        answers=answers(Answer(len(grid.rows), "platforms", counts), trees),
        remarks=_remarks(merged, study, len(grid.rows)),
        grid=grid,
        trees=trees,
        flags=_flags(merged),
        layers=_layers(study.table("own_figure_5")),
        by_setting=_by_threads(study.table("own_figure_2"), study.table("own_threads")),
        casts=tuple(_tree(column) for column in _formats(merged)),
        ablation=study.table("own_figure_4"),
        cumulative=None,
        claims=(),
        tables=study.tables,
    )


def title(column: Column) -> str:
    """Returns a subject's name for people: `resnet18, relu, max, trained, sample 0`."""
    facts = column.subject.facts
    words = [str(facts[name]) for name in ("model", "activation", "pooling") if facts.get(name) is not None]
    words.append("trained" if facts.get("trained") else "untrained")
    dtype = facts.get("dtype")
    if column.subject.experiment == "reduced":
        words.append("float32 or less")
    elif dtype != "float32":
        words.append(str(dtype))
    return ", ".join((*words, f"sample {facts.get('sample')}"))


def _remarks(merged: Merged, study: OwnStudy, platforms: int) -> tuple[str, ...]:
    missing = sum("unavailable" in facts for facts in merged.settings.values())
    unsteady = sum(len(column.nondeterministic) for column in merged.columns.values())
    runs = sum(len(column.platforms) for column in merged.columns.values())
    failed = len(study.table("own_failures").rows)
    found = [
        f"{runs:,} outputs of {len(merged.columns)} models, operators and convolutions were compared. "
        f"{unsteady} are not deterministic, and {failed} runs failed.",
    ]
    others = len(merged.settings) - missing - platforms
    if others:
        found.append(f"{others} more settings do not compute these models in float32: see other number formats.")
    if missing:
        found.append(f"{missing} settings are not available on their machine (table own_platforms).")
    return tuple(found)


def _formats(merged: Merged) -> Iterator[Column]:
    """Yields the casts of each model after the model itself, then the models on settings of any precision."""
    shown = set[str]()
    for cast in merged.of("casts"):
        plain = merged.columns.get(cast.subject.name.rpartition("/")[0])
        if plain is not None and plain.platforms and plain.subject.name not in shown:
            shown.add(plain.subject.name)
            yield plain
        yield cast
    yield from merged.of("reduced")


def _tree(column: Column) -> ClassTree:
    digests = result(column)
    machines = {where.machine for where in column.platforms}
    names = [_name(where, with_machine=len(machines) > 1) for where in column.platforms]
    return class_tree(title(column), names, names, numbers_of(digests), tree(digests))


def _name(where: MachinePlatform, *, with_machine: bool) -> str:
    options = where.platform.partition("@")[2] or where.platform
    return f"{where.machine}: {options}" if with_machine else options


def _grid(columns: Sequence[Column], merged: Merged) -> ClassGrid:
    cells = [_cells(column) for column in columns]
    absent = GridCell(None, "not_run", reason="not in the set of models for this setting")
    ran = [where for where in merged.settings if any(where in its for its in cells)]
    rows = tuple(
        GridRow(
            f"{merged.machines[where.machine].processor}, {merged.machines[where.machine].cores} cores",
            _name(where, with_machine=False),
            tuple(its.get(where, absent) for its in cells),
        )
        for where in ran
    )
    heads = tuple(tuple(title(column).rsplit(", ", 1)) for column in columns)
    note = (
        "Equal numbers in one column are equal outputs. 1 is the output of the first platform that ran the model. Of "
        "repeated runs, the first counts."
    )
    return ClassGrid("setting", tuple((head[0], head[1]) for head in heads), rows, note)


def _cells(column: Column) -> dict[MachinePlatform, GridCell]:
    numbers = numbers_of(result(column))
    found = {
        where: GridCell(number, deterministic=where not in column.nondeterministic)
        for where, number in zip(column.platforms, numbers, strict=True)
    }
    for where, status, message in column.failed:
        found[where] = GridCell(None, "not_run", reason=f"{status}: {message}".rstrip(": "))
    return found


def _flags(merged: Merged) -> FlagGrid | None:
    found = clusters_and_classes(merged)
    if found is None:
        return None
    return flag_grid(title(merged.columns[MAIN]), *found)


def _layers(table: StudyTable) -> tuple[LayerProfile, ...]:
    groups: dict[str, list[LayerPoint]] = {}
    platforms: dict[str, int] = {}
    for row in records(table):
        words = (row["model"], row["activation"], row["pooling"], "trained" if row["trained"] else "untrained")
        name = ", ".join(str(word) for word in words if word is not None)
        point = LayerPoint(row["operator"], row["module"], row["kind"], row["classes"], row["remaining_precision"])
        groups.setdefault(name, []).append(point)
        platforms[name] = row["platforms"]
    profiles = [LayerProfile(name, platforms[name], _FLOAT32, tuple(points)) for name, points in groups.items()]
    return tuple(sorted(profiles, key=lambda each: each.title != MAIN.rpartition("/")[0].replace("-", ", ")))


def _by_threads(table: StudyTable, effects: StudyTable) -> ClassGrid | None:
    """Makes Figure 2 of what depends on the threads: levels of instructions by numbers of threads."""
    moved = {(row["subject"], row["output"], row["machine"]) for row in records(effects) if row["classes"] > 1}
    threads = sorted({row["threads"] for row in records(table)})
    cells: dict[tuple[str, str], dict[int, GridCell]] = {}
    machines = {row["machine"] for row in records(table)}
    for row in records(table):
        if (row["subject"], row["output"], row["machine"]) in moved:
            where = f", {row['machine']}" if len(machines) > 1 else ""
            group = f"{row['subject']}, output {row['output']}{where}"
            cells.setdefault((group, f"isa={row['isa']}"), {})[row["threads"]] = GridCell(row["class"])
    if not cells:
        return None
    absent = GridCell(None, "not_run", reason="it was not run")
    rows = tuple(
        GridRow(group, isa, tuple(its.get(number, absent) for number in threads)) for (group, isa), its in cells.items()
    )
    subjects = len({(row["subject"], row["output"], row["machine"]) for row in records(table)})
    note = (
        f"Of {subjects} outputs, the {len(moved)} that depend on the number of threads at some level of instructions. "
        "Equal numbers below one heading are equal outputs."
    )
    return ClassGrid("instructions", tuple(("threads", str(number)) for number in threads), rows, note)
