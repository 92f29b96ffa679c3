"""Defines what a study or a survey shows, and writes it as one HTML page without external files.

A page has a title, figures and sections; a section has texts, tables, charts and folded parts. `study_text` prints the
same page on a terminal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from jinja2 import Template
from markupsafe import Markup, escape

from mindgap.report.templates import styles, template_environment
from mindgap_surveys.table import StudyTable

_HERE: Final = Path(__file__).parent
#: Rows of a table that the page shows; a CSV file has all.
MOST: Final = 250
#: Columns of names and of platforms' own words.
_CODE: Final = frozenset(
    ("platform", "platforms", "eager", "signature", "reason", "culprit", "operator", "example", "class", "function")
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of which more is shown than its text. `style`: CSS classes. `hint`: the text of a tooltip. `hue`: a number
    whose colour the cell has. `picture`: a `data:` address."""

    text: str
    style: str = ""
    hint: str = ""
    hue: int | None = None
    picture: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; `code` between backquotes is marked. `loud`: a warning."""

    text: str
    kind: Literal["note", "loud", "loud calm", "code"] = "note"


@dataclass(frozen=True, slots=True)
class Chart:
    """A drawing. `svg`: makes it."""

    svg: Callable[[], str]


@dataclass(frozen=True, slots=True)
class Markings:
    """HTML that the page's script acts on."""

    html: str


@dataclass(frozen=True, slots=True)
class Folded:
    """A part that a reader opens. `shown`: it is open, and framed: what others published."""

    title: str
    blocks: tuple[Text | StudyTable | Chart, ...]
    shown: bool = False
    name: str = ""


Block = Text | StudyTable | Chart | Markings | Folded


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page with a heading. `where`: `page` and `text` stand there alone."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    where: Literal["both", "page", "text"] = "both"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that answers a question, what it counts, and where it is reached."""

    number: int
    what: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StudyPage:
    """What a study shows. `lead`: paragraphs below the title. `spared`: columns that are left out, and named, where all
    rows have 0. `meanings`: of columns, for tooltips. `script`: without it, the page runs none."""

    title: str
    lead: tuple[Text, ...]
    sections: tuple[Section, ...]
    figures: tuple[Figure, ...] = ()
    spared: frozenset[str] = frozenset()
    meanings: Mapping[str, str] = field(default_factory=dict[str, str])
    more_styles: str = ""
    script: str = ""


@dataclass(frozen=True, slots=True)
class TableView:
    """A table as it is shown. `kinds`: of the columns: n, code, word or text. `zeros`: columns that are left out.
    `more`: rows that are left out."""

    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    totals: tuple[bool, ...]
    zeros: tuple[str, ...]
    more: int


def study_page(page: StudyPage) -> str:
    sections = [each for each in page.sections if each.where != "text"]
    css = styles("page.css", "study_page.css", folder=_HERE) + Markup(page.more_styles)
    return _template().render(page=page, sections=sections, css=css)


def view_of(table: StudyTable, most: int = MOST, spared: frozenset[str] = frozenset()) -> TableView:
    """Formats a table, with a limit of rows."""
    zeros = tuple(
        name
        for place, name in enumerate(table.columns)
        if table.rows and name in spared and not any(row[place] for row in table.rows)
    )
    kept = [place for place, name in enumerate(table.columns) if name not in zeros]
    columns = tuple(table.columns[place] for place in kept)
    given = [[row[place] for place in kept] for row in table.rows[:most]]
    kinds = tuple(column_kind(name, [row[place] for row in given]) for place, name in enumerate(columns))
    rows = tuple(tuple(map(_cell, columns, kinds, row)) for row in given)
    totals = tuple("all" in row[:2] for row in given)
    return TableView(columns, kinds, rows, totals, zeros, max(0, len(table.rows) - most))


def column_kind(column: str, cells: Sequence[Any]) -> str:
    """Returns the kind of a column: numbers to the right (n), names as code, verdicts coloured (word), text."""
    if "share" in column or any(map(_is_number, cells)):
        return "n"
    return "word" if column == "verdict" else "code" if column in _CODE else "text"


def _is_number(cell: Any) -> bool:
    if isinstance(cell, Cell):
        return cell.style.split()[:1] == ["n"]
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def _cell(column: str, kind: str, value: Any) -> Cell:
    if isinstance(value, Cell):
        return value
    text = cell_text(column, value)
    if kind == "word":
        return Cell(spaced(text), f"w-{value}")
    return Cell(text, f"{kind} none" if kind == "n" and not value else kind)


def cell_text(column: str, value: Any) -> str:
    """Formats a cell: shares as per cent, ratios as times, missing values as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if "share" in column and isinstance(value, (int, float)):
        return percent(value)
    if column.endswith("slowdown") and isinstance(value, (int, float)):
        return times(value)
    if column.endswith("seconds") and isinstance(value, (int, float)):
        return f"{value * 1000:.3g} ms" if abs(value) < 1 else f"{value:.3g} s"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 or value.is_integer() else f"{value:.3g}"
    return spaced(str(value)) if column in ("cause", "status", "kind") else str(value)


def times(ratio: float) -> str:
    """Formats a ratio with three digits: `0.046×`, `12.3×`, `1,410×`."""
    if math.isinf(ratio):
        return "∞"
    return f"{ratio:,.0f}×" if ratio >= 100 else f"{ratio:.3g}×"


def percent(value: float) -> str:
    """Formats a share: `0.21 %`, `14.1 %`. Only an exact 0 gives `0 %`, only an exact 1 `100 %`."""
    if 0 < value < 0.0001:
        return "< 0.01 %"
    if 0.9999 < value < 1:
        return "> 99.99 %"
    return f"{100 * value:.2f}".rstrip("0").rstrip(".") + " %"


def spaced(name: str) -> str:
    """Formats a column's name for people."""
    return name.replace("_", " ")


def coded(text: str) -> Markup:
    """Marks `names` in a text as code."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if odd % 2 else escape(part) for odd, part in enumerate(text.split("`"))
    )


def _shade(hue: int) -> str:
    """Returns the hue and the shade of a number. Style sheets make a colour of it, for light and for dark pages. By
    the golden angle, any number of successive hues stay apart."""
    return f"--h: {(40 + hue * 137.508) % 360:.0f}; --s: {hue % 3}"


@cache
def _template() -> Template:
    def kind_of(block: Block) -> str:
        return type(block).__name__

    functions: dict[str, Any] = {
        "coded": coded, "kind_of": kind_of, "shade": _shade, "spaced": spaced, "view_of": view_of,
    }  # fmt: skip
    return template_environment(functions, _HERE).get_template("study_page.html.j2")
