"""Writes the self-contained HTML page of a deviations study, without JavaScript and without external files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from jinja2 import Template
from markupsafe import Markup

from mindgap.report.templates import styles, template_environment
from mindgap_studies import StudyTable
from mindgap_studies.deviations.overview import ClassGrid, ClassTree, GridRow, Leaf, Overview
from mindgap_studies.report.deviation_charts import OVERHANG, ablation_chart, cumulative_chart, segments
from mindgap_studies.report.own_charts import layer_chart
from mindgap_studies.report.study_chart import spaced
from mindgap_studies.report.study_html import cell, column_kind

_HERE: Final = Path(__file__).parent

#: Rows of a table that the page shows; all are in its CSV file.
_MOST: Final = 250
#: The angle between the hues of two successive classes: any number of them stay apart.
_GOLDEN_ANGLE: Final = 137.508
#: Bits between two labels of an axis.
_TICKS: Final = {7: 1, 10: 2, 23: 5, 52: 10}


@dataclass(frozen=True, slots=True)
class _Head:
    """A heading over neighbouring columns."""

    text: str
    span: int


def deviations_page(page: Overview, version: str) -> str:
    """Writes the page, one HTML document. `version`: of mindgap."""
    charts = {
        "ablation": Markup(ablation_chart(page.ablation)) if page.ablation.rows else "",
        "cumulative": Markup(cumulative_chart(page.cumulative)) if page.cumulative else "",
    }
    return _template().render(
        page=page,
        charts=charts,
        contents=_contents(page, charts),
        most=_MOST,
        version=version,
        css=styles(*_STYLES, folder=_HERE),
    )


_STYLES: Final = ("page.css", "study.css", "deviations.css")


def _contents(page: Overview, charts: dict[str, Any]) -> list[tuple[str, str]]:
    every = (
        ("classes", "classes", True),
        ("distances", "distances", True),
        ("flags", "flags", page.flags),
        ("layers", "layers", page.layers),
        ("activations", "activations", page.activations),
        ("settings", "cores" if page.cumulative else "threads", page.by_setting),
        ("sizes", "convolution", charts["ablation"]),
        ("formats", "formats", page.casts),
        ("growth", "platforms", charts["cumulative"]),
        ("paper", "the paper", page.claims),
        ("tables", "all tables", True),
    )
    return [(name, text) for name, text, there in every if there]


@cache
def _template() -> Template:
    functions: dict[str, Any] = {
        "cell": cell,
        "groups": _groups,
        "heads": _heads,
        "kinds": _kinds,
        "layer_chart": layer_chart,
        "ordered": _ordered,
        "shade": _shade,
        "spaced": spaced,
        "ticks": _ticks,
        "tree_box": _tree_box,
        "tree_path": _tree_path,
    }
    return template_environment(functions, _HERE).get_template("deviations.html.j2")


def _shade(number: int) -> str:
    """Returns the hue and the shade of a class; style sheets make a colour of it, for light and for dark pages."""
    return f"--h: {(40 + number * _GOLDEN_ANGLE) % 360:.0f}; --s: {number % 3}"


def _kinds(table: StudyTable) -> list[str]:
    """Returns the CSS class of each column."""
    columns = zip(*table.rows[:_MOST], strict=True)
    return [column_kind(name, cells) for name, cells in zip(table.columns, columns, strict=True)]


def _heads(grid: ClassGrid) -> list[_Head]:
    return [_Head(text, len(list(same))) for text, same in groupby(group for group, _ in grid.columns)]


def _groups(grid: ClassGrid) -> Iterator[list[GridRow]]:
    return (list(rows) for _, rows in groupby(grid.rows, lambda row: row.group))


def _ordered(tree: ClassTree) -> list[Leaf]:
    return [tree.leaves[i] for i in tree.tree.order]


def _tree_box(tree: ClassTree) -> str:
    """Returns the view box of a dendrogram: bits across, and leaves downwards. The first line is at half a leaf."""
    return f"0 -0.5 {tree.tree.mantissa + OVERHANG} {len(tree.leaves)}"


def _tree_path(tree: ClassTree) -> str:
    return "".join(f"M{x:g} {y:g}L{x2:g} {y2:g}" for x, y, x2, y2 in segments(tree.tree))


def _ticks(mantissa: int) -> list[dict[str, Any]]:
    """Returns the labels of an axis of bits, with their places in per cent."""
    step = _TICKS.get(mantissa, 5)
    shown = [*range(0, mantissa - step // 2, step), mantissa]
    return [{"bits": bits, "left": f"{100 * bits / (mantissa + OVERHANG):.2f}"} for bits in shown]
