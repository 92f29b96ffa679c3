"""Implements `mindgap study`, which prints the tables of a study of a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer
from rich.table import Table as Grid
from rich.text import Text

from mindgap.cli.outputs import check_directory, check_files, write_file
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.cli.tables import column_groups, console
from mindgap.results.store import Store
from mindgap_studies.cli.study_deviations import deviations
from mindgap_studies.cli.study_portability import portability
from mindgap_studies.cli.study_speed import speed
from mindgap_studies.cli.study_task import task
from mindgap_studies.cli.table_files import write_tables

if TYPE_CHECKING:
    from mindgap_studies.gap import Study
    from mindgap_studies.report.study_html import Section

study = typer.Typer(no_args_is_help=True, help="The tables and figures of a published study, from one's own runs.")
study.command()(deviations)
study.command()(speed)
study.command()(task)
study.command()(portability)
#: Rows of a table on a terminal.
_MOST: Final = 25
#: Columns that a platform's name or an operator's gets at least.
_NARROWEST: Final = 20


@study.command()
def gap(
    store: Annotated[str, typer.Argument(metavar="STORE", help="What `diff --store` or a campaign wrote.")],
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Which run (default: the latest that fits).")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the self-contained page.")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write a CSV file for each table.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All tables as JSON on standard output.")] = False,
) -> int:
    """Run the study of "Mind the Gap": failures by cause, consistency, compiled against eager, coverage, findings.

    Example: mindgap study gap out/store --html study.html --csv study
    """
    from mindgap_studies.gap import gap as asked, to_json
    from mindgap_studies.report.study_html import study_page

    check_files(("--html", html))
    if csv is not None:
        check_directory("--csv", csv)
    found = asked(Store(store, create=False), run)
    with result_stream() as out:
        if html is not None:
            write_file(html, study_page(found))
        if csv is not None:
            write_tables(csv, found.tables)
        if as_json:
            out.write(to_json(found) + "\n")
        else:
            _print(found, out)
    return _said_loudly(found)


def _said_loudly(found: Study) -> Exit:
    """Prints warnings on standard error. Returns the exit status."""
    finished = found.seconds is not None
    if not finished:
        complain(f"run {found.run} has not come to its end: these are the figures of what it had written")
    for check in found.wrong:
        complain(f"totals do not agree: {check.what}: {check.left} and {check.right}")
    if not found.table("totals").rows:
        complain(f"NOTHING WAS COMPARED: no platform besides {found.reference} has a row in run {found.run}")
    # While a run is written, two queries may see two states of it.
    return Exit.TOOL_FAILED if found.wrong and finished else Exit.NOTHING_FOUND


def _print(found: Study, out: TextIO) -> None:
    from mindgap_studies.report.study_html import section_of

    page = console(out)
    page.print(Text(f"{found.run} against {found.reference}, {found.created}"))
    for table in found.tables:
        section = section_of(table, _MOST)
        page.print()
        page.print(Text(table.title, style="bold"))
        if section.rows:
            for part in table_parts(section, page.width):
                page.print(part)
            if section.more:
                page.print(Text(f"… and {section.more} more rows (--csv DIR)", style="dim"))
        else:
            page.print(Text(f"no rows: {table.empty}", style="bold"))
    agree = len(found.checks) - len(found.wrong)
    page.print()
    page.print(Text(f"{agree} of {len(found.checks)} totals agree"))


def table_parts(section: Section, width: int) -> list[Grid]:
    """The table, or where its figures are wider than the terminal several, with the names of its rows in each."""
    from mindgap_studies.report.study_chart import spaced
    from mindgap_studies.report.study_html import cell

    names = [spaced(column) for column in section.columns]
    cells = [[cell(column, row[n]) for row in section.rows] for n, column in enumerate(section.columns)]
    codes = [kind == "code" for kind in section.kinds]
    longest = [max(_NARROWEST * code, *map(len, column)) for code, column in zip(codes, cells, strict=True)]
    if sum(map(max, longest, map(len, names))) + 2 * len(names) <= width:
        return [_grid(section, names, cells, range(len(names)), {})]
    least = [_NARROWEST if code else n for code, n in zip(codes, longest, strict=True)]
    needed = [max(n, *map(len, name.split())) for n, name in zip(least, names, strict=True)]
    first = section.kinds.index("n") if "n" in section.kinds else 0
    room = width - sum(needed[:first]) - 2 * first
    figures = {n: needed[n] for n, kind in enumerate(section.kinds) if kind == "n"}
    groups = column_groups(needed[first:], room)
    return [_grid(section, names, cells, [*range(first), *(first + n for n in group)], figures) for group in groups]


def _grid(
    section: Section, names: Sequence[str], cells: Sequence[Sequence[str]], columns: Sequence[int],
    widths: Mapping[int, int],
) -> Grid:  # fmt: skip
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for n in columns:
        kind = section.kinds[n]
        grid.add_column(names[n], justify="right" if kind == "n" else "left", overflow="fold", width=widths.get(n),
                        no_wrap=kind == "text", min_width=_NARROWEST if kind == "code" else None)  # fmt: skip
    for row in zip(*(cells[n] for n in columns), strict=True):
        grid.add_row(*map(Text, row))
    return grid
