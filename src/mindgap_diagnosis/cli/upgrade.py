"""Implements `mindgap upgrade`, which says what another version changes for models."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from mindgap.cli.diff import AsJson, Deadline, Jobs, Junit, Options, report_problems, seconds
from mindgap.cli.numbers import budget_left, finite
from mindgap.cli.outputs import check_directory, check_files, each_alone, put_known
from mindgap.cli.progress import progress
from mindgap.cli.sources import CaptureEnv, Inside, Steps, TakenPath, Text, capture_options, source_client, subjects
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.findings.known import load_known
from mindgap.graph import MindgapError, TensorStore, default_tensor_store
from mindgap.own_path.client import OwnPathClient
from mindgap.platforms.environments import find
from mindgap.results.run_record import opened_store
from mindgap.results.settings import DEADLINE_S
from mindgap.workflows.diff import DiffInterrupted, RunSettings, StoreNotWritten
from mindgap_diagnosis.cli.upgrade_outputs import json_text, page, print_upgrade, write_junit
from mindgap_diagnosis.versions.upgrade import (
    TO_LOOK_AT,
    PlatformUpgrade,
    Upgrade,
    mark_known_changes,
    upgrade as run_upgrade,
)

if TYPE_CHECKING:
    from mindgap_diagnosis.versions.version_changes import ReducedChange


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
    path_taken: TakenPath = False,
    steps: Steps = None,
    text: Text = None,
    backward: Annotated[bool, typer.Option("--backward", help="As for mindgap diff.")] = False,
    as_json: AsJson = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the page.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Reduce each change, and write scripts that run with both versions."),
    ] = None,
    checks: Annotated[int, typer.Option(min=1, help="With --out: as for mindgap reduce.")] = 1000,
    limit: Annotated[
        float, typer.Option("--seconds", min=1, callback=finite, help="With --out: as for mindgap reduce.")
    ] = 120.0,
    junit: Junit = None,
    store: Annotated[str | None, typer.Option(metavar="DIR", help="As for mindgap diff.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Do not run what the store has of these versions.")] = False,
    baseline: Annotated[Path | None, typer.Option(metavar="FILE", help="As for mindgap diff.")] = None,
    update_baseline: Annotated[bool, typer.Option("--update-baseline", help="Write the findings to it.")] = False,
    deadline: Deadline = DEADLINE_S,
    budget: Annotated[str | None, typer.Option(metavar="TIME", help="As for mindgap diff.")] = None,
    jobs: Jobs = None,
) -> int:
    """Say what another version changes for models: which operator, which version is right, is it more than rounding.

    Exit status 1 where the new version is wrong, fails, refuses what ran, or differs and neither is known to be right.
    With --out, a script for each distinct change is run with both versions.

    Example: mindgap upgrade model.py:make --to torch214 -p cpu/eager -p cpu/inductor
    """
    if update_baseline and baseline is None:
        raise MindgapError("--update-baseline needs --baseline FILE, the file to write")
    budget_s = None if budget is None else budget_left("--budget", budget)
    settings = RunSettings(deadline_s=seconds(deadline), budget_s=budget_s)
    known = None if baseline is None else load_known(baseline, create=update_baseline)
    check_files(("--html", html), ("--junit", junit), ("--baseline", baseline if update_baseline else None))
    if out is not None:
        check_directory("--out", out)
    for name in (before, after):
        if name is not None:
            find(name)
    tensors = default_tensor_store()
    with result_stream() as stream:
        with (
            progress() as tell,
            source_client(tensors, settings.deadline_s, capture_env, budget_s) as client,
            OwnPathClient(settings.deadline_s, budget_s=budget_s) as files,
        ):
            try:
                requested = [*(options or []), *capture_options(inside, path_taken, steps, text)]
                opened = subjects(sources, requested, client, backward, None if backward else files)
                result = run_upgrade(
                    opened, platforms, before, after, settings=settings, progress=tell, tensors=tensors, jobs=jobs,
                    store=None if store is None else opened_store(store), resume=resume,
                )  # fmt: skip
            except DiffInterrupted as error:
                report_problems(error.report)
                raise KeyboardInterrupt from None
            except StoreNotWritten as error:
                raise MindgapError(f"the store is incomplete: {error}") from None
        if known is not None:
            changed, marked = mark_known_changes(result.platforms, known, accept=update_baseline)
            put_known(marked.notes, marked.text, baseline if update_baseline else None)
            result = dataclasses.replace(result, platforms=changed)
        if not as_json:
            print_upgrade(result, stream)
        reduced = [] if out is None else _reduced(result, out, settings, tensors, (checks, limit), stream, as_json)
        if as_json:
            stream.write(json_text(result, reduced, before, after))
        written = each_alone([
            *([] if junit is None else [partial(write_junit, junit, result.platforms)]),
            *([] if html is None else [partial(page, html, result, reduced, out)]),
        ])  # fmt: skip
    for each in result.platforms:
        report_problems(each.report)
    return (Exit.NOTHING_FOUND if written else Exit.WRONG_USE) or _status(result.platforms)


def _reduced(
    result: Upgrade, out: Path, settings: RunSettings, tensors: TensorStore, limits: tuple[int, float], stream: TextIO,
    quiet: bool,
) -> list[ReducedChange]:  # fmt: skip
    """Writes a script for each distinct change and runs it with both versions; then the pages of causes."""
    from mindgap.cli.cause_outputs import CauseOutputs
    from mindgap.findings.causes import ReducedGroup, causes_of
    from mindgap.findings.reduction import ReductionLimits
    from mindgap.findings.reduction.files import summary_text
    from mindgap.judge.pipeline.comparison import RunContext
    from mindgap.run.pool import WorkerPool
    from mindgap_diagnosis.versions.version_changes import reduce_changes

    reduced: list[ReducedChange] = []
    groups: list[ReducedGroup] = []
    names = [name for each in result.platforms for name in (each.before, each.after)]
    with WorkerPool(names, tensors=tensors, grows=True) as pool:
        context = RunContext(pool.run, settings, tensors, pool.describe)
        for upgraded in result.platforms:
            for each in reduce_changes(upgraded, result.graph, context, out, ReductionLimits(*limits)):
                reduced.append(each)
                models = f"{each.models[0]}{f' and {len(each.models) - 1} more' if len(each.models) > 1 else ''}"
                if each.summary is None:
                    complain(f"not reduced: {models} on {each.platform}: {each.reason}")
                    continue
                groups.append(ReducedGroup(each.summary, len(each.models), each.models))
                if not quiet:
                    stream.write(f"{each.change}: {models} on {each.platform}: {summary_text(each.summary, out)}\n")
    if groups:
        CauseOutputs(out, None, None, None).write(causes_of(groups), ())
    return reduced


def _status(platforms: Sequence[PlatformUpgrade]) -> Exit:
    reports = [each.report for each in platforms]
    if any(report.totals.broken for report in reports):
        return Exit.TOOL_FAILED
    for each in platforms:
        for row, change in zip(each.report.rows, each.changes, strict=True):
            if change in TO_LOOK_AT and not row.known:
                return Exit.FINDINGS
    unknown = any("unknown" in each.totals for each in platforms)
    return Exit.WRONG_USE if unknown or any(r.refused or r.nothing for r in reports) else Exit.NOTHING_FOUND
