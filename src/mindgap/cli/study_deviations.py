"""Implements `mindgap study deviations`: the study of numerical deviations over many platforms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer
from rich.table import Table as Grid
from rich.text import Text

from mindgap.cli.outputs import check_directory, make_directory, write_file
from mindgap.cli.status import Exit
from mindgap.cli.streams import result_stream
from mindgap.cli.tables import console
from mindgap.graph import MindgapError

if TYPE_CHECKING:
    from mindgap.studies.deviations.published import PublishedStudy


def deviations(
    published: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The paper's published results, as Parquet files.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write a CSV file for each table, and the figures as SVG.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All tables as JSON on standard output.")] = False,
) -> int:
    """Count different answers over platforms, how far apart they are, and what they go with.

    Example: mindgap study deviations --published deviations --out study
    """
    if out is not None:
        check_directory("--out", out)
    if published is None:
        raise MindgapError("mindgap study deviations: nothing to do; give --published DIR")
    return _published(published, out, as_json=as_json)


def _published(directory: Path, out: Path | None, *, as_json: bool) -> int:
    from mindgap.studies.deviations.published import published_study, to_json

    found = published_study(directory)
    with result_stream() as stream:
        if out is not None:
            _write(found, out)
        if as_json:
            stream.write(to_json(found) + "\n")
        else:
            _print(found, out, stream)
    return Exit.NOTHING_FOUND


def _write(found: PublishedStudy, out: Path) -> None:
    from mindgap.report.deviation_charts import published_charts
    from mindgap.studies import to_csv

    make_directory(out)
    for table in found.tables:
        write_file(out / f"{table.name}.csv", to_csv(table))
    for name, svg in published_charts(found).items():
        write_file(out / f"{name}.svg", svg)


def _print(found: PublishedStudy, out: Path | None, stream: TextIO) -> None:
    page = console(stream)
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    grid.add_column("statement", overflow="fold")
    for name in ("paper", "data", ""):
        grid.add_column(name, no_wrap=name == "")
    grid.add_column("remark", overflow="fold")
    for each in found.claims:
        verdict = Text("agrees") if each.agrees else Text("DISAGREES", style="bold")
        grid.add_row(*map(Text, (each.claim, each.paper, each.data)), verdict, Text(each.remark, style="dim"))
    page.print(grid)
    page.print()
    differ = found.table("disagreements").rows
    page.print(Text(f"cells of the printed tables in which the data differ: {len(differ)}", style="bold"))
    for table, row, column, was, now, _ in differ:
        page.print(Text(f"  {table}, row {row}, {column}: printed {was}, computed {now}"))
    apart = len(found.table("other_inputs").rows)
    page.print(Text(f"cells whose platform evidently saw another input: {apart} of {len(found.table('classes').rows)}"))
    if out is None:
        page.print(Text("the tables and figures: --out DIR", style="dim"))
    else:
        page.print(Text(f"{len(found.tables)} tables and the figures are in {out}"))
