"""Implements `mindgap coverage`, which surveys the operators that each platform runs."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.table import Table
from rich.text import Text

from mindgap.cli.numbers import budget_left
from mindgap.cli.outputs import check_directory, check_files, write_file
from mindgap.cli.progress import counting
from mindgap.cli.streams import complain, result_stream
from mindgap.cli.tables import console, cut, plain_table
from mindgap.graph import MindgapError
from mindgap.platforms.name import PlatformName, parse
from mindgap_surveys.cli.coverage_matrix import matrix_csv, matrix_object, print_matrix, write_page
from mindgap_surveys.cli.coverage_names import print_names
from mindgap_surveys.cli.coverage_static import measured_lists, print_lists, print_measured_lists

if TYPE_CHECKING:
    from mindgap_surveys.cli.coverage_static import MeasuredLists
    from mindgap_surveys.support.coverage import OperatorCoverage, OperatorGap, VersionCoverage
    from mindgap_surveys.support.matrix import Matrix
    from mindgap_surveys.support.survey import SurveyResult

    #: By the platform before and after.
    Versions = Mapping[tuple[PlatformName, PlatformName], VersionCoverage]

_JOBS = 2
_NOT_STORED = "the store has no answer, and nothing was asked (--budget 0)"


def coverage(
    platforms: Annotated[
        list[str] | None, typer.Argument(metavar="PLATFORM…", help="As `mindgap platforms` lists them.")
    ] = None,
    catalogue: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Take the operators' samples from its graphs; without it they are captured."),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where answers are kept, by fingerprint; default: the user's own."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Wall time for the whole command (90s, 10m). What it does not reach is counted, and another run goes "
            "on from there. 0 asks nothing and shows what the store holds.",
        ),
    ] = None,
    all_forms: Annotated[
        bool,
        typer.Option(
            "--all-forms",
            help="Ask every dtype and layout; without it each operator's plainest form, float16 and int64.",
        ),
    ] = False,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Platforms at a time.")] = _JOBS,
    missing: Annotated[
        bool, typer.Option("--missing", help="List what each platform lacks, in its own words.")
    ] = False,
    judge: Annotated[
        bool, typer.Option("--judge/--no-judge", help="Compare what runs with cpu/eager, and judge what differs.")
    ] = True,
    names: Annotated[
        bool,
        typer.Option(
            "--names", help="Say instead how many names of PyTorch's sample database each platform runs, and why not."
        ),
    ] = False,
    static: Annotated[
        bool,
        typer.Option(
            "--static",
            help="Also what PyTorch's sources and runtimes' packages list; without a platform, nothing else.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One object per platform, with all that it lacks and every cell.")
    ] = False,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Every cell, with its reason.")] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A page to filter, sort, and compare two platforms.")
    ] = None,
) -> None:
    """Ask each platform which operators it runs, by dtype and layout, of those that cpu/eager runs, and runs right.

    Every operator is tried with PyTorch's own samples, once for a platform as it is (versions, hardware, settings), and
    compared with cpu/eager. Of a platform in several environments (env=NAME) it also lists what each gains and loses
    against the one before.

    Example: mindgap coverage onnxruntime/cpu@env=ort128 onnxruntime/cpu --missing
    """
    limit = None if budget is None else 0.0 if budget.strip() in ("0", "0s") else budget_left("--budget", budget)
    # Samples call deprecated operators on purpose; PyTorch reads this when it is imported.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    if store is not None:
        check_directory("--store", store)
    check_files(("--csv", csv), ("--html", html))
    if not platforms and (names or not static):
        raise MindgapError("name a platform, or ask for --static alone: mindgap coverage cpu/jit")
    if names or not platforms:
        of_matrix = {
            "--csv": csv is not None, "--html": html is not None, "--store": store is not None, "--missing": missing,
            "--catalogue": catalogue is not None, "--budget": budget is not None, "--jobs": jobs != _JOBS,
            "--no-judge": not judge, "--all-forms": all_forms, "--static": names and static,
        }  # fmt: skip
        given = ", ".join(option for option, is_given in of_matrix.items() if is_given)
        if given:
            raise MindgapError(f"only the matrix takes {given}: name platforms, and leave --names out")
    with result_stream() as out:
        if not platforms:
            print_lists(as_json, out)
            return
        wanted = [parse(each) for each in platforms]
        _require_any(wanted, start=limit != 0)
        if names:
            print_names(wanted, as_json, out)
            return
        from mindgap_surveys.support.matrix import matrix_of

        surveyed = _surveyed(wanted, catalogue, store, limit, jobs, judge, common=not all_forms)
        matrix = matrix_of(surveyed) if limit != 0 else matrix_of(surveyed, _NOT_STORED)
        lists = measured_lists(matrix) if static else None
        if as_json:
            json.dump(_objects(wanted, surveyed, matrix, lists), out, indent=1)
            out.write("\n")
        else:
            _print(surveyed, missing, out)
            print_matrix(matrix, out)
            if lists is not None:
                print_measured_lists(matrix, lists, out)
        if html is not None:
            write_page(html, matrix, lists)
        if csv is not None:
            write_file(csv, matrix_csv(matrix))


def _covered(asked: SurveyResult) -> tuple[Mapping[PlatformName, OperatorCoverage], Versions]:
    """What each platform runs, and what one in another environment gains and loses against the one before."""
    from mindgap_surveys.support.coverage import operator_coverage, version_coverage

    answers = {name: asked.support.answers(fingerprint) for name, fingerprint in asked.support.platforms.items()}
    covered = {name: operator_coverage(asked.keys, each) for name, each in answers.items()}
    versions = {
        (before, after): version_coverage(asked.keys, answers[before], answers[after])
        for before, after in _versions([*covered])
    }
    return covered, versions


def _require_any(platforms: Sequence[PlatformName], start: bool) -> None:
    """Raises `PlatformError` for an unknown platform, and if none is available, before samples are captured.

    start: whether they are started at all: what the store holds is shown of all.
    """
    from mindgap.platforms.protocol import PlatformError
    from mindgap.platforms.registry import find

    backends = {platform: find(platform)[0] for platform in platforms}
    if not start:
        return
    probed = {platform: backend.probe() for platform, backend in backends.items()}
    if not any(probe.available for probe in probed.values()):
        why = "; ".join(f"{platform}: {probe.reason}" for platform, probe in probed.items())
        raise PlatformError(f"no platform could be asked: {why}")


def _surveyed(
    platforms: Sequence[PlatformName], catalogue: Path | None, store: Path | None, budget: float | None, jobs: int,
    compare: bool, common: bool,
) -> SurveyResult:  # fmt: skip
    """Runs the survey. Raises `MindgapError` if no platform could be surveyed."""
    from mindgap.graph.tensors import home
    from mindgap.results.catalogue import Catalogue
    from mindgap.results.store import Store
    from mindgap_surveys.support.probe_file import probe_set
    from mindgap_surveys.support.survey import nothing_asked, stored_survey, survey_platforms

    began = time.monotonic()
    with counting() as tick:
        probes = probe_set(
            Catalogue(catalogue) if catalogue is not None else None, on_progress=tick,
            deadline=began + budget if budget else None, on_left=_complain_of_left,
        )  # fmt: skip
    lock = threading.Lock()
    counts: dict[PlatformName, tuple[int, int]] = {}
    with counting() as tick:

        def on_progress(platform: PlatformName, done: int, total: int, what: str) -> None:
            with lock:
                counts[platform] = (done, total)
                tick(sum(d for d, _ in counts.values()), sum(t for _, t in counts.values()), f"{platform} {what}")

        kept = Store(store or home() / "support")
        if budget == 0:
            survey = stored_survey(platforms, probes, kept, common=common)
        else:
            survey = survey_platforms(
                platforms, probes, kept, budget_s=budget and max(began + budget - time.monotonic(), 0.0), jobs=jobs,
                compare=compare, common=common,
                on_progress=on_progress,
            )  # fmt: skip
    wrong = nothing_asked(survey)
    if wrong is not None:
        raise wrong
    return survey


def _complain_of_left(left: int) -> None:
    complain(
        f"--budget: the samples of {left:,} sources or operators are not made yet, and are missing below; the same "
        "command goes on from there"
    )


def _versions(platforms: Sequence[PlatformName]) -> list[tuple[PlatformName, PlatformName]]:
    """The platforms that differ from the one before only in their environment, with that one."""
    latest: dict[PlatformName, PlatformName] = {}
    versions: list[tuple[PlatformName, PlatformName]] = []
    for platform in platforms:
        plain = PlatformName(platform.device_mode, platform.backend_options)
        if plain in latest:
            versions.append((latest[plain], platform))
        latest[plain] = platform
    return versions


def _objects(
    platforms: Sequence[PlatformName], asked: SurveyResult, matrix: Matrix, lists: MeasuredLists | None
) -> list[dict[str, Any]]:
    covered, versions = _covered(asked)
    against = {after: {"platform": before, **asdict(change)} for (before, after), change in versions.items()}
    disagreements = {each.platform: each for each in lists.disagreements} if lists is not None else {}
    reports: list[dict[str, Any]] = []
    for platform in dict.fromkeys(platforms):
        here = covered.get(platform)
        if here is None:
            reports.append({"platform": platform, "available": False, "reason": asked.absent[platform]})
            continue
        dtypes = {dtype: {"runs": runs, "asked": count} for dtype, (runs, count) in here.dtypes.items()}
        about = {"platform": platform, "available": True, "fingerprint": asked.support.platforms[platform]}
        cpu = round(asked.cpu_seconds.get(platform, 0.0), 2)
        more: dict[str, Any] = {"against": against[platform]} if platform in against else {}
        if platform in disagreements:
            more["list"] = asdict(disagreements[platform])
        reports.append({
            **about, "cpu_seconds": cpu, **asdict(here), "dtypes": dtypes, **more, **matrix_object(matrix, platform),
        })  # fmt: skip
    return reports


def _print(asked: SurveyResult, missing: bool, out: TextIO) -> None:
    covered, versions = _covered(asked)
    page = console(out)
    page.print(_totals(covered))
    page.print(_dtypes(covered))
    for platform, reason in asked.absent.items():
        page.print(Text(f"{platform} is not here: {reason}", style="bold"))
    for platform, cpu in asked.cpu_seconds.items():
        untried = f", {len(asked.untried[platform])} calls beyond the budget" if asked.untried.get(platform) else ""
        page.print(f"{platform}: asked for {cpu:.1f} processor seconds{untried}", markup=False, highlight=False)
    if missing:
        for platform, here in covered.items():
            page.print(_gaps(f"what {platform} lacks", here.lacks) if here.lacks else f"{platform} lacks nothing")
    for (before, after), change in versions.items():
        for word, gaps in (("gains", change.gained), ("loses", change.lost)):
            title = f"what {after} {word} against {before}"
            page.print(_gaps(title, gaps) if gaps else f"{title}: nothing")


def _totals(found: Mapping[PlatformName, OperatorCoverage]) -> Table:
    """Makes a table with a line per platform and measure, as shares of the calls that the reference runs."""
    from mindgap.results.support_answers import WORDS

    words = ("of", *WORDS, "untried")
    heads = [word.replace("_", " ") for word in words]
    table = plain_table("platform", "count of", *heads, title="operators, of those that cpu/eager runs")
    for platform, here in found.items():
        for what, counts in (("packets", here.packets), ("overloads", here.overloads), ("calls", here.calls)):
            numbers = [sum(counts.values()), *(counts[word] for word in words[1:])]
            table.add_row(platform if what == "packets" else "", what, *map(str, numbers))
    return table


def _dtypes(found: Mapping[PlatformName, OperatorCoverage]) -> Table:
    names = list(next(iter(found.values())).dtypes)
    table = plain_table("platform", *names, title="overloads that run, of those asked, by dtype")
    for platform, here in found.items():
        table.add_row(platform, *(f"{runs}/{count}" for runs, count in here.dtypes.values()))
    return table


def _gaps(title: str, gaps: Sequence[OperatorGap]) -> Table:
    """Makes a table of gaps: of those that are gained, the answer and the reason are the older version's."""
    table = plain_table("operator", "answer", "in", "reason", title=title)
    for lack in gaps:
        where = "every call asked" if lack.whole else f"{', '.join(lack.dtypes)} ({', '.join(lack.layouts)})"
        table.add_row(lack.op, lack.word, where, Text(cut(lack.reason)))
    return table
