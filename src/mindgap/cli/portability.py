"""Implements `mindgap portability`, which says what of a package's code a platform lacks, and at which lines."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.text import Text

from mindgap.cli.diff import Deadline, Jobs, seconds
from mindgap.cli.outputs import check_files, write_file
from mindgap.cli.progress import progress
from mindgap.cli.sources import source_client, subjects
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.cli.tables import console, plain_table
from mindgap.graph import MindgapError
from mindgap.platforms.name import PlatformName
from mindgap.platforms.registry import canonical
from mindgap.results.settings import RunSettings
from mindgap.workflows.support.code_scan import CodeScan, scan

if TYPE_CHECKING:
    from mindgap.models.sources.client import SourceClient
    from mindgap.workflows.diff import Subject
    from mindgap.workflows.support.portability import FunctionUse, Ported

#: Lines of a function's uses, and characters of a reason, that the table shows; `--json` has all.
_PLACES = 2
_REASON = 90


def portability(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A Python file, or a folder of them. None is imported.")],
    platforms: Annotated[
        list[str], typer.Option("-p", "--platform", help="As `mindgap platforms` lists them; may repeat.")
    ],
    every: Annotated[bool, typer.Option("--all", help="Also list the functions that all platforms run.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Every function, with all its lines.")] = False,
    sarif: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A result at each line, for code scanning.")
    ] = None,
    deadline: Deadline = 60.0,
    jobs: Jobs = None,
) -> int:
    """Say which of PyTorch's functions a package uses, and which of them a platform lacks or computes wrongly.

    Files are parsed. Each function that they call is tried with samples of PyTorch's own tests, and compared with
    cpu/eager. Exit status: 1 where a platform lacks a function, runs it in part, or gives other results;
    2 where a file does not parse, or nothing is known of a platform.

    Example: mindgap portability src/ -p onnxruntime/cpu -p openvino/cpu
    """
    check_files(("--sarif", sarif))
    wanted = [canonical(each) for each in platforms]
    with result_stream() as out:
        scanned, found = _ported(path, wanted, RunSettings(trace=False, deadline_s=seconds(deadline)), jobs)
        unknown = sorted(scanned.called - {each.function for each in found})
        for name, why in scanned.unreadable.items():
            complain(f"{name}: not parsed: {why}")
        if as_json:
            json.dump(_object(scanned, found, unknown), out, indent=1)
            out.write("\n")
        else:
            _print(scanned, found, unknown, every, out)
        if sarif is not None:
            from mindgap.report.sarif import sarif_of_portability

            write_file(sarif, sarif_of_portability(found, path))
    return status_of_uses(scanned, found)


def status_of_uses(scanned: CodeScan, found: Sequence[FunctionUse]) -> Exit:
    """Returns the exit status: findings outweigh files that do not parse, and platforms of which nothing is known."""
    if any(each.stops for each in found):
        return Exit.FINDINGS
    known = {name for each in found for name, ported in each.platforms.items() if ported.word != "not known"}
    silent = [name for name in (found[0].platforms if found else ()) if name not in known]
    for name in silent:
        complain(f"NOTHING IS KNOWN OF {name}: no sample of any function was compared")
    return Exit.WRONG_USE if silent or scanned.unreadable or not found else Exit.NOTHING_FOUND


def _ported(
    path: Path, platforms: Sequence[PlatformName], settings: RunSettings, jobs: int | None
) -> tuple[CodeScan, list[FunctionUse]]:
    """Scans the code and tries what it uses. Raises `MindgapError` where nothing could be tried."""
    from mindgap.graph.tensors import default_tensor_store
    from mindgap.models.corpus.operator_samples.public_names import method_names, sources_of
    from mindgap.workflows.diff import diff_many
    from mindgap.workflows.support.portability import ported_functions

    scanned = scan(path, method_names())
    sources = {full: found for full in scanned.uses if (found := sources_of(full))}
    if not sources:
        raise MindgapError(f"{path}: {scanned.files} files call no function of PyTorch that has samples to try")
    functions: dict[str, str] = {}

    def named(client: SourceClient) -> Iterator[Subject]:
        for full, each in sources.items():
            for subject in subjects(each, [], client):
                functions[subject.name] = full
                yield subject

    tensors = default_tensor_store()
    with progress() as tell, source_client(tensors, settings.deadline_s, None) as client:
        report = diff_many(list(named(client)), platforms, settings=settings, progress=tell, tensors=tensors, jobs=jobs)
    if not report.rows:
        first = report.refused[0].reason if report.refused else "no sample was captured"
        raise MindgapError(f"{path}: nothing was compared: {first}")
    return scanned, ported_functions(scanned.uses, functions, report, platforms)


def _object(scanned: CodeScan, found: Sequence[FunctionUse], unknown: Sequence[str]) -> dict[str, Any]:
    return {
        "files": scanned.files,
        "unreadable": dict(scanned.unreadable),
        "functions": [
            {
                "function": each.function,
                "places": [str(place) for place in each.places],
                "platforms": {name: dataclasses.asdict(ported) for name, ported in each.platforms.items()},
            }
            for each in found
        ],
        "not_tried": {name: [str(place) for place in scanned.uses[name]] for name in unknown},
    }


def _print(scanned: CodeScan, found: Sequence[FunctionUse], unknown: Sequence[str], every: bool, out: TextIO) -> None:
    from mindgap.workflows.support.portability import WORDS

    page = console(out)
    names = list(found[0].platforms)
    shown = [each for each in found if every or each.stops]
    if shown:
        table = plain_table("function", "lines", *names)
        for each in shown:
            places = ", ".join(map(str, each.places[:_PLACES]))
            more = len(each.places) - _PLACES
            table.add_row(
                each.function,
                f"{places}{f' and {more} more' if more > 0 else ''}",
                *map(_cell, each.platforms.values()),
            )
        page.print(table)
    for each in shown:
        for name, ported in each.platforms.items():
            if ported.reason:
                page.print(Text(f"{each.function} on {name}: {ported.reason[:_REASON]}  [{ported.sample}]"))
    for name in names:
        words = [each.platforms[name].word for each in found]
        counts = ", ".join(f"{word}: {words.count(word)}" for word in WORDS if word in words)
        page.print(Text(f"{name}, of {len(found)} functions: {counts}"))
    left = f"; {len(unknown)} other names of PyTorch are called, which have no samples to try" if unknown else ""
    page.print(Text(f"{scanned.files} files{left}"))


def _cell(ported: Ported) -> str:
    return f"{ported.word} ({ported.ran} of {ported.compared})" if ported.word == "in part" else ported.word
