"""Implements `mindgap study deviations`: the study of numerical deviations over many platforms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer
from rich.text import Text

from mindgap.cli.diff import Options
from mindgap.cli.outputs import check_directory, check_files, write_file
from mindgap.cli.streams import Exit, result_stream
from mindgap.cli.tables import console, plain_table
from mindgap.graph import MindgapError
from mindgap_studies.cli.table_files import write_tables

if TYPE_CHECKING:
    from mindgap_studies.deviations.published import PublishedStudy


def deviations(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE|SOURCE]...",
            help="What --collect wrote, of one machine or several. With --collect: the models, as for mindgap diff.",
        ),
    ] = None,
    published: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The paper's published results, as Parquet files.")
    ] = None,
    collect: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Run models on platforms of this machine; write what they compute."),
    ] = None,
    platforms: Annotated[
        list[str] | None,
        typer.Option(
            "-p",
            "--platform",
            metavar="PLATFORM",
            help="With --collect: DEVICE/MODE[@key=value,…]; may repeat. Default: 60 settings of cpu/eager.",
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="With --collect SOURCE…: inputs of each model (default: 1).")
    ] = None,
    probes: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="With --collect: graphs that a compiler may compile to show a model's inner values (default: 12).",
        ),
    ] = None,
    options: Options = None,
    quick: Annotated[bool, typer.Option("--quick", help="With --collect: fewer models and settings.")] = False,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --collect: begin no further setting after this time (20m).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write a CSV file for each table, and the figures as SVG.")
    ] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the self-contained page.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All tables as JSON on standard output.")] = False,
) -> int:
    """Count different answers over platforms, how far apart they are, and what they go with.

    Example: mindgap study deviations --published deviations --html study.html

    Example: mindgap study deviations --collect here.json.zst && mindgap study deviations here.json.zst --html my.html

    Example: mindgap study deviations --collect my.json.zst model.py:make -p cpu/eager -p onnxruntime/cpu --samples 3
    """
    from mindgap_studies.cli.study_collection import Collection, collect_machine
    from mindgap_studies.cli.study_machines import study_machines

    if (published is None and collect is None and not files) or (published is not None and (collect or files)):
        raise MindgapError("mindgap study deviations: give one of --published DIR, --collect FILE, FILE…")
    if collect is None:
        given = {"-p": platforms, "--samples": samples, "--probes": probes, "--set": options}
        given |= {"--quick": quick or None, "--budget": budget}
        if named := [name for name, value in given.items() if value is not None]:
            raise MindgapError(f"{' and '.join(named)}: for --collect only")
    if collect is not None:
        if out is not None or html is not None or as_json:
            raise MindgapError("--collect FILE makes no tables: leave out --out, --html and --json, then give FILE")
        wanted = Collection(
            collect, tuple(files or ()), tuple(platforms or ()), tuple(options or ()), samples, probes, quick, budget
        )
        return collect_machine(wanted)
    check_files(("--html", html))
    if out is not None:
        check_directory("--out", out)
    if files:
        return study_machines([Path(each) for each in files], out, html, as_json=as_json)
    assert published is not None
    return _published(published, out, html, as_json=as_json)


def _published(directory: Path, out: Path | None, html: Path | None, *, as_json: bool) -> int:
    from mindgap_studies.deviations.published import published_study
    from mindgap_studies.table import tables_object

    found = published_study(directory)
    with result_stream() as stream:
        if out is not None:
            from mindgap_studies.report.deviation_charts import published_charts

            write_tables(out, found.tables)
            for name, svg in published_charts(found).items():
                write_file(out / f"{name}.svg", svg)
        if html is not None:
            from mindgap import __version__
            from mindgap_studies.deviations.published.overview import published_overview
            from mindgap_studies.report.deviations_page import deviations_page

            write_file(html, deviations_page(published_overview(found), __version__))
        if as_json:
            stream.write(
                json.dumps({"tables": tables_object(found.tables)}, ensure_ascii=False, allow_nan=False) + "\n"
            )
        else:
            _print(found, out, stream)
    return Exit.NOTHING_FOUND


def _print(found: PublishedStudy, out: Path | None, stream: TextIO) -> None:
    page = console(stream)
    grid = plain_table("statement", "paper", "data", "", "remark")
    grid.columns[3].no_wrap = True
    for each in found.claims:
        verdict = Text("agrees") if each.agrees else Text("DISAGREES", style="bold")
        grid.add_row(*map(Text, (each.claim, each.paper, each.data)), verdict, Text(each.remark, style="dim"))
    page.print(grid)
    page.print()
    differ = found.table("disagreements").rows
    page.print(Text(f"cells of the printed tables in which the data differ: {len(differ)}", style="bold"))
    page.print(Text(found.table("disagreements").note, style="dim"))
    for table, row, column, was, now, _ in differ:
        page.print(Text(f"  {table}, row {row}, {column}: printed {was}, computed {now}"))
    apart = len(found.table("other_inputs").rows)
    page.print(Text(f"cells whose platform evidently saw another input: {apart} of {len(found.table('classes').rows)}"))
    if out is None:
        page.print(Text("the tables and figures: --out DIR", style="dim"))
    else:
        page.print(Text(f"{len(found.tables)} tables and the figures are in {out}"))
