"""Implements `mindgap portability`, which lists what of a package's code a platform lacks, with lines."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mindgap.cli.diff import Deadline, Jobs, seconds
from mindgap.cli.outputs import check_files, write_file
from mindgap.cli.progress import progress
from mindgap.cli.sources import source_client, subjects
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.graph import MindgapError, TensorStore
from mindgap.platforms.name import PlatformName
from mindgap.platforms.registry import canonical
from mindgap.results.settings import RunSettings
from mindgap_surveys.cli.study_text import write_result
from mindgap_surveys.support.code_scan import CallForm, CodeScan, Place, scan
from mindgap_surveys.table import made

if TYPE_CHECKING:
    from mindgap.source_worker.client import SourceClient
    from mindgap.workflows.diff import Subject
    from mindgap_surveys.report.study_page import StudyPage
    from mindgap_surveys.support.portability import FunctionUse, LeftOut, Ported

#: Lines of a function's uses that the table shows; `--json` has all.
_PLACES = 2


def portability(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A Python file, or a folder of them. None is imported.")],
    platforms: Annotated[
        list[str], typer.Option("-p", "--platform", help="As `mindgap platforms` lists them; may repeat.")
    ],
    run: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            metavar="SOURCE",
            help="Also try the calls that this program makes when it runs, with their operands (FILE.py:FUNCTION, or "
            "another source of `mindgap diff`); may repeat.",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Also list the functions that all platforms run.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Every function, with all its lines.")] = False,
    sarif: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A result at each line, for code scanning.")
    ] = None,
    deadline: Deadline = 60.0,
    jobs: Jobs = None,
) -> int:
    """Say which of PyTorch's functions a package uses, and which of them a platform lacks or computes wrongly.

    Files are parsed, and none is imported but those of --run. Each function that they call is tried with samples of
    PyTorch's own tests, and compared with cpu/eager. Exit status: 1 where a platform lacks a function, runs it in part,
    or gives other results; 2 where a file does not parse, a program does not run, or nothing is known of a platform.

    Example: mindgap portability src/ -p onnxruntime/cpu -p openvino/cpu --run src/model.py:make
    """
    check_files(("--sarif", sarif))
    wanted = [canonical(each) for each in platforms]
    with result_stream() as out:
        settings = RunSettings(trace=False, deadline_s=seconds(deadline))
        scanned, uses, refused, left_out = _ported(path, run or (), wanted, settings, jobs)
        unknown = sorted(scanned.called - {each.function for each in uses})
        for name, why in scanned.unreadable.items():
            complain(f"{name}: not parsed: {why}")
        for name, why in refused.items():
            complain(f"--run {name}: {why}")
        write_result(
            lambda: _page(scanned, uses, unknown, left_out, every),
            lambda: _object(scanned, uses, unknown, left_out), as_json, out,
        )  # fmt: skip
        if sarif is not None:
            from mindgap_surveys.report.portability_sarif import sarif_of_portability

            write_file(sarif, sarif_of_portability(uses, path))
    status = status_of_uses(scanned, uses)
    return Exit.WRONG_USE if refused and status == Exit.NOTHING_FOUND else status


def status_of_uses(scanned: CodeScan, uses: Sequence[FunctionUse]) -> Exit:
    """Returns the exit status: findings outweigh files that do not parse, and platforms of which nothing is known."""
    if any(each.stops for each in uses):
        return Exit.FINDINGS
    known = {name for each in uses for name, ported in each.platforms.items() if ported.word != "not known"}
    silent = [name for name in (uses[0].platforms if uses else ()) if name not in known]
    for name in silent:
        complain(f"NOTHING IS KNOWN OF {name}: no sample of any function was compared")
    return Exit.WRONG_USE if silent or scanned.unreadable or not uses else Exit.NOTHING_FOUND


def _ported(
    path: Path, programs: Sequence[str], platforms: Sequence[PlatformName], settings: RunSettings, jobs: int | None
) -> tuple[CodeScan, list[FunctionUse], dict[str, str], dict[str, list[LeftOut]]]:
    """Scans the code and tries what it uses, and the calls of programs. Returns also the programs that were refused,
    and why, and the calls of programs that are not tried. Raises `MindgapError` where nothing could be tried."""
    from mindgap.graph.tensors import default_tensor_store
    from mindgap.own_path.client import OwnPathClient
    from mindgap.workflows.diff import diff_many
    from mindgap_surveys.support.portability import ported_functions, without_answer
    from mindgap_zoo.operator_samples.public_names import draws_random, sources_of

    scanned = scan(path, _is_method)
    sources: dict[str, Sequence[str]] = {}
    for full in scanned.uses:
        if calls := sources_of(full, *_options(full, scanned)):
            sources[full] = calls
    if not sources and not programs:
        raise MindgapError(f"{path}: {scanned.files} files call no function of PyTorch that has samples to try")
    #: By the name of a model, whose sample two names of one function may share (`torch.tanh`, `torch.Tensor.tanh`).
    functions: dict[str, list[str]] = {}
    places = dict(scanned.uses)
    refused: dict[str, str] = {}
    left_out: dict[str, list[LeftOut]] = {}
    tensors = default_tensor_store()

    def named(client: SourceClient, exporting: OwnPathClient) -> Iterator[Subject]:
        for full, each in sources.items():
            # The graph of what draws random numbers holds a replacement, which a platform may lack operators of.
            own_path = exporting if draws_random(full) else None
            for subject in subjects(each, [], client, own_path=own_path):
                if subject.name not in functions:
                    yield subject
                functions.setdefault(subject.name, []).append(full)
        numbers = itertools.count()
        for source in dict.fromkeys(programs):
            try:
                left_out[source] = []
                for subject, op, where in _captured(source, path, client, tensors, numbers, left_out[source]):
                    functions[subject.name] = [op]
                    places[op] = tuple(dict.fromkeys((*places.get(op, ()), *where)))
                    yield subject
            except MindgapError as error:
                refused[source] = " ".join(str(error).split())

    with (
        progress() as tell,
        source_client(tensors, settings.deadline_s, None) as client,
        OwnPathClient(settings.deadline_s) as exporting,
    ):
        names = list(named(client, exporting))
        report = diff_many(names, platforms, settings=settings, progress=tell, tensors=tensors, jobs=jobs)
    if not report.rows:
        large = [f"{op.op}: {op.reason}" for each in left_out.values() for op in each]
        why = [*(each.reason for each in report.refused), *refused.values(), *large]
        first = why[0] if why else "no sample was captured"
        raise MindgapError(f"{path}: nothing was compared: {first}")
    tried = ported_functions(places, functions, report, platforms)
    return scanned, [*tried, *without_answer(left_out, tried, platforms)], refused, left_out


def _is_method(name: str, form: CallForm) -> bool:
    from mindgap_zoo.operator_samples.public_names import sources_of
    from mindgap_zoo.operator_samples.signatures import is_tensor_method

    method = is_tensor_method(name, len(form.positional), dict(form.keywords), form.complete)
    return method and bool(sources_of(f"torch.Tensor.{name}"))


def _options(full: str, scanned: CodeScan) -> tuple[list[Mapping[str, object]], bool]:
    """The options of the calls of a function, and whether each call shows all of its options."""
    from mindgap_zoo.operator_samples.signatures import options_of

    forms = scanned.forms[full]
    options = [options_of(full, form.positional, dict(form.keywords)) for form in forms]
    return options, all(form.complete for form in forms)


def _captured(
    source: str, path: Path, client: SourceClient, tensors: TensorStore, numbers: Iterator[int],
    left_out: list[LeftOut],
) -> Iterator[tuple[Subject, str, tuple[Place, ...]]]:  # fmt: skip
    """Yields each distinct call of a program as a subject, with its operator and lines, and adds to `left_out` what is
    not tried. Raises `MindgapError` for a program that cannot be opened or captured, or whose calls do not run.

    `numbers`: of the calls of all programs. Programs of several files may have one name, and each subject needs its
    own.
    """
    from mindgap.workflows.diff import Subject
    from mindgap_surveys.support.portability import captured_calls

    for program in subjects([source], [], client):
        try:
            calls, left = captured_calls(program.graph(), path, tensors)
        except RuntimeError as error:
            raise MindgapError(str(error)) from error
        left_out += left
        for each in calls:
            name = f"{program.name}, call {next(numbers)}"
            yield Subject(name, lambda graph=each.graph: graph, in_process=False), each.op, each.places


def _object(
    scanned: CodeScan, uses: Sequence[FunctionUse], unknown: Sequence[str], left_out: Mapping[str, Sequence[LeftOut]]
) -> dict[str, Any]:
    return {
        "files": scanned.files,
        "unreadable": dict(scanned.unreadable),
        "functions": [
            {"function": each.function, "places": [*map(str, each.places)],
             "platforms": {name: dataclasses.asdict(ported) for name, ported in each.platforms.items()}}
            for each in uses
        ],
        "not_tried": {name: [str(place) for place in scanned.uses[name]] for name in unknown},
        "left_out": [
            {"program": program, "operator": each.op, "calls": each.calls, "reason": each.reason,
             "places": [*map(str, each.places)]}
            for program, calls in left_out.items() for each in calls
        ],
    }  # fmt: skip


def _page(
    scanned: CodeScan, uses: Sequence[FunctionUse], unknown: Sequence[str],
    left_out: Mapping[str, Sequence[LeftOut]], every: bool,
) -> StudyPage:  # fmt: skip
    from mindgap_surveys.report.study_page import Section, StudyPage, Text
    from mindgap_surveys.support.portability import WORDS

    names = list(uses[0].platforms)
    shown = [each for each in uses if every or each.stops]
    rows = ((each.function, _lines(each.places), *map(_cell, each.platforms.values())) for each in shown)
    reasons = (
        (each.function, name, ported.reason, ported.sample)
        for each in shown for name, ported in each.platforms.items() if ported.reason
    )  # fmt: skip
    calls = (
        (program, each.op, each.calls, _lines(each.places), each.reason)
        for program, left in left_out.items() for each in left
    )  # fmt: skip
    tables = [
        made("", "Functions", ("function", "lines", *names), rows),
        made("", "Reasons", "function platform reason sample", reasons),
        made("", "Calls that are not tried", "program operator calls lines reason", calls),
    ]
    sections = [Section(table.title, table.title, (table,)) for table in tables if table.rows]
    totals: list[Text] = []
    for name in names:
        words = [each.platforms[name].word for each in uses]
        counts = ", ".join(f"{word}: {words.count(word)}" for word in WORDS if word in words)
        totals.append(Text(f"{name}, of {len(uses)} functions: {counts}"))
    left = f"; {len(unknown)} other names of PyTorch are called, which have no samples to try" if unknown else ""
    totals.append(Text(f"{scanned.files} file{'s' if scanned.files != 1 else ''}{left}"))
    return StudyPage("What the code uses of PyTorch", tuple(totals), tuple(sections))


def _lines(places: Sequence[Place]) -> str:
    more = len(places) - _PLACES
    return ", ".join(map(str, places[:_PLACES])) + (f" and {more} more" if more > 0 else "")


def _cell(ported: Ported) -> str:
    return f"{ported.word} ({ported.ran} of {ported.compared})" if ported.word == "in part" else ported.word
