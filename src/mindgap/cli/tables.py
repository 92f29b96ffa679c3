"""Prints a report as text: the matrix, the findings, and warnings."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mindgap.platforms.name import PlatformName
from mindgap.report.words import METRICS, detail_line, fault_name, given_back, metric, short, weaker_evidence
from mindgap.workflows.diff import Report, Row

_STYLES: Final = {
    "identical": "dim",
    "rounding": "green",
    "ill_conditioned": "cyan",
    "undefined": "cyan",
    "internal": "cyan",
    "reduced_precision": "bold yellow",
    "unjudged": "yellow",
    "not_run": "yellow",
    "unsupported": "dim italic",
    "no_reference": "dim italic",
}
_FINDING: Final = "bold red"
_COLUMNS: Final = ("platform", "verdict", "culprit", "blame", *METRICS.values(), "what happened")
#: Columns of text when standard output is no terminal, which would otherwise count as 80.
_PLAIN_WIDTH: Final = 200


def console(out: TextIO) -> Console:
    """Makes a Rich console on a stream: as wide as the terminal, or wide enough for a log."""
    return Console(file=out, width=None if out.isatty() else _PLAIN_WIDTH)


def plain_table(*columns: str, title: str | None = None, right: Collection[str] = ()) -> Table:
    """Makes a table without borders. `right`: the columns that are aligned to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    for column in columns:
        if column in right:
            table.add_column(column, justify="right")
        else:
            table.add_column(column, overflow="fold")
    return table


def print_report(report: Report, out: TextIO) -> None:
    """Prints a line per platform for one model; a matrix and the findings for several; nothing without a model.

    What was refused, and why nothing was compared, is for standard error.
    """
    if not report.models:
        return
    page = console(out)
    if len(report.models) == 1:
        page.print(_one_model(report))
    else:
        page.print(_matrix(report))
        for number_, platform in enumerate(_platforms(report), 1):
            page.print(f"  [{number_}] {report.shown(platform)}", markup=False, highlight=False)
        if report.findings:
            page.print()
            page.print(_findings(report))
    for line in given_back(report.rows):
        page.print(Text(f"delegation: {line}", style="yellow"))
    if weak := weaker_evidence(report.rows):
        page.print(Text(weak, style="yellow"))
    page.print(totals_line(report), highlight=False)


def totals_line(report: Report) -> str:
    """Formats totals: `14 models × 8 platforms = 112 rows against cpu/eager: 3 discrepant, …; 2 findings (1 new)`."""
    totals = report.totals
    words = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in totals.words.items()) or "nothing"
    faults = f" with {totals.faults} faults" if totals.faults > totals.findings else ""
    known = f" ({totals.new_faults if faults else totals.new} new)" if totals.new_faults < totals.faults else ""
    refused = f"; {totals.refused} sources refused" if totals.refused else ""
    plural = "" if totals.findings == 1 else "s"
    return (
        f"{totals.models} × {totals.platforms} = {totals.rows} rows against {report.reference}: {words}; "
        f"{totals.findings} finding{plural}{faults}{known}{refused}"
    )


def _platforms(report: Report) -> list[PlatformName]:
    return list(dict.fromkeys(row.platform for row in report.rows))


def _word(row: Row | None) -> Text:
    if row is None:
        return Text("")
    style = _STYLES.get(row.word, _FINDING)
    return Text(short(row.word) + (" (known)" if row.known else ""), style=style)


def _matrix(report: Report) -> Table:
    cells = {(row.model, row.platform): row for row in report.rows}
    platforms = _platforms(report)
    table = plain_table("model", *(rf"\[{number}]" for number in range(1, len(platforms) + 1)))
    for model in report.models:
        table.add_row(model.name, *(_word(cells.get((model.name, platform))) for platform in platforms))
    return table


def _one_model(report: Report) -> Table:
    table = plain_table(*_COLUMNS, title=report.models[0].name)
    for row in report.rows:
        for cells in _lines(report, row):
            table.add_row(*cells)
    return table


def _findings(report: Report) -> Table:
    table = plain_table("model", *_COLUMNS, title="findings")
    for row in report.findings:
        for number, cells in enumerate(_lines(report, row)):
            table.add_row("" if number else row.model, *cells)
    return table


def _lines(report: Report, row: Row) -> list[tuple[str | Text, ...]]:
    """Formats a row, and a line below it for each fault beside the first."""
    first, *beside = row.by_fault
    return [_cells(report, first), *(("", *_cells(report, each)[1:]) for each in beside)]


def _cells(report: Report, row: Row) -> tuple[str | Text, ...]:
    return report.shown(row.platform), _word(row), _culprit(row), row.blame or "", *_figures(row), _happened(row)


def _culprit(row: Row) -> str:
    if row.culprit is None:
        return row.message.splitlines()[0][:100] if row.message else ""
    return fault_name(row.independent_faults[0]) if row.finding and row.culprit.node >= 0 else row.culprit.op


def _happened(row: Row) -> Text:
    """Formats one wrong element of a finding and the number of wrong elements; empty for failures."""
    return Text(detail_line(row) if row.finding and row.verdict not in ("failed", "reference_failed") else "")


def _figures(row: Row) -> list[str]:
    return [metric(row, name) if name in row.metrics else "" for name in METRICS]
