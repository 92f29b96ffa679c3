"""Implements `mindgap study deviations`: the study of numerical deviations over many platforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindgap.cli.diff import Options
from mindgap.cli.streams import Exit, result_stream
from mindgap.graph import MindgapError
from mindgap_surveys.cli.study_text import AsJson, Html, StudyFiles

if TYPE_CHECKING:
    from mindgap_studies.deviations.overview import Overview
    from mindgap_surveys.report.study_page import StudyPage
    from mindgap_surveys.table import StudyTable


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
    html: Html = None,
    as_json: AsJson = False,
) -> int:
    """Count different answers over platforms, how far apart they are, and what they go with.

    Example: mindgap study deviations --published deviations --html study.html

    Example: mindgap study deviations --collect here.json.zst && mindgap study deviations here.json.zst --html my.html

    Example: mindgap study deviations --collect my.json.zst model.py:make -p cpu/eager -p onnxruntime/cpu --samples 3
    """
    from mindgap_studies.cli.study_collection import collect_machine

    if (published is None and collect is None and not files) or (published is not None and (collect or files)):
        raise MindgapError("mindgap study deviations: give one of --published DIR, --collect FILE, FILE…")
    given = {"-p": platforms, "--samples": samples, "--probes": probes, "--set": options}
    given |= {"--quick": quick or None, "--budget": budget}
    if collect is None and (named := [name for name, value in given.items() if value is not None]):
        raise MindgapError(f"{' and '.join(named)}: for --collect only")
    if collect is not None:
        if out is not None or html is not None or as_json:
            raise MindgapError("--collect FILE makes no tables: leave out --out, --html and --json, then give FILE")
        return collect_machine(collect, files or (), platforms or (), options or (), samples, probes, quick, budget)
    outputs = StudyFiles(html, out, as_json, "--out")
    outputs.check()
    if published is None:
        return _study_machines([Path(each) for each in files or ()], outputs)
    return _study_published(published, outputs)


def _study_published(directory: Path, files: StudyFiles) -> int:
    from mindgap_studies.deviations.published import published_study
    from mindgap_studies.deviations.published.overview import published_overview
    from mindgap_studies.report.deviations_page import published_text

    study = published_study(directory)
    return _write(files, study.tables, lambda: published_overview(study), lambda: published_text(study))


def _study_machines(paths: Sequence[Path], files: StudyFiles) -> int:
    """Makes the tables and the page of collected files. Without models there are tables, and no page."""
    from mindgap_studies.deviations.own import own_study
    from mindgap_studies.deviations.own.overview import own_overview
    from mindgap_studies.machines.merging import read_and_merge
    from mindgap_studies.report.deviations_page import own_text

    merged = read_and_merge(paths)
    study = own_study(merged)
    drawn = any(len(column.platforms) > 1 for column in merged.of("models"))
    return _write(
        files, study.tables, lambda: own_overview(merged, study), lambda: own_text(study), "own_", drawn
    )  # fmt: skip


def _write(
    files: StudyFiles, tables: Sequence[StudyTable], page: Callable[[], Overview], text: Callable[[], StudyPage],
    prefix: str = "", drawn: bool = True,
) -> int:  # fmt: skip
    """Writes tables, figures and the page. `prefix`: of the figures' names. `drawn`: there are figures."""
    from mindgap import __version__
    from mindgap_studies.report.deviation_charts import study_charts
    from mindgap_studies.report.deviations_page import deviations_page

    with result_stream() as stream:
        files.write(
            lambda: deviations_page(page(), __version__), tables, None, stream, text=text,
            charts=lambda: study_charts(page(), prefix) if drawn else {},
        )  # fmt: skip
    return Exit.NOTHING_FOUND
