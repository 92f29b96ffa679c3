"""Implements `mindgap diff`, which runs models on platforms and compares them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TextIO

import typer

from mindgap.baseline import Baseline
from mindgap.cli.progress import progress
from mindgap.cli.report import write_file
from mindgap.cli.sources import subjects
from mindgap.cli.status import status_of
from mindgap.cli.streams import complain, result_stream
from mindgap.cli.tables import print_report
from mindgap.diff import Report, RunSettings, diff_many
from mindgap.graph import MindgapError, default_tensor_store
from mindgap.store import Store

#: Options that other commands of this kind take too.
Options = Annotated[
    list[str] | None, typer.Option("--set", metavar="OPTION=VALUE", help="Of the sources: size=64, batch=2, …")
]
AsJson = Annotated[bool, typer.Option("--json", help="The report as JSON on standard output.")]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the self-contained page.")]
Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write JUnit XML.")]
Deadline = Annotated[float, typer.Option(metavar="SECONDS", help="For one graph on one platform.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Workers that work at once (default: one per core).")]


def diff(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE…", help="FILE.py:callable, package.module:callable, timm:NAME, graph:FILE, …"),
    ],
    platforms: Annotated[
        list[str], typer.Option("-p", "--platform", metavar="PLATFORM", help="DEVICE/MODE[@key=value,…]; may repeat.")
    ],
    reference: Annotated[
        str, typer.Option(metavar="PLATFORM", help="What the others are compared with.")
    ] = "cpu/eager",
    options: Options = None,
    backward: Annotated[
        bool, typer.Option("--backward", help="Forward and backward: kernels-level graphs with gradients as outputs.")
    ] = False,
    as_json: AsJson = False,
    html: Html = None,
    junit: Junit = None,
    store: Annotated[
        str | None, typer.Option(metavar="DIR", help="Also write what is found into a store, as it is found.")
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Fail on findings that it does not hold.")
    ] = None,
    update_baseline: Annotated[bool, typer.Option("--update-baseline", help="Write the findings to it.")] = False,
    require_support: Annotated[bool, typer.Option("--require-support", help="`unsupported` counts as found.")] = False,
    no_trace: Annotated[bool, typer.Option("--no-trace", help="Do not follow differences from node to node.")] = False,
    internal: Annotated[
        bool, typer.Option("--internal", help="Judge results that no public function returns like any other.")
    ] = False,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each graph on each platform.")] = 2,
    deadline: Deadline = 300.0,
    jobs: Jobs = None,
) -> int:
    """Run models on platforms and say where they behave differently, and which operator does it.

    Example: mindgap diff model.py:make -p onnxruntime/cpu -p cpu/inductor --html page.html
    """
    if update_baseline and baseline is None:
        raise MindgapError("--update-baseline needs --baseline FILE, the file to write")
    settings = RunSettings(reference, not no_trace, repeat, seconds(deadline), internal)
    known = Baseline.load(baseline) if baseline and not (update_baseline and not baseline.exists()) else Baseline()
    kept = None if store is None else Store(store)
    with result_stream() as out:
        tensors = default_tensor_store()
        with progress() as tell:
            found = subjects(sources, options or [], tensors, backward)
            report = diff_many(
                found, platforms, settings=settings, progress=tell, tensors=tensors, jobs=jobs, store=kept
            )
        for gone in known.gone(report):
            complain(f"no longer found, and still in the baseline: {gone.model} on {gone.platform}: {gone.verdict}")
        if baseline and update_baseline:
            known = known.updated(report)
            write_file(baseline, known.text())
        report = known.mark(report)
        put_out(report, out, as_json, html, junit)
    say_loudly(report)
    return status_of(report, require_support=require_support)


def put_out(report: Report, out: TextIO, as_json: bool, html: Path | None, junit: Path | None) -> None:
    """Writes the report: the requested files, then JSON or a table."""
    write_pages(report, html, junit)
    if as_json:
        out.write(report.to_json() + "\n")
    else:
        print_report(report, out)


def seconds(deadline: float) -> float:
    """Parses a deadline. Raises `MindgapError` for an invalid one."""
    if deadline <= 0:
        raise MindgapError(f"--deadline {deadline:g}: it takes seconds, more than 0")
    return deadline


def write_pages(report: Report, html: Path | None, junit: Path | None) -> None:
    """Writes the requested HTML and JUnit files."""
    from mindgap.report import html_page, junit_xml

    if html is not None:
        write_file(html, html_page(report))
    if junit is not None:
        write_file(junit, junit_xml(report))


def say_loudly(report: Report) -> None:
    """Prints warnings about a report on standard error."""
    for refused in report.refused:
        complain(f"refused: {refused.source}: {refused.reason}")
    for row in report.rows:
        if row.broken:
            complain(f"not judged, mindgap failed: {row.model} on {row.platform}: {row.broken.splitlines()[-1]}")
    if report.nothing:
        complain(f"NOTHING WAS COMPARED: {report.nothing}")
    elif unsupported := report.totals.words.get("unsupported", 0):
        complain(f"{unsupported} of {len(report.rows)} rows are unsupported: nothing is known of them")
