"""Writes the self-contained HTML page of a portability study: figures of the paper's form, and each function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Template

from mindgap.report.templates import styles, template_environment
from mindgap_studies.porting import tables
from mindgap_studies.porting.slowdown import RATIOS, steady
from mindgap_studies.report.study_html import cell
from mindgap_studies.results.ported_functions import CLASSES, REASONS, Estimator, FunctionCell, PortingStudy
from mindgap_studies.table import records

_HERE: Final = Path(__file__).parent

#: Pixels of a strip of slow-downs, and the powers of ten at its ends.
_WIDTH: Final = 620
_LEAST: Final = -3
_MOST: Final = 5
#: Characters of a message in the list of losses.
_MESSAGE: Final = 140
#: Estimators that have a strip.
_SHOWN: Final[tuple[Estimator, ...]] = ("steady", "paper's")
#: CSS class of each class of functions.
_STYLES: Final = dict(zip(CLASSES, ("ok", "part", "lost", "none", "none"), strict=True))


@dataclass(frozen=True, slots=True)
class SlowdownStrip:
    """The distribution of one estimator on one target. points: the ratio of each function, from the smallest."""

    framework: str
    target: str
    estimator: str
    points: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """One function with its cells, by target."""

    name: str
    uses: int
    stratum: str
    cells: tuple[FunctionCell | None, ...]


def portability_page(study: PortingStudy) -> str:
    """Writes the page, one HTML document without external files."""
    from mindgap import __version__

    by_name = {table.name: table for table in tables.study_tables(study)}
    return _template().render(
        study=study, tables=by_name, rows={name: records(table) for name, table in by_name.items()},
        strips=slowdown_strips(study), functions={name: _function_rows(study, name) for name in study.draws},
        targets={name: _targets(study, name) for name in study.draws}, losses=_losses(study), version=__version__,
        classes=CLASSES, styles=_STYLES, reasons=REASONS, width=_WIDTH, decades=range(_LEAST, _MOST + 1),
        css=styles("page.css", "study.css", folder=_HERE),
    )  # fmt: skip


def slowdown_strips(study: PortingStudy) -> list[SlowdownStrip]:
    """Returns a strip for each target with seconds, by calls after the first and by the paper's estimator."""
    return [
        SlowdownStrip(name, target, estimator, tuple(sorted(map(RATIOS[estimator], latencies))))
        for name, target, _ in tables.pairs(study)
        for estimator in _SHOWN
        if (latencies := study.latencies(name, target))
    ]


def place(ratio: float) -> float:
    """Returns the pixel of a ratio on a logarithmic axis; ratios beyond its ends are at the ends."""
    power = min(max(math.log10(ratio), _LEAST), _MOST)
    return round((power - _LEAST) / (_MOST - _LEAST) * _WIDTH, 1)


def times(ratio: float | None) -> str:
    """Formats a ratio with three digits: `0.046×`, `12.3×`, `1,410×`."""
    if ratio is None:
        return "–"
    if not math.isfinite(ratio):
        return "∞"
    return f"{ratio:,.0f}×" if ratio >= 100 else f"{ratio:.3g}×"


def _targets(study: PortingStudy, framework: str) -> list[str]:
    return [target for target, why in study.draws[framework].targets.items() if not why]


def _function_rows(study: PortingStudy, framework: str) -> list[FunctionRow]:
    targets = _targets(study, framework)
    return [
        FunctionRow(
            each.name, each.uses, each.stratum, tuple(study.cells.get((framework, each.name, t)) for t in targets)
        )
        for each in study.draws[framework].drawn
    ]


def _losses(study: PortingStudy) -> list[dict[str, Any]]:
    """One entry for each function that is lost, with the targets that lose it for the same reason in the same words."""
    grouped: dict[tuple[str, str, str, str], list[str]] = {}
    for name, target, cells in tables.pairs(study):
        for each in cells:
            if loss := each.main_loss:
                grouped.setdefault((name, each.function, loss.reason, loss.message[:_MESSAGE]), []).append(target)
    order = {name: number for number, name in enumerate(study.draws)}
    return [
        {"framework": name, "function": function, "reason": reason, "message": message, "targets": ", ".join(targets)}
        for (name, function, reason, message), targets in sorted(
            grouped.items(), key=lambda each: (order[each[0][0]], *each[0][1:])
        )
    ]


def cell_text(found: FunctionCell | None) -> str:
    """Returns what a cell shows: the ratio of later calls where it was measured, else the reason of its loss."""
    if found is None:
        return "–"
    lost = sum(each.lost for each in found.samples)
    part = f" ({lost} of {len(found.samples)} lost)" if found.word == "partial failure" else ""
    if found.latency is not None:
        return f"{times(steady(found.latency).value)}{part}"
    loss = found.main_loss
    if loss is not None:
        return f"{loss.reason}{part}"
    ported = "simulated" if found.untimed.startswith("simulated") else "ported"
    return found.word if found.word != "success" else ported


def cell_hint(found: FunctionCell | None) -> str:
    """Returns the interval of a cell's ratio, or why it was not measured."""
    if found is None or found.latency is None:
        return "" if found is None else found.untimed
    ratio = steady(found.latency)
    return f"{times(ratio.low)} to {times(ratio.high)}; first call, paper's: {times(_paper(found))}"


def _paper(found: FunctionCell) -> float | None:
    return RATIOS["paper's"](found.latency) if found.latency is not None else None


def shares_of(row: dict[str, Any], names: Sequence[str]) -> list[tuple[str, float]]:
    """Returns name and per cent of each count that is not zero."""
    total = sum(row[name] or 0 for name in names)
    return [(name, 100 * row[name] / total) for name in names if row[name]] if total else []


@cache
def _template() -> Template:
    functions: dict[str, Any] = {
        "cell": cell, "times": times, "place": place, "cell_text": cell_text, "cell_hint": cell_hint,
        "shares_of": shares_of,
    }  # fmt: skip
    return template_environment(functions, _HERE).get_template("portability.html.j2")
