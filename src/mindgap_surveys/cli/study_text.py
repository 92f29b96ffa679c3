"""Prints the page of a study on a terminal, and writes it with its tables as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text as Line

from mindgap.cli.outputs import check_directory, check_files, make_directory, write_file
from mindgap.cli.tables import column_groups, console, cut
from mindgap_surveys.report.study_page import Chart, StudyPage, TableView, Text, spaced, study_page, view_of
from mindgap_surveys.table import StudyTable, tables_object, to_csv

#: Rows of a table on a terminal.
_MOST: Final = 25
#: Characters of a cell on a terminal.
_LONGEST: Final = 200
#: Columns that a platform's name or an operator's gets at least, and those after which a text may go on below.
_NARROWEST: Final = 20
_WIDEST: Final = 40

Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Also write the self-contained page.")]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="DIR", help="Also write a CSV file for each table.")]
AsJson = Annotated[bool, typer.Option("--json", help="All tables as JSON on standard output.")]


@dataclass(frozen=True, slots=True)
class StudyFiles:
    """Where a study is written: a page, a folder of CSV files, JSON in place of the text. `folder`: the option of the
    folder."""

    html: Path | None = None
    csv: Path | None = None
    as_json: bool = False
    folder: str = "--csv"

    def check(self) -> None:
        """Raises `MindgapError` for a path that cannot be written, before anything runs."""
        check_files(("--html", self.html))
        if self.csv is not None:
            check_directory(self.folder, self.csv)

    def write(
        self, page: Callable[[], StudyPage], tables: Iterable[StudyTable],
        document: Callable[[], Mapping[str, Any]] | None, out: TextIO, *, text: Callable[[], StudyPage] | None = None,
        charts: Callable[[], Mapping[str, Chart]] = dict[str, Chart],
    ) -> None:  # fmt: skip
        """Writes the files, and prints JSON or the page. `document`: what JSON has, by default the tables. `text`: the
        page that is printed, where it is another. `charts`: are written as SVG beside the CSV files."""
        if self.csv is not None:
            make_directory(self.csv)
            for table in tables:
                write_file(self.csv / f"{table.name}.csv", to_csv(table))
            for name, drawn in charts().items():
                write_file(self.csv / f"{name}.svg", drawn.svg())
        if self.html is not None:
            write_file(self.html, study_page(page()))
        write_result(text or page, document or (lambda: {"tables": tables_object(tables)}), self.as_json, out)


def write_result(page: Callable[[], StudyPage], document: Callable[[], Any], as_json: bool, out: TextIO) -> None:
    if as_json:
        out.write(json.dumps(document(), indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        print_page(page(), out)


def print_page(page: StudyPage, out: TextIO, most: int = _MOST) -> None:
    """Prints title, texts and tables. `most`: rows of each table."""
    screen = console(out)
    screen.print(Line(page.title, style="bold"))
    for text in page.lead:
        _print_text(text, screen)
    for section in (each for each in page.sections if each.where != "page"):
        screen.print()
        screen.print(Line(section.title, style="bold"))
        for block in section.blocks:
            if isinstance(block, Text):
                _print_text(block, screen)
            elif isinstance(block, StudyTable):
                _print_table(block, page, section.title, screen, most)


def _print_text(text: Text, screen: Console) -> None:
    if text.kind == "note":
        screen.print(Line(text.text.replace("`", "")))


def _print_table(table: StudyTable, page: StudyPage, heading: str, screen: Console, most: int) -> None:
    if table.title not in ("", heading):
        screen.print(Line(table.title, style="italic"))
    view = view_of(table, most, page.spared)
    for part in table_parts(view, screen.width) if view.rows else ():
        screen.print(part)
    if not view.rows:
        screen.print(Line(f"no rows: {table.empty}".removesuffix(": ")))
    elif view.more:
        screen.print(Line(f"… and {view.more} more rows (--html, --csv, --json)", style="dim"))


def table_parts(view: TableView, width: int) -> list[Table]:
    """The table, or where its figures are wider than the terminal several, with the names of its rows in each."""
    names = [spaced(column) for column in view.columns]
    cells = [[cut(row[n].text, _LONGEST) for row in view.rows] for n in range(len(names))]
    longest = [max(map(len, column)) for column in cells]
    least = [
        length if kind == "n" else min(length, _NARROWEST if kind == "code" else _WIDEST)
        for kind, length in zip(view.kinds, longest, strict=True)
    ]
    needed = [max(n, *map(len, name.split())) for n, name in zip(least, names, strict=True)]
    figures = {n: needed[n] for n, kind in enumerate(view.kinds) if kind == "n"}
    if sum(map(max, longest, map(len, names))) + 2 * len(names) <= width:
        return [_grid(view, names, cells, range(len(names)), {})]
    if not figures or sum(needed) + 2 * len(names) <= width:
        return [_grid(view, names, cells, range(len(names)), figures)]
    first = view.kinds.index("n")
    groups = column_groups(needed[first:], width - sum(needed[:first]) - 2 * first)
    return [_grid(view, names, cells, [*range(first), *(first + n for n in group)], figures) for group in groups]


def _grid(
    view: TableView, names: Sequence[str], cells: Sequence[Sequence[str]], columns: Sequence[int],
    widths: Mapping[int, int],
) -> Table:  # fmt: skip
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for n in columns:
        kind = view.kinds[n]
        grid.add_column(names[n], justify="right" if kind == "n" else "left", overflow="fold", width=widths.get(n),
                        min_width=_NARROWEST if kind == "code" else None)  # fmt: skip
    for row in zip(*(cells[n] for n in columns), strict=True):
        grid.add_row(*map(Line, row))
    return grid
