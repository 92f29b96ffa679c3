"""Implements `mindgap study deviations FILE…`, which makes tables and the page of collected files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from rich.table import Table as Grid
from rich.text import Text

from mindgap.cli.outputs import check_directory, write_file
from mindgap.cli.streams import Exit, result_stream
from mindgap.cli.tables import console, plain_table
from mindgap_studies.cli.table_files import write_tables

if TYPE_CHECKING:
    from mindgap_studies.table import StudyTable, StudyTables

#: Tables that are also printed, with the columns that a terminal has room for.
_PRINTED: Final = {
    "own_summary": ("subject", "platforms", "failed", "nondeterministic", "classes", "remaining_precision"),
    "own_options": ("option", "pairs", "changed", "share"),
    "own_table_sup9": ("model", "activation", "trained", "increase", "unaffected", "decrease"),
}
#: Experiments of the printed summary; the others have dozens of subjects.
_SHOWN: Final = ("models", "reduced", "casts", "operators")


def study_machines(files: Sequence[Path], out: Path | None, html: Path | None, *, as_json: bool) -> int:
    """Makes the tables and the page of collected files."""
    from mindgap import __version__
    from mindgap_studies.deviations.own import own_study
    from mindgap_studies.deviations.own.overview import own_overview
    from mindgap_studies.machines.merging import read_and_merge
    from mindgap_studies.report.deviations_page import deviations_page
    from mindgap_studies.report.own_charts import own_charts
    from mindgap_studies.table import tables_object

    if out is not None:
        check_directory("--out", out)
    merged = read_and_merge(files)
    found = own_study(merged)
    drawn = out is not None and any(len(column.platforms) > 1 for column in merged.of("models"))
    # Without models there are tables, and no page: that is an error only for who asked for one.
    page = own_overview(merged, found) if html is not None or drawn else None
    with result_stream() as stream:
        if out is not None:
            write_tables(out, found.tables)
            for name, svg in (own_charts(page) if page is not None else {}).items():
                write_file(out / f"{name}.svg", svg)
        if html is not None and page is not None:
            write_file(html, deviations_page(page, __version__))
        if as_json:
            stream.write(json.dumps({"tables": tables_object(found.tables)}, ensure_ascii=False) + "\n")
        else:
            _print(found, out, stream)
    return Exit.NOTHING_FOUND


def _print(found: StudyTables, out: Path | None, stream: TextIO) -> None:
    page = console(stream)
    for row in found.table("own_machines").rows:
        page.print(Text(f"{row[1]}, {row[3]} cores, {row[6]}: {row[7]} platforms"))
    for name, columns in _PRINTED.items():
        table = found.table(name)
        if not table.rows:
            continue
        page.print()
        page.print(Text(table.title, style="bold"))
        page.print(_grid(table, columns))
    page.print()
    if out is None:
        page.print(Text(f"{len(found.tables)} tables: --out DIR", style="dim"))
    else:
        page.print(Text(f"{len(found.tables)} tables are in {out}"))


def _grid(table: StudyTable, columns: Sequence[str]) -> Grid:
    grid = plain_table(*(name.replace("_", " ") for name in columns))
    experiment = table.columns.index("experiment") if "experiment" in table.columns else None
    for row in table.rows:
        if experiment is None or row[experiment] in _SHOWN:
            cells = (row[table.columns.index(name)] for name in columns)
            grid.add_row(*(f"{each:.3g}" if isinstance(each, float) else str(each) for each in cells))
    return grid
