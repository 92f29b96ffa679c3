"""Implements `mindgap study portability`: which functions of frameworks are lost on other targets, and how slow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TextIO

import typer
from rich.text import Text

from mindgap.cli.diff import seconds
from mindgap.cli.outputs import check_directory, check_files, write_file
from mindgap.cli.progress import counting
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.cli.tables import console, plain_table
from mindgap.graph import MindgapError
from mindgap.platforms.registry import canonical
from mindgap_studies.cli.table_files import write_tables

if TYPE_CHECKING:
    from mindgap_studies.results.ported_functions import PortingStudy

#: Functions of each framework that could not be tried and are named, and characters of their lines.
_NAMED: Final = 5
_WIDTH: Final = 100
#: Characters of a reason in a table of 100 columns.
_WHY: Final = 42


def portability(
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
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the self-contained page.")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="DIR", help="Also write a CSV file for each table.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All tables as JSON on standard output.")] = False,
) -> int:
    """Run the study of "The Grand Illusion": which functions are lost on another target, why, and how much slower.

    JAX and TensorFlow run in environments: mindgap env create jax, mindgap env create tensorflow.

    Example: mindgap study portability --out portability.jsonl --html portability.html
    """
    from mindgap_studies.results.ported_functions import PortingSettings, StudyFile

    if (out is None) == (show is None):
        raise MindgapError("give --out FILE to run a study (or to go on with one), or --show FILE to show one")
    check_files(("--out", out), ("--html", html))
    if csv is not None:
        check_directory("--csv", csv)
    for platform in platforms or ():
        canonical(platform)
    earlier = None if against is None else StudyFile(against).read()
    problems: dict[str, str] = {}
    with result_stream() as stream:
        if out is not None:
            from mindgap_studies.porting_runs.study import FRAMEWORKS, PortingRequest, run_portability

            if not top + per_decile:
                raise MindgapError("--top 0 --per-decile 0: no function would be drawn")
            settings = PortingSettings(top, per_decile, seed, files, processes, rounds, seconds(deadline))
            request = PortingRequest(
                tuple(dict.fromkeys(frameworks or FRAMEWORKS)), tuple(folders or ()), tuple(platforms or ()), settings
            )
            with counting() as tick:
                study, problems = run_portability(request, out, tick)
        else:
            assert show is not None
            study = StudyFile(show).read()
        if html is not None:
            from mindgap_studies.report.portability_page import portability_page

            write_file(html, portability_page(study))
        if csv is not None:
            from mindgap_studies.porting.tables import study_tables

            write_tables(csv, study_tables(study))
        if as_json:
            from mindgap_studies.porting.tables import to_json

            stream.write(to_json(study) + "\n")
        else:
            print_portability(study, stream)
    for path, why in dict(each for draw in study.draws.values() for each in draw.unreadable.items()).items():
        complain(f"{path}: not parsed: {why}")
    for name, why in problems.items():
        complain(f"not studied: {name}: {why}")
    status = Exit.WRONG_USE if problems else Exit.NOTHING_FOUND
    return status if earlier is None else _disagreement(earlier, study) or status


def _disagreement(earlier: PortingStudy, study: PortingStudy) -> Exit:
    """Says on standard error where two studies disagree. Returns the exit status."""
    from mindgap_studies.porting.repeated import compare_studies

    found = compare_studies(earlier, study)
    for each in found.differences:
        complain(f"{each.framework} {each.function} on {each.target}: {each.what} {each.before}, now {each.after}")
    complain(
        f"{found.agreeing_cells} of {found.cells} functions on targets have the same class and samples; "
        f"{found.agreeing_slowdowns} of {found.slowdowns} slow-downs agree, and {found.undetermined} are not determined"
    )
    return Exit.FINDINGS if found.differences else Exit.NOTHING_FOUND


def print_portability(study: PortingStudy, out: TextIO) -> None:
    """Prints draws, classes, reasons, slow-downs and the paper's statements, in 100 columns."""
    from mindgap_studies import records
    from mindgap_studies.porting import tables
    from mindgap_studies.report.portability_page import times

    page = console(out)
    for row in records(tables.draws(study)):
        page.print(Text(
            f"{row['framework']} ({row['versions']}) on {row['source']}: {row['drawn']} functions of {row['used']} "
            f"that are used, {row['calls']:,} calls in {row['files']:,} files; {row['not_tried']} without a sample"
        ))  # fmt: skip
    page.print()
    page.print(Text("Functions lost, with their 95 % interval; classes: success / partial / complete failure"))
    grid = plain_table("framework", "target", "lost", "95 %", "classes", "why", right=("lost", "classes"))
    reasons = {(row["framework"], row["target"]): row for row in records(tables.reasons(study))}
    for row in records(tables.classes(study)):
        where = (row["framework"], row["target"])
        if row["not_available"]:
            grid.add_row(*where, "–", "", "", shortened(f"not available: {row['not_available']}"))
            continue
        ends = (row["lost_low_share"], row["lost_high_share"])
        interval = "–" if None in ends else "–".join(f"{100 * end:.0f}" for end in ends)
        counts = "/".join(str(row[name]) for name in ("success", "partial_failure", "complete_failure"))
        grid.add_row(*where, _whole(row["lost_share"]), interval, counts, shortened(_reasons(reasons[where])))
    page.print(grid)
    page.print()
    page.print(Text("Time on the target over time on the source"))
    grid = plain_table("framework", "target", "estimator", "functions", "10 %", "median", "90 %", "slower",
                       "over 10×", right=("functions", "10 %", "median", "90 %", "slower", "over 10×"))  # fmt: skip
    for row in records(tables.slowdowns(study)):
        if not row["functions"]:
            continue
        names = ("p10_slowdown", "median_slowdown", "p90_slowdown", "slower_share", "over_ten_times_share")
        figures = [times(row[name]) if "slowdown" in name else _whole(row[name]) for name in names]
        grid.add_row(row["framework"], row["target"], row["estimator"], str(row["functions"]), *figures)
    page.print(grid)
    for name, target, cells in tables.pairs(study):
        if why := tables.untimed_text(cells):
            page.print(Text(f"not measured: {name} on {target}: {why}"[:_WIDTH]))
    page.print()
    for name, draw in study.draws.items():
        for function, why in [*draw.not_tried.items()][:_NAMED]:
            page.print(Text(f"not tried: {function}: {why}"[:_WIDTH]))
        if len(draw.not_tried) > _NAMED:
            page.print(
                Text(f"… and {len(draw.not_tried) - _NAMED} more of {name} (--html, --csv, --json)", style="dim")
            )
    page.print()
    for row in records(tables.claims(study)):
        page.print(Text(f"{row['holds']}: {row['statement']}. Here: {row['here'] or 'no data'}"))


def _whole(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def shortened(text: str) -> str:
    """Cuts a text to the width of the column of reasons."""
    return text if len(text) <= _WHY else f"{text[: _WHY - 1]}…"


def _reasons(row: dict[str, Any]) -> str:
    """`not implemented 67 %, type failure 33 %`."""
    from mindgap_studies.report.study_html import percent

    shares = {
        name.removesuffix("_share").replace("_", " "): share
        for name, share in row.items()
        if name.endswith("_share") and share
    }
    ordered = sorted(shares.items(), key=lambda each: -each[1])
    return ", ".join(f"{name} {percent(round(share, 2))}" for name, share in ordered)
