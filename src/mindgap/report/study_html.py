"""Writes the self-contained HTML page of a study: totals first, then each table with its query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from mindgap.report.chart import bundle
from mindgap.report.page import heading
from mindgap.report.study_chart import chart_of, spaced
from mindgap.report.words import MEANINGS, number
from mindgap.studies import StudyTable, records
from mindgap.studies.gap import PUBLISHED, Published, Study
from mindgap.studies.gap.causes import CAUSES, TYPES
from mindgap.studies.gap.vocabulary import WORDS

_HERE = Path(__file__).parent
#: Rows of a table that the page shows; all are in its CSV file.
_MOST: Final = 60
#: Columns of names and of platforms' own words.
_CODE: Final = frozenset(
    ("platform", "platforms", "eager", "signature", "reason", "culprit", "operator", "example", "class")
)
#: A column of these that holds zeros alone is named below its table and not drawn.
_SPARED: Final = frozenset((*WORDS, *CAUSES, *TYPES))


@dataclass(frozen=True, slots=True)
class Section:
    """A table as it is drawn. `zeros`: columns that were left out; `more`: rows that were."""

    table: StudyTable
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    zeros: tuple[str, ...]
    more: int
    kinds: tuple[str, ...]
    chart: dict[str, Any] | None
    published: Published | None


def study_page(study: Study) -> str:
    """The page, one HTML document with everything inside."""
    sections = [section_of(table) for table in study.tables]
    totals = records(study.table("totals"))
    return _template().render(
        study=study,
        sections=sections,
        whole=totals[-1] if totals else dict.fromkeys(study.table("totals").columns, 0),
        words=WORDS,
        models=_all(study.table("makeup"), "models"),
        outcomes=_all(study.table("failures"), "outcomes"),
        failed=_all(study.table("failures"), "failed"),
        causes=len({(row["verdict"], row["culprit"], row["blame"]) for row in records(study.table("findings"))}),
        bundle=Markup(bundle()) if any(section.chart for section in sections) else "",
        css=Markup("".join((_HERE / name).read_text(encoding="utf-8") for name in ("page.css", "study.css"))),
    )


def section_of(table: StudyTable, most: int = _MOST) -> Section:
    """A table as it is drawn, of at most so many rows."""
    zeros = tuple(
        name
        for place, name in enumerate(table.columns)
        if table.rows and name in _SPARED and not any(row[place] for row in table.rows)
    )
    kept = [place for place, name in enumerate(table.columns) if name not in zeros]
    rows = tuple(tuple(row[place] for place in kept) for row in table.rows[:most])
    columns = tuple(table.columns[place] for place in kept)
    more = max(0, len(table.rows) - most)
    kinds = tuple(_kind(name, [row[place] for row in rows]) for place, name in enumerate(columns))
    return Section(table, columns, rows, zeros, more, kinds, chart_of(table), PUBLISHED.get(table.name))


def _kind(column: str, cells: Sequence[Any]) -> str:
    """The class of a column's cells: figures to the right, names as code, verdicts coloured, other words whole."""
    if "share" in column or any(isinstance(cell, (int, float)) and not isinstance(cell, bool) for cell in cells):
        return "n"
    return "word" if column == "verdict" else "code" if column in _CODE else "text"


def _all(table: StudyTable, name: str) -> int:
    """A count of the last row, which is of everything."""
    found = records(table)
    return found[-1][name] if found else 0


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    functions: dict[str, Any] = {
        "cell": cell,
        "heading": heading,
        "is_total": is_total,
        "coded": coded,
        "meanings": MEANINGS,
        "spaced": spaced,
        "theirs": theirs,
    }
    environment.globals.update(functions)
    return environment.get_template("study.html.j2")


def cell(column: str, value: Any) -> str:
    """A cell as text: shares as per cent, ratios as times, what is not there as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if "share" in column and isinstance(value, (int, float)):
        return percent(value)
    if column.endswith("slowdown"):
        return f"{value:.3g}×"
    if column.endswith("seconds"):
        return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 or value.is_integer() else number(value)
    return spaced(str(value)) if column in ("cause", "status", "kind") else str(value)


def percent(value: float) -> str:
    """`0.21 %`, `14.1 %`, `100 %`; something is never shown as nothing, nor nearly all as all."""
    if 0 < value < 0.0001:
        return "< 0.01 %"
    if 0.9999 < value < 1:
        return "> 99.99 %"
    return f"{100 * value:.2f}".rstrip("0").rstrip(".") + " %"


def theirs(value: Any) -> str:
    """A published figure: fractions as per cent."""
    if isinstance(value, float):
        return percent(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def coded(text: str) -> Markup:
    """Text in which `names` stand as code."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if odd % 2 else escape(part) for odd, part in enumerate(text.split("`"))
    )


def is_total(row: Sequence[Any]) -> bool:
    """Whether a row sums up others."""
    return "all" in row[:2]
