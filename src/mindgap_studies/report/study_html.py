"""Writes the self-contained HTML page of a study: totals first, then each table with its query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Template
from markupsafe import Markup, escape

from mindgap.report.chart import bundle
from mindgap.report.page import heading
from mindgap.report.templates import styles, template_environment
from mindgap.report.words import MEANINGS, number
from mindgap.results.failure_rules import CAUSES, TYPES
from mindgap_studies import StudyTable, records
from mindgap_studies.gap import PUBLISHED, Published, Study
from mindgap_studies.gap.vocabulary import WORDS
from mindgap_studies.report.study_chart import chart_of, spaced

_HERE: Final = Path(__file__).parent

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
    """A formatted table. `zeros`: columns left out. `more`: rows left out."""

    table: StudyTable
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    zeros: tuple[str, ...]
    more: int
    kinds: tuple[str, ...]
    chart: dict[str, Any] | None
    published: Published | None


def study_page(study: Study) -> str:
    """Writes the page, one HTML document without external files."""
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
        css=styles("page.css", "study.css", folder=_HERE),
    )


def section_of(table: StudyTable, most: int = _MOST) -> Section:
    """Formats a table, with a limit of rows."""
    zeros = tuple(
        name
        for place, name in enumerate(table.columns)
        if table.rows and name in _SPARED and not any(row[place] for row in table.rows)
    )
    kept = [place for place, name in enumerate(table.columns) if name not in zeros]
    rows = tuple(tuple(row[place] for place in kept) for row in table.rows[:most])
    columns = tuple(table.columns[place] for place in kept)
    more = max(0, len(table.rows) - most)
    kinds = tuple(column_kind(name, [row[place] for row in rows]) for place, name in enumerate(columns))
    return Section(table, columns, rows, zeros, more, kinds, chart_of(table), PUBLISHED.get(table.name))


def column_kind(column: str, cells: Sequence[Any]) -> str:
    """Returns the CSS class of a column: numbers to the right, names as code, verdicts coloured."""
    if "share" in column or any(isinstance(cell, (int, float)) and not isinstance(cell, bool) for cell in cells):
        return "n"
    return "word" if column == "verdict" else "code" if column in _CODE else "text"


def _all(table: StudyTable, name: str) -> int:
    """Returns a count of the last row, which has the totals."""
    found = records(table)
    return found[-1][name] if found else 0


@cache
def _template() -> Template:
    functions: dict[str, Any] = {
        "cell": cell,
        "heading": heading,
        "is_total": is_total,
        "coded": coded,
        "meanings": MEANINGS,
        "spaced": spaced,
        "theirs": theirs,
    }
    return template_environment(functions, _HERE).get_template("study.html.j2")


def cell(column: str, value: Any) -> str:
    """Formats a cell: shares as per cent, ratios as times, missing values as a dash."""
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
    """Formats a share: `0.21 %`, `14.1 %`. Only an exact 0 gives `0 %`, only an exact 1 `100 %`."""
    if 0 < value < 0.0001:
        return "< 0.01 %"
    if 0.9999 < value < 1:
        return "> 99.99 %"
    return f"{100 * value:.2f}".rstrip("0").rstrip(".") + " %"


def theirs(value: Any) -> str:
    """Formats a published number: fractions as per cent."""
    if isinstance(value, float):
        return percent(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def coded(text: str) -> Markup:
    """Marks `names` in a text as code."""
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if odd % 2 else escape(part) for odd, part in enumerate(text.split("`"))
    )


def is_total(row: Sequence[Any]) -> bool:
    """Returns whether a row sums up others."""
    return "all" in row[:2]
