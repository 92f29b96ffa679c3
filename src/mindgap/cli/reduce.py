"""Implements `mindgap reduce`, which writes a reproducer for each finding in a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from mindgap.cli.cause_outputs import CauseOutputs, LedgerFile, SarifFile, UpdateLedger
from mindgap.cli.diff import Deadline, Options, seconds
from mindgap.cli.numbers import finite
from mindgap.cli.progress import counting
from mindgap.cli.sources import CaptureEnv, source_client, subjects
from mindgap.cli.streams import Exit, complain, complain_refused, result_stream
from mindgap.graph import Graph, MindgapError, default_tensor_store
from mindgap.graph.compare.metrics import distance
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.own_path.client import OwnPathClient
from mindgap.own_path.sizes import FAR
from mindgap.platforms.name import PlatformName
from mindgap.platforms.registry import canonical
from mindgap.results.rows import Row
from mindgap.results.settings import DEADLINE_S, RunSettings
from mindgap.run.extensions import service
from mindgap.source_worker.client import FileUntranslated
from mindgap.workflows.diff.platform_facts import facts_of
from mindgap.workflows.diff.subject import Subject

if TYPE_CHECKING:
    from mindgap.findings.reduction import ReductionLimits
    from mindgap.findings.reduction.files import Summary


def reduce(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE…", help="As for mindgap diff.")],
    platforms: Annotated[list[str], typer.Option("-p", "--platform", metavar="PLATFORM", help="May be repeated.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the scripts and reports go.")] = Path(
        "reduced"
    ),
    reference: Annotated[str, typer.Option(metavar="PLATFORM", help="As for mindgap diff.")] = "cpu/eager",
    options: Options = None,
    capture_env: CaptureEnv = None,
    backward: Annotated[bool, typer.Option("--backward", help="As for mindgap diff.")] = False,
    checks: Annotated[int, typer.Option(min=1, help="How often the platform may be tried for one finding.")] = 1000,
    limit: Annotated[
        float, typer.Option("--seconds", min=1, callback=finite, help="How long one finding may take.")
    ] = 120.0,
    deadline: Deadline = DEADLINE_S,
    ledger: LedgerFile = None,
    update_ledger: UpdateLedger = False,
    sarif: SarifFile = None,
) -> int:
    """Reduce each fault of each finding to a small program, and write a script that shows it without mindgap.

    Every script is run twice in a fresh process before it is called verified. causes.json lists the distinct causes,
    worst first. Exit status: 1 where there are findings, 0 where there are none.

    Example: mindgap reduce timm:resnet18 -p onnxruntime/cpu --out reduced
    """
    from mindgap.findings.causes import ReducedGroup, causes_of
    from mindgap.findings.reduction import ReductionLimits
    from mindgap.run.pool import WorkerPool

    outputs = CauseOutputs.checked(out, ledger, update_ledger, sarif)
    settings = RunSettings(canonical(reference), deadline_s=seconds(deadline))
    tensors = default_tensor_store()
    wanted = list(dict.fromkeys(canonical(platform) for platform in platforms))
    facts_of([settings.reference, *wanted], reference=settings.reference, skip_unavailable=False)
    findings = compared = refused = 0
    groups: list[ReducedGroup] = []
    ran: set[PlatformName] = set()
    incomplete: set[PlatformName] = set()
    with (
        result_stream() as stream,
        WorkerPool([settings.reference, *wanted], tensors=tensors, grows=True) as pool,
        source_client(tensors, settings.deadline_s, capture_env) as client,
        OwnPathClient(settings.deadline_s) as files,
        counting() as tick,
    ):
        context = RunContext(pool.run, settings, tensors, pool.describe)
        for subject in subjects(sources, options or [], client, backward, None if backward else files):
            try:
                graph = subject.captured()
            except FileUntranslated as error:
                tried = [_reduce_file(subject, None, platform, out, stream) for platform in wanted]
                ran_files = [each for each in tried if each is not None]
                findings, compared = findings + sum(ran_files), compared + len(ran_files)
                if not ran_files:
                    refused += 1
                    complain_refused(subject.name, error)
                continue
            except MindgapError as error:
                refused += 1
                complain_refused(subject.name, error)
                continue
            comparison = GraphComparison(context, subject.name, graph)
            for platform in wanted:
                tick(compared, 0, f"{subject.name} on {platform}")
                row = comparison.row(platform)
                if row.verdict is not None:
                    compared += 1
                    ran.add(platform)
                findings += row.finding
                for fault in row.by_fault:
                    text = f"{fault.word}: nothing to reduce"
                    if fault.finding:
                        summary, text = _reduced(context, graph, fault, ReductionLimits(checks, limit), out)
                        if summary is None:
                            incomplete.add(platform)
                            complain(f"not reduced: {subject.name} on {platform}: {text}")
                            continue
                        groups.append(ReducedGroup(summary, 1, (subject.name,)))
                    print(f"{subject.name} on {platform}: {text}", file=stream)
                findings += _reduce_file(subject, row, platform, out, stream) or 0
        if groups or ledger is not None:
            outputs.write(causes_of(groups), () if refused else ran - incomplete)
    if not compared:
        raise MindgapError("nothing was compared: no platform ran any source that the reference ran")
    if findings:
        return Exit.FINDINGS
    return Exit.WRONG_USE if refused else Exit.NOTHING_FOUND


def _reduce_file(subject: Subject, row: Row | None, platform: PlatformName, out: Path, stream: TextIO) -> int | None:
    """Cuts a model file that differs on a platform, and writes the first node with a script. Returns how many findings
    that gives; None where the platform does not run the file. `row`: of its graph, where it has one."""
    from mindgap.findings.script.file_script import write_file_script
    from mindgap.judge.pipeline.file_faults import is_named

    program = subject.program
    run = program.run(platform) if program is not None and program.reads(platform) else None
    if program is None or run is None or not run.fed:
        return None
    apart = None if run.outputs is None else 1.0
    if row is not None and run.outputs is not None:
        apart = distance(run.outputs, run.eager)
        if apart < FAR:
            return 0
    folder = out / subject.name
    nodes = program.wrong_nodes(platform, apart, folder=folder)
    if row is not None and is_named(row, nodes):
        return 0
    remedy = service("pass_of_file")(program, platform)
    state = f"{run.way} {'fails' if run.outputs is None else 'differs'}, and none of its nodes does alone"
    if nodes.nodes:
        script, first = write_file_script(folder, nodes, platform), nodes.nodes[0]
        shown = "shows it" if script.verified else f"does not show it ({script.said})"
        state = f"{first.name} ({first.op}): {script.path} {shown}"
    if nodes.nodes or remedy:
        right = f"\n  right with: {remedy}" if remedy else ""
        print(f"{subject.name} on {platform}: {state}{right}", file=stream)
        return 1
    if row is not None and not row.finding:
        complain(f"not reduced: {subject.name} on {platform}: {state}")
    return None if run.outputs is None else 0


def _reduced(
    context: RunContext, graph: Graph, fault: Row, limits: ReductionLimits, out: Path
) -> tuple[Summary | None, str]:  # fmt: skip
    """Reduces one fault and writes its files. Returns its summary, None where it could not be reduced, and a text."""
    from mindgap.findings.reduction.files import summary_text, write_finding
    from mindgap.findings.reduction.finding import reduce_finding

    try:
        summary = write_finding(out, reduce_finding(context, graph, fault, limits), tensors=context.tensors)
    except MindgapError as error:
        return None, f"{fault.word}: {error}"
    return summary, summary_text(summary, out)
