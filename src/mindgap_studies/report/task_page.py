"""Writes the self-contained HTML page of a task study: figures of each column, and the samples that flipped."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Template

from mindgap.report.templates import styles, template_environment
from mindgap_studies.report.study_html import cell
from mindgap_studies.results.predictions import Flip, TaskResult
from mindgap_studies.task.study import NOTES, column_facts, danger_facts, label_name, task_tables

_HERE: Final = Path(__file__).parent

#: Flips of all columns that the page shows; all are in the CSV file and in JSON.
_MOST: Final = 400
#: Pixels of a bar that shows an interval.
_WIDTH: Final = 110

#: By task: heading and name of the figures with intervals, then of plain ones.
_SHARES: Final = {
    "classification": [("top-1 error", "top1_error"), ("top-5 error", "top5_error")],
    "localisation": [("top-1 error", "top1_error"), ("localisation error", "localisation_error")],
    "detection": [],
    "language": [("token error", "token_error")],
}
_PLAIN: Final = {
    "classification": [("ECE", "ece")],
    "localisation": [("ECE", "ece")],
    "detection": [("AP (ILSVRC)", "ap"), ("AP (COCO)", "coco_ap"), ("AP50 (COCO)", "coco_ap_50")],
    "language": [("perplexity", "perplexity")],
}
MEANINGS: Final = {
    "rounding": "rounding of the graph can swap the two labels: a correct platform may give either",
    "reduced precision": "the platform computes in fewer bits than declared, whose rounding can swap the two labels",
    "beyond": "rounding of the graph cannot swap the two labels",
    "other form": "this form computes something else than the model, on the reference too",
    "unjudged": "whether rounding explains it is not known",
}


@dataclass(frozen=True, slots=True)
class ShownSample:
    """One sample with its flips on all columns, in the order of columns."""

    sample: int
    picture: str
    truth: str
    before: str
    flips: tuple[Flip, ...]


def task_page(found: TaskResult) -> str:
    """Writes the page, one HTML document without external files."""
    from mindgap import __version__

    facts = [column_facts(found, column) for column in found.columns]
    samples = [*_samples(found)]
    return _template().render(
        found=found, facts=facts, shares=_SHARES[found.task], plain=_PLAIN[found.task], note=NOTES[found.task],
        danger=danger_facts(found), samples=samples, meanings=MEANINGS, version=__version__,
        labels=found.task != "detection",
        shown=sum(len(each.flips) for each in samples), scale=_scale(facts, found.task), width=_WIDTH,
        notes={table.name: table.note for table in task_tables(found)},
        origins=[flip for flip in found.flips if flip.origin or flip.note],
        css=styles("page.css", "study.css", folder=_HERE),
    )  # fmt: skip


def _scale(facts: list[dict[str, Any]], task: str) -> float:
    """The largest end of an interval, for the bars."""
    ends = [row.get(f"{name}_high_share") for row in facts for _, name in _SHARES[task]]
    return max((end for end in ends if end is not None), default=1.0) or 1.0


def _samples(found: TaskResult) -> Iterator[ShownSample]:
    """Yields the samples that flip: first those that flip beyond rounding, then those that flip on most columns."""
    by_sample: dict[int, list[Flip]] = {}
    for flip in found.flips:
        by_sample.setdefault(flip.sample, []).append(flip)
    order = sorted(by_sample, key=lambda n: (all(f.verdict != "beyond" for f in by_sample[n]), -len(by_sample[n]), n))
    left = _MOST
    for sample in order:
        flips = by_sample[sample][:left]
        left -= len(flips)
        if not flips:
            return
        first = flips[0]
        yield ShownSample(
            sample, found.pictures.get(sample, ""), label_name(found.classes, first.truth),
            label_name(found.classes, first.before), tuple(flips),
        )  # fmt: skip


def figure(value: Any) -> str:
    """Formats a plain figure."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.4f}"


@cache
def _template() -> Template:
    functions: dict[str, Any] = {"cell": cell, "figure": figure, "label_name": label_name}
    return template_environment(functions, _HERE).get_template("task.html.j2")
