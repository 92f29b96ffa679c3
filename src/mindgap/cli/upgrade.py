"""Implements `mindgap upgrade`, which says what another version changes for models."""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final, TextIO

import typer
from rich.text import Text

from mindgap.cli.diff import AsJson, Deadline, Jobs, Junit, Options, say_loudly, seconds
from mindgap.cli.known_findings import known_findings
from mindgap.cli.numbers import seconds_of
from mindgap.cli.outputs import check_files, each_alone, write_file
from mindgap.cli.progress import progress
from mindgap.cli.sources import CaptureEnv, Inside, inside_option, source_client, subjects
from mindgap.cli.status import Exit
from mindgap.cli.streams import result_stream
from mindgap.cli.tables import console, plain_table
from mindgap.diff import DiffInterrupted, Report, Row, RunSettings, StoreNotWritten
from mindgap.diff.upgrade import CHANGES, TO_LOOK_AT, PlatformUpgrade, change_of
from mindgap.diff.upgrade import upgrade as run_upgrade
from mindgap.environments import find
from mindgap.graph import MindgapError, default_tensor_store
from mindgap.report.words import detail_line
from mindgap.store import Store

_WRONG: Final = {"platform": "the new version", "reference": "the old version", "undecided": "undecided"}
_QUIET: Final = frozenset(("calm", "same", "absent"))


def upgrade(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE…", help="FILE.py:callable, package.module:callable, timm:NAME, graph:FILE, …"),
    ],
    platforms: Annotated[
        list[str], typer.Option("-p", "--platform", metavar="PLATFORM", help="DEVICE/MODE[@key=value,…]; may repeat.")
    ],
    before: Annotated[
        str | None,
        typer.Option("--from", metavar="ENV", help="The environment with the old versions (default: mindgap's own)."),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option("--to", metavar="ENV", help="The environment with the new versions (default: mindgap's own)."),
    ] = None,
    options: Options = None,
    capture_env: CaptureEnv = None,
    inside: Inside = None,
    backward: Annotated[bool, typer.Option("--backward", help="As for mindgap diff.")] = False,
    as_json: AsJson = False,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write the page; of several platforms FILE-1, FILE-2, …, in their order."
        ),
    ] = None,
    junit: Junit = None,
    store: Annotated[str | None, typer.Option(metavar="DIR", help="As for mindgap diff.")] = None,
    baseline: Annotated[Path | None, typer.Option(metavar="FILE", help="As for mindgap diff.")] = None,
    update_baseline: Annotated[bool, typer.Option("--update-baseline", help="Write the findings to it.")] = False,
    deadline: Deadline = 300.0,
    budget: Annotated[str | None, typer.Option(metavar="TIME", help="As for mindgap diff.")] = None,
    jobs: Jobs = None,
) -> int:
    """Say what another version changes for models: which operator, which version is right, is it more than rounding.

    Exit status 1 where the new version is wrong, fails, refuses what ran, or differs and neither is known to be right.

    Example: mindgap upgrade model.py:make --to torch214 -p cpu/eager -p cpu/inductor
    """
    if update_baseline and baseline is None:
        raise MindgapError("--update-baseline needs --baseline FILE, the file to write")
    limit = None if budget is None else seconds_of("--budget", budget)
    settings = RunSettings(deadline_s=seconds(deadline), budget_s=limit)
    mark_known = known_findings(baseline, update_baseline)
    pages = _pages(html, len(set(platforms)))
    check_files(
        *(("--html", page) for page in pages), ("--junit", junit), ("--baseline", baseline if update_baseline else None)
    )
    for name in (before, after):
        if name is not None:
            find(name)
    tensors = default_tensor_store()
    with result_stream() as out:
        with progress() as tell, source_client(tensors, settings.deadline_s, capture_env, limit) as client:
            try:
                found = run_upgrade(
                    subjects(sources, [*(options or []), *inside_option(inside)], client, backward), platforms,
                    before, after, settings=settings, progress=tell, tensors=tensors, jobs=jobs,
                    store=None if store is None else Store(store),
                )  # fmt: skip
            except DiffInterrupted as error:
                say_loudly(error.report)
                raise KeyboardInterrupt from None
            except StoreNotWritten as error:
                raise MindgapError(f"the store is incomplete: {error}") from None
        found = _marked(found, mark_known)
        if as_json:
            about = {"from": before, "to": after, "platforms": [each.as_json() for each in found]}
            out.write(json.dumps(about, indent=1) + "\n")
        else:
            _print(found, out)
        written = each_alone([
            *([] if junit is None else [partial(_junit, junit, found)]),
            *(partial(_page, page, each.report) for page, each in zip(pages, found, strict=False)),
        ])  # fmt: skip
    for each in found:
        say_loudly(each.report)
    return (Exit.NOTHING_FOUND if written else Exit.WRONG_USE) or _status(found)


def _status(found: Sequence[PlatformUpgrade]) -> Exit:
    reports = [each.report for each in found]
    if any(report.totals.broken for report in reports):
        return Exit.TOOL_FAILED
    for each in found:
        for row, change in zip(each.report.rows, each.changes, strict=True):
            if change in TO_LOOK_AT and not row.known:
                return Exit.FINDINGS
    unknown = any("unknown" in each.totals for each in found)
    return Exit.WRONG_USE if unknown or any(r.refused or r.nothing for r in reports) else Exit.NOTHING_FOUND


def _marked(found: Sequence[PlatformUpgrade], mark_known: Callable[[Report], Report]) -> list[PlatformUpgrade]:
    """Marks what the baseline knows, in all platforms at once: what one lacks another may have. A baseline is asked for
    what is to be looked at only: a finding of the old version must not hide one of the new version."""
    calm = {
        (number, at): dataclasses.replace(row, verdict="rounding", faults=())
        for number, each in enumerate(found)
        for at, (row, change) in enumerate(zip(each.report.rows, each.changes, strict=True))
        if row.finding and change not in TO_LOOK_AT
    }
    together = _together(found, calm)
    rows = iter(mark_known(together).rows)
    marked: list[PlatformUpgrade] = []
    for number, each in enumerate(found):
        new = [next(rows) for _ in each.report.rows]
        kept = [each.report.rows[at] if (number, at) in calm else row for at, row in enumerate(new)]
        marked.append(dataclasses.replace(each, report=dataclasses.replace(each.report, rows=tuple(kept))))
    return marked


def _together(found: Sequence[PlatformUpgrade], instead: Mapping[tuple[int, int], Row] | None = None) -> Report:
    """One report of all platforms, for what looks at its rows only. `instead`: rows by platform and position."""
    first = found[0].report
    models = {model.name: model for each in found for model in each.report.models}
    rows = [
        (instead or {}).get((number, at), row)
        for number, each in enumerate(found)
        for at, row in enumerate(each.report.rows)
    ]
    return dataclasses.replace(first, models=tuple(models.values()), rows=tuple(rows))


def _junit(file: Path, found: Sequence[PlatformUpgrade]) -> None:
    from mindgap.report import junit_xml

    ran = {
        (model.name, each.after): model.reference_status in ("ok", "nondeterministic")
        for each in found
        for model in each.report.models
    }

    def fails(row: Row) -> bool | None:
        change = change_of(row, before_ran=ran.get((row.model, row.platform), False))
        return None if change == "unknown" or row.known else change in TO_LOOK_AT

    # A platform that compared nothing says so in a suite of its own.
    parts = [junit_xml(dataclasses.replace(each.report, refused=()), fails) for each in found if each.report.nothing]
    together = _together([each for each in found if not each.report.nothing] or found)
    write_file(file, _joined([junit_xml(together, fails), *(parts if len(parts) < len(found) else [])]))


def _joined(documents: Sequence[str]) -> str:
    first, *others = (ET.fromstring(text) for text in documents)
    for other in others:
        first.extend(other)
        for name in ("tests", "failures", "errors", "skipped"):
            first.set(name, str(int(first.get(name, "0")) + int(other.get(name, "0"))))
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(first, encoding="unicode") + "\n"


def _page(file: Path, report: Report) -> None:
    from mindgap.report import html_page

    write_file(file, html_page(report))


def _pages(html: Path | None, count: int) -> list[Path]:
    if html is None or count == 1:
        return [] if html is None else [html]
    return [html.with_name(f"{html.stem}-{number}{html.suffix}") for number in range(1, count + 1)]


def _print(found: Sequence[PlatformUpgrade], out: TextIO) -> None:
    page = console(out)
    for each in found:
        versions = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in each.versions.items())
        page.print(Text(f"{each.before} -> {each.after}: {versions}", style="bold"))
        rows = sorted(
            (
                (CHANGES.index(change), change, row)
                for row, change in zip(each.report.rows, each.changes, strict=True)
                if change not in _QUIET
            ),
            key=lambda item: item[0],
        )
        if rows:
            table = plain_table("model", "change", "verdict", "operator", "which is wrong", "what happened")
            for _, change, row in rows:
                operator = row.culprit.op if row.culprit else ""
                known = " (known)" if row.known else ""
                wrong = _WRONG.get(row.blame or "", "")
                happened = Text(detail_line(row) if row.finding else row.detail or row.message)
                table.add_row(row.model, change + known, row.word.replace("_", " "), operator, wrong, happened)
            page.print(table)
        totals = ", ".join(f"{count} {change}" for change, count in each.totals.items()) or "nothing"
        page.print(f"{len(each.report.rows)} models: {totals}", highlight=False)
