"""Implements `mindgap study portability`: which functions of frameworks are lost on other targets, and how slow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindgap.cli.diff import seconds
from mindgap.cli.outputs import check_files
from mindgap.cli.progress import counting
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.graph import MindgapError
from mindgap.platforms.registry import canonical
from mindgap_surveys.cli.study_text import AsJson, Csv, Html, StudyFiles

if TYPE_CHECKING:
    from mindgap_studies.results.ported_functions import PortingStudy


def porting(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FOLDER…", help="Count calls in these Python files too, beside installed packages."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where results are kept (JSON lines); a study that was cut goes on."),
    ] = None,
    show: Annotated[
        Path | None, typer.Option("--show", metavar="FILE", help="Run nothing: show what a file has.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="FILE", help="An earlier study: exit with status 1 where the two disagree.")
    ] = None,
    frameworks: Annotated[
        list[str] | None, typer.Option("--framework", metavar="NAME", help="pytorch, jax, tensorflow; default: all.")
    ] = None,
    platforms: Annotated[
        list[str] | None, typer.Option("-p", "--platform", help="A target of PyTorch's functions; may repeat.")
    ] = None,
    top: Annotated[int, typer.Option(min=0, metavar="N", help="How many of the most used functions.")] = 20,
    per_decile: Annotated[
        int, typer.Option(min=0, metavar="N", help="How many at random of each decile of usage.")
    ] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw.")] = 0,
    files: Annotated[
        int, typer.Option(min=1, metavar="N", help="Python files that are parsed, for each framework.")
    ] = 3000,
    processes: Annotated[int, typer.Option(min=1, metavar="N", help="In which each function is measured.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, metavar="N", help="Calls in each process, after the first.")] = 15,
    deadline: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="For one function in one process.")] = 60.0,
    html: Html = None,
    csv: Csv = None,
    as_json: AsJson = False,
) -> int:
    """Run the study of "The Grand Illusion": which functions are lost on another target, why, and how much slower.

    JAX and TensorFlow run in environments: mindgap env create jax, mindgap env create tensorflow.

    Example: mindgap study portability --out portability.jsonl --html portability.html
    """
    from mindgap_studies.porting.tables import study_object, study_tables
    from mindgap_studies.report.porting_page import porting_page
    from mindgap_studies.results.ported_functions import PortingSettings, StudyFile

    if (out is None) == (show is None):
        raise MindgapError("give --out FILE to run a study (or to go on with one), or --show FILE to show one")
    outputs = StudyFiles(html, csv, as_json)
    outputs.check()
    check_files(("--out", out))
    for platform in platforms or ():
        canonical(platform)
    earlier = None if against is None else StudyFile(against).read()
    problems: dict[str, str] = {}
    with result_stream() as stream:
        if out is not None:
            from mindgap_studies.porting_runs.study import FRAMEWORKS, PortingRequest, run_porting

            if not top + per_decile:
                raise MindgapError("--top 0 --per-decile 0: no function would be drawn")
            settings = PortingSettings(top, per_decile, seed, files, processes, rounds, seconds(deadline))
            request = PortingRequest(
                tuple(dict.fromkeys(frameworks or FRAMEWORKS)), tuple(folders or ()), tuple(platforms or ()), settings
            )
            with counting() as tick:
                study, problems = run_porting(request, out, tick)
        else:
            assert show is not None
            study = StudyFile(show).read()
        outputs.write(lambda: porting_page(study), study_tables(study), lambda: study_object(study), stream)
    for path, why in dict(each for draw in study.draws.values() for each in draw.unreadable.items()).items():
        complain(f"{path}: not parsed: {why}")
    for name, why in problems.items():
        complain(f"not studied: {name}: {why}")
    status = Exit.WRONG_USE if problems else Exit.NOTHING_FOUND
    return status if earlier is None else _disagreement(earlier, study) or status


def _disagreement(earlier: PortingStudy, study: PortingStudy) -> Exit:
    from mindgap_studies.porting.repeated import compare_studies

    found = compare_studies(earlier, study)
    for each in found.differences:
        complain(f"{each.framework} {each.function} on {each.target}: {each.what} {each.before}, now {each.after}")
    complain(
        f"{found.agreeing_cells} of {found.cells} functions on targets have the same class and samples; "
        f"{found.agreeing_slowdowns} of {found.slowdowns} slow-downs agree, and {found.undetermined} are not determined"
    )
    return Exit.FINDINGS if found.differences else Exit.NOTHING_FOUND
