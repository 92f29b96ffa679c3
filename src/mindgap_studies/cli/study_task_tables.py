"""Prints the tables of `mindgap study task` on a terminal."""

from __future__ import annotations

import math
from typing import Any, Final, TextIO

from rich.table import Table as Grid
from rich.text import Text

from mindgap.cli.tables import console, plain_table
from mindgap_studies.results.predictions import Flip, TaskResult

#: Flips of each column that are printed.
_MOST: Final = 4
_VERDICTS: Final = ("rounding", "reduced_precision", "beyond", "other_form", "unjudged")


def print_task(found: TaskResult, out: TextIO) -> None:
    """Prints a table of columns, the samples in danger, the first flips, and notes."""
    from mindgap_studies.task.study import column_facts, danger_facts

    page = console(out)
    left_out = f", {len(found.problems)} left out" if found.problems else ""
    taken = f", {found.taken_over} taken over from the store" if found.taken_over else ""
    page.print(Text(f"{found.model} on {found.dataset}: {found.task}, {len(found.truths)} samples{left_out}{taken}"))
    page.print(Text(f"reference: {found.reference.name}"))
    page.print()
    page.print(_grid(found, [column_facts(found, column) for column in found.columns]))
    danger = danger_facts(found)
    if danger:
        page.print()
        page.print(
            Text("samples whose margin is within rounding of the graph (in danger), of those of smallest margin")
        )
    for facts in danger:
        nearest = f"nearest: sample {facts['sample']}, margin {facts['margin']:.2g}, limit {facts['limit']:.2g}"
        page.print(Text(f"  {facts['form']}: {facts['in_danger']} of {facts['examined']}; {nearest}"))
    for names, flips in _grouped(found):
        page.print()
        page.print(Text(f"flips of {names}", style="bold"))
        traced = [flip for flip in flips if flip.origin or flip.note]
        for flip in [*traced, *[flip for flip in flips if flip not in traced]][:_MOST]:
            page.print(Text(f"  {_flip(found, flip)}"))
        if len(flips) > _MOST:
            page.print(Text(f"  … and {len(flips) - _MOST} more (--html FILE, --json)", style="dim"))
    for note in found.notes:
        page.print(Text(f"note: {note}"))


def _grouped(found: TaskResult) -> list[tuple[str, list[Flip]]]:
    """Returns names of columns with the same flips, and these flips."""
    groups: dict[tuple[object, ...], tuple[list[str], list[Flip]]] = {}
    for column in found.columns:
        flips = [flip for flip in found.flips if flip.column == column.name]
        key = (column.form, *((f.sample, f.position, f.after, f.shows, f.verdict, f.origin) for f in flips))
        if flips:
            name = column.platform if key in groups else column.name
            groups.setdefault(key, ([], flips))[0].append(name)
    return [(", ".join(names), flips) for names, flips in groups.values()]


def _flip(found: TaskResult, flip: Flip) -> str:
    from mindgap_studies.task.study import label_name

    what = flip.shows if found.task == "detection" else (
        f"{label_name(found.classes, flip.before)} became {label_name(found.classes, flip.after)} "
        f"(right: {label_name(found.classes, flip.truth)})"
    )  # fmt: skip
    where = f"sample {flip.sample}" + (f", token {flip.position}" if found.task == "language" else "")
    size = f" (margin {flip.margin:.2g}, limit {flip.limit:.2g})" if not math.isnan(flip.margin) else ""
    begins = f"; begins at {flip.origin}" if flip.origin else ""
    words = "; ".join(part for part in (what, f"{flip.verdict}{size}") if part)
    return f"{where}: {words}{begins}{f'; {flip.note}' if flip.note else ''}"


def _grid(found: TaskResult, rows: list[dict[str, Any]]) -> Grid:
    kinds: dict[str, list[tuple[str, str]]] = {
        "classification": [("top-1 error", "top1_error"), ("top-5 error", "top5_error")],
        "localisation": [("top-1 error", "top1_error"), ("localisation", "localisation_error")],
        "language": [("perplexity", "perplexity"), ("token error", "token_error")],
        "detection": [("AP", "ap"), ("COCO AP", "coco_ap"), ("COCO AP50", "coco_ap_50")],
    }
    columns = kinds[found.task]
    labels = found.task != "detection"
    figures = [title for title, _ in columns]
    figures += ["flips", "lost", "gained", "p"] if labels else ["flips"]
    figures += ["ECE"] if found.task in ("classification", "localisation") else []
    grid = plain_table("platform", *figures, "of the flips", right=figures)
    for row in rows:
        grid.add_row(*map(Text, _cells(row, [name for _, name in columns], labels, found)))
    return grid


def _cells(row: dict[str, Any], names: list[str], labels: bool, found: TaskResult) -> list[str]:
    if "failure" in row:
        return [row["column"], "not run"]
    narrow = f" in {row['precision']}" if row["precision"] else ""
    cells = [row["column"] + narrow, *(_figure(row, name) for name in names)]
    if row["column"] == found.reference.name:
        cells += ["–"] * (4 if labels else 1)
    else:
        cells += [str(row["flips"])]
        cells += [str(row["lost"]), str(row["gained"]), f"{row['p']:.2g}"] if labels else []
    if "ece" in row:
        cells.append("–" if row["ece"] is None else f"{row['ece']:.4f}")
    counts = [f"{row[verdict]} {verdict.replace('_', ' ')}" for verdict in _VERDICTS if row[verdict]]
    return [*cells, ", ".join(counts)]


def _figure(row: dict[str, Any], name: str) -> str:
    """`2.67 % (1.5–4.6)` with its interval, or a plain number."""
    if f"{name}_share" in row:
        value, low, high = (100 * row[f"{name}{end}_share"] for end in ("", "_low", "_high"))
        return f"{value:.2f} % ({low:.1f}–{high:.1f})"
    return "–" if row.get(name) is None else f"{row[name]:.4f}"
