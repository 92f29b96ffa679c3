"""Lays out a task study: figures of each column, samples in danger, and the samples that flipped."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from mindgap_studies.results.predictions import ComparedForm, Flip, TaskResult
from mindgap_studies.task.study import NOTES, column_facts, label_name, task_tables
from mindgap_surveys.report.study_page import Cell, Section, StudyPage, Text
from mindgap_surveys.table import StudyTable

#: By task: heading and name of its figures. Those that are shares have intervals.
_FIGURES: Final = {
    "classification": (("top-1 error", "top1_error"), ("top-5 error", "top5_error"), ("ECE", "ece")),
    "localisation": (("top-1 error", "top1_error"), ("localisation error", "localisation_error"), ("ECE", "ece")),
    "detection": (("AP (ILSVRC)", "ap"), ("AP (COCO)", "coco_ap"), ("AP50 (COCO)", "coco_ap_50")),
    "language": (("perplexity", "perplexity"), ("token error", "token_error")),
}
MEANINGS: Final = {
    "rounding": "rounding of the graph can swap the two labels: a correct platform may give either",
    "reduced precision": "the platform computes in fewer bits than declared, whose rounding can swap the two labels",
    "beyond": "rounding of the graph cannot swap the two labels",
    "other form": "this form computes something else than the model, on the reference too",
    "unjudged": "whether rounding explains it is not known",
}


def task_page(result: TaskResult) -> StudyPage:
    from mindgap import __version__

    _, danger, flips = task_tables(result)
    problems = tuple(result.problems.items())
    shown = _flips(result)
    sections = (
        Section("columns", "Platforms", (_columns(result), *(Text(f"note: {note}") for note in result.notes))),
        Section("danger", danger.title, (danger,)),
        Section("flips", flips.title, (shown, *_meanings(result))),
        Section("problems", "Samples left out", (StudyTable("", "", ("sample", "reason"), problems),), "page"),
    )
    kept = {"columns": True, "danger": danger.rows, "flips": len(result.columns) > 1, "problems": problems}
    return StudyPage(
        f"{result.task.capitalize()}: what platforms and forms of {result.model} change",
        tuple(_lead(result, __version__)), tuple(each for each in sections if kept[each.name]),
    )  # fmt: skip


def _lead(result: TaskResult, version: str) -> Iterator[Text]:
    left_out = f", {len(result.problems)} left out" if result.problems else ""
    taken = f", {result.taken_over} taken over from the store" if result.taken_over else ""
    yield Text(
        f"Dataset `{result.dataset}` · {len(result.truths):,} samples{left_out}{taken} · reference "
        f"`{result.reference.name}` · mindgap {version} · {result.seconds:,.0f} s"
    )
    for why in result.failures.values():
        yield Text(f"Not run: {why}", "loud")


def _columns(result: TaskResult) -> StudyTable:
    """One row for each column, with intervals in the cells of shares."""
    figures = _FIGURES[result.task]
    counts = ("flips", "lost", "gained", "p") if result.task != "detection" else ("flips",)
    rows: list[tuple[Any, ...]] = []
    for column in result.columns:
        facts = column_facts(result, column)
        name = column.name + (f" in {facts['precision']}" if facts["precision"] else "")
        if "failure" in facts:
            rows.append((name, column.way, "not run", *[None] * (len(figures) + len(counts) + 1)))
            continue
        words = ", ".join(f"{n} {word}" for word in MEANINGS if (n := facts[word.replace(" ", "_")]))
        changes = (None,) * len(counts) if column == result.reference else tuple(facts[each] for each in counts)
        measured = (_figure(facts, each) for _, each in figures)
        rows.append((name, column.way, *measured, *changes, words, facts["largest_deviation"]))
    names = ("platform", "ran", *(title for title, _ in figures), *counts, "of the flips", "largest deviation")
    return StudyTable("columns", "Platforms", names, tuple(rows), NOTES[result.task])


def _figure(facts: dict[str, Any], name: str) -> Any:
    """`2.67 % (1.5–4.6)` with its interval, or a plain number."""
    if f"{name}_share" not in facts:
        return facts.get(name)
    value, low, high = (100 * facts[f"{name}{end}_share"] for end in ("", "_low", "_high"))
    return f"{value:.2f} % ({low:.1f}–{high:.1f})"


def _flips(result: TaskResult) -> StudyTable:
    """One row for each sample and what it became, with the columns on which it did: first those beyond rounding, then
    those that flip on most columns."""
    groups: dict[tuple[Any, ...], list[Flip]] = {}
    for flip in result.flips:
        key = flip.sample, flip.position, flip.after, flip.shows, flip.verdict, flip.origin, flip.note
        groups.setdefault(key, []).append(flip)
    order = sorted(groups.values(), key=lambda same: (same[0].verdict != "beyond", -len(same), same[0].sample))
    forms = {each.name: each for each in result.columns}
    rows = tuple(_flip(result, same[0], [forms[each.column] for each in same]) for same in order)
    columns = ("sample", "flip", "verdict of the flip", "margin", "limit", "on", "begins at", "note")
    samples = len({flip.sample for flip in result.flips})
    note = f"{len(result.flips):,} flips of {samples:,} samples." if rows else ""
    return StudyTable("flips", "", columns, rows, note, empty="no sample has another answer than on the reference")


def _flip(result: TaskResult, flip: Flip, columns: list[ComparedForm]) -> tuple[Any, ...]:
    before, after, truth = (label_name(result.classes, each) for each in (flip.before, flip.after, flip.truth))
    place = f"{flip.sample}, token {flip.position}" if result.task == "language" else str(flip.sample)
    sizes = tuple(None if math.isnan(each) else f"{each:.2g}" for each in (flip.margin, flip.limit))
    return (
        Cell(place, "n", picture=result.pictures.get(flip.sample, "")),
        flip.shows if result.task == "detection" else f"{before} became {after} (right: {truth})",
        Cell(flip.verdict, f"f-{flip.verdict.split()[0]}", MEANINGS[flip.verdict]), *sizes, _names(columns),
        flip.origin, flip.note,
    )  # fmt: skip


def _names(columns: list[ComparedForm]) -> str:
    """`cpu/jit, onnxruntime/cpu; int8 on cpu/eager, cpu/jit`."""
    by_form: dict[str, list[str]] = {}
    for each in columns:
        by_form.setdefault(each.form, []).append(each.platform)
    return "; ".join(f"{form} on {', '.join(p)}" if form else ", ".join(p) for form, p in by_form.items())


def _meanings(result: TaskResult) -> Iterator[Text]:
    for word, meaning in MEANINGS.items():
        if any(flip.verdict == word for flip in result.flips):
            yield Text(f"{word}: {meaning}")
