"""Implements `mindgap coverage`, which surveys the operators that each platform runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from mindgap.cli.numbers import budget_left
from mindgap.cli.outputs import check_directory, check_files, write_file
from mindgap.cli.progress import counting
from mindgap.cli.streams import complain, result_stream
from mindgap.graph import MindgapError
from mindgap.platforms.name import PlatformName, parse
from mindgap_surveys.cli.coverage_names import names_object, names_page, run_names
from mindgap_surveys.cli.study_text import write_result
from mindgap_surveys.table import to_csv

if TYPE_CHECKING:
    from mindgap_surveys.report.study_page import StudyPage
    from mindgap_surveys.support.coverage import OperatorCoverage, VersionCoverage
    from mindgap_surveys.support.matrix import Matrix
    from mindgap_surveys.support.static_support import MeasuredLists
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
            return _write_lists(as_json, out)
        wanted = [parse(each) for each in platforms]
        _require_any(wanted, start=limit != 0)
        if names:
            runs = run_names(wanted)
            write_result(lambda: names_page(runs), lambda: names_object(runs), as_json, out)
            return
        from mindgap_surveys.report.study_page import study_page
        from mindgap_surveys.support.matrix import cell_table, matrix_of
        from mindgap_surveys.support.static_support import all_lists

        surveyed = _surveyed(wanted, catalogue, store, limit, jobs, judge, common=not all_forms)
        matrix = matrix_of(surveyed) if limit != 0 else matrix_of(surveyed, _NOT_STORED)
        lists = all_lists(matrix) if static else None
        page = partial(_page, surveyed, matrix, missing, lists)
        write_result(page, lambda: _objects(wanted, surveyed, matrix, lists), as_json, out)
        if html is not None:
            write_file(html, study_page(page()))
        if csv is not None:
            write_file(csv, to_csv(cell_table(matrix)))


def _covered(asked: SurveyResult) -> tuple[Mapping[PlatformName, OperatorCoverage], Versions]:
    """What each platform runs, and what one in another environment gains and loses against the one before."""
    from mindgap_surveys.support.coverage import operator_coverage, version_coverage

    answers = {name: asked.support.answers(fingerprint) for name, fingerprint in asked.support.platforms.items()}
    covered = {name: operator_coverage(asked.keys, each) for name, each in answers.items()}
    latest: dict[PlatformName, PlatformName] = {}
    versions: dict[tuple[PlatformName, PlatformName], VersionCoverage] = {}
    for platform, found in answers.items():
        plain = PlatformName(platform.device_mode, platform.backend_options)
        if before := latest.get(plain):
            versions[before, platform] = version_coverage(asked.keys, answers[before], found)
        latest[plain] = platform
    return covered, versions


def _require_any(platforms: Sequence[PlatformName], start: bool) -> None:
    """Raises `PlatformError` for an unknown platform, and if none is available, before samples are captured.

    start: whether they are started at all: what the store holds is shown of all.
    """
    from mindgap.platforms.protocol import PlatformError
    from mindgap.platforms.registry import find

    backends = {platform: find(platform)[0] for platform in platforms}
    probed = {platform: backend.probe() for platform, backend in backends.items() if start}
    if start and not any(probe.available for probe in probed.values()):
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
    from mindgap_surveys.support.survey import stored_survey, survey_platforms

    def complain_of_left(left: int) -> None:
        complain(
            f"--budget: the samples of {left:,} sources or operators are not made yet, and are missing below; the same "
            "command goes on from there"
        )

    began = time.monotonic()
    with counting() as tick:
        probes = probe_set(
            Catalogue(catalogue) if catalogue is not None else None, on_progress=tick,
            deadline=began + budget if budget else None, on_left=complain_of_left,
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
                compare=compare, common=common, on_progress=on_progress,
            )  # fmt: skip
    survey.check()
    return survey


def _objects(
    platforms: Sequence[PlatformName], asked: SurveyResult, matrix: Matrix, lists: MeasuredLists | None
) -> list[dict[str, Any]]:
    from mindgap_surveys.support.matrix import matrix_object

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


def _page(asked: SurveyResult, matrix: Matrix, missing: bool, lists: MeasuredLists | None) -> StudyPage:
    from mindgap import __version__
    from mindgap_surveys.report.coverage_page import coverage_page, gap_section, survey_section
    from mindgap_surveys.report.study_page import Section, Text

    covered, versions = _covered(asked)
    spent: list[Text] = []
    for platform, cpu in asked.cpu_seconds.items():
        untried = f", {len(asked.untried[platform])} calls beyond the budget" if asked.untried.get(platform) else ""
        spent.append(Text(f"{platform}: asked for {cpu:.1f} processor seconds{untried}"))
    sections = [survey_section(covered), Section("spent", "Processor time", tuple(spent), "text")]
    for platform, here in covered.items() if missing else ():
        sections.append(gap_section(f"what {platform} lacks", here.lacks, "it lacks nothing"))
    for (before, after), change in versions.items():
        for word, gaps in (("gains", change.gained), ("loses", change.lost)):
            sections.append(gap_section(f"what {after} {word} against {before}", gaps, "nothing"))
    return coverage_page(matrix, __version__, lists, sections)


def _write_lists(as_json: bool, out: TextIO) -> None:
    """Writes what packages list, with nothing measured beside it."""
    from mindgap_surveys.report.coverage_page import list_blocks
    from mindgap_surveys.report.study_page import Section, StudyPage
    from mindgap_surveys.support.static_support import all_lists

    lists, ops = all_lists(), declared()
    words = [
        {"list": each.name, "package": each.package, "unknown": each.unknown_otherwise,
         "words": {op: each.word(op) for op in ops}} for each in lists.lists
    ]  # fmt: skip
    section = Section("lists", "Lists", (*list_blocks(lists, ops),))
    write_result(lambda: StudyPage("What packages list of operators", (), (section,)), lambda: words, as_json, out)


def declared() -> list[str]:
    """Returns the overloads that PyTorch declares, without those that write into an operand."""
    from mindgap.aten.torch_private.native_functions import declared_kernels

    return sorted(op for op in declared_kernels() if not op.endswith("out"))
