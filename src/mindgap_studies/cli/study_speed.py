"""Implements `mindgap study speed`: the time of models after compilation, with the verdict beside it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mindgap.cli.diff import Deadline, Jobs, seconds
from mindgap.cli.progress import progress
from mindgap.cli.sources import source_client, subjects
from mindgap.cli.streams import Exit, result_stream, status_of
from mindgap.graph import Graph, TensorStore
from mindgap.platforms.name import CPU_EAGER, PlatformName
from mindgap.platforms.registry import canonical
from mindgap.results.settings import DEADLINE_S, RunSettings
from mindgap_surveys.cli.study_text import print_page
from mindgap_surveys.report.study_page import Section, StudyPage, Text, cell_text
from mindgap_surveys.table import StudyTable

if TYPE_CHECKING:
    from mindgap.results.rows import Report, Row
    from mindgap.source_worker.client import SourceClient
    from mindgap.workflows.diff import Subject
    from mindgap_surveys.support.node_times import NodeTime
    from mindgap_surveys.support.operator_times import OperatorTimes

#: Operators of one model that are printed; `--json` has all.
_OPERATORS = 8
#: Models, their operators' times, and those of nodes inside a run by platform, or why there are none.
Costs = Iterator[tuple[str, "OperatorTimes", Mapping[str, "list[NodeTime] | str"]]]


def speed(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE…", help="Models, as of `mindgap diff`.")],
    platforms: Annotated[
        list[str], typer.Option("-p", "--platform", help="As `mindgap platforms` lists them; may repeat.")
    ],
    repeat: Annotated[int, typer.Option(min=2, help="Runs of each model; the first is not counted.")] = 9,
    operators: Annotated[
        bool,
        typer.Option(
            "--operators",
            help="Also time each operator of a model by itself, and the nodes inside its run where a profiler tells.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Every row, and every operator.")] = False,
    deadline: Deadline = DEADLINE_S,
    jobs: Jobs = 1,
) -> int:
    """Say which models are slower on a platform than in eager mode after compilation, and which are fast and wrong.

    Example: mindgap study speed timm:resnet18 transformers:bert -p cpu/inductor -p onnxruntime/cpu --operators
    """
    wanted = [canonical(each) for each in platforms]
    settings = RunSettings(trace=False, repeat=repeat, deadline_s=seconds(deadline))
    with result_stream() as out:
        report, costs = _measured(sources, wanted, settings, jobs, operators)
        rows = [_object(report, row) for row in report.rows]
        if as_json:
            timed = {name: _timed_object(each, nodes) for name, each, nodes in costs}
            refused = [{"source": each.source, "reason": each.reason} for each in report.refused]
            answer = {"rows": rows, "platforms": _totals(rows), "operators": timed, "refused": refused}
            json.dump(answer, out, indent=1)
            out.write("\n")
        else:
            print_page(_page(rows), out)
            for each in report.refused:
                out.write(f"{each.source}: {each.reason}\n")
            out.flush()
            for name, times, nodes in costs:
                print_page(_costs_page(name, wanted, times, nodes), out)
    return Exit(status_of(report))


def _measured(
    sources: Sequence[str], platforms: Sequence[PlatformName], settings: RunSettings, jobs: int | None, operators: bool
) -> tuple[Report, Costs]:
    """Returns the report, and the times of operators, each model's measured when it is taken."""
    from mindgap.graph.tensors import default_tensor_store
    from mindgap.workflows.diff import diff_many

    tensors = default_tensor_store()
    graphs: dict[str, Graph] = {}
    opened: dict[str, str] = {}

    def kept(client: SourceClient) -> Iterator[Subject]:
        for subject in subjects(sources, [], client):
            opened[subject.name] = subject.source
            yield dataclasses.replace(
                subject, graph=lambda subject=subject: graphs.setdefault(subject.name, subject.graph())
            )

    with progress() as tell, source_client(tensors, settings.deadline_s, None) as client:
        report = diff_many(list(kept(client)), platforms, settings=settings, progress=tell, tensors=tensors, jobs=jobs)
    return report, _costs(graphs, opened, platforms, tensors, settings) if operators else iter(())


def _costs(
    graphs: Mapping[str, Graph], opened: Mapping[str, str], platforms: Sequence[PlatformName], tensors: TensorStore,
    settings: RunSettings,
) -> Costs:  # fmt: skip
    """`opened`: the source of each model, which node times need."""
    from mindgap.run.pool import WorkerPool
    from mindgap_surveys.support.node_times import node_times
    from mindgap_surveys.support.operator_times import operator_times

    every = [CPU_EAGER, *(each for each in platforms if each != CPU_EAGER)]
    with WorkerPool(every, tensors=tensors, busy=1) as pool:
        for name, graph in graphs.items():
            times = operator_times(graph, every, pool.run, tensors, settings.repeat)
            yield name, times, node_times(opened[name], every, settings.repeat, settings.deadline_s)


def _timed_object(times: OperatorTimes, nodes: Mapping[str, list[NodeTime] | str]) -> dict[str, Any]:
    """What `--json` has of a model's operators and nodes."""
    return {
        "left_out": times.left_out,
        "operators": [dataclasses.asdict(op) for op in times.operators],
        "nodes": {
            platform: {"reason": timed} if isinstance(timed, str) else {"nodes": list(map(dataclasses.asdict, timed))}
            for platform, timed in nodes.items()
        },
    }


def _object(report: Report, row: Row) -> dict[str, Any]:
    from mindgap_surveys.support.operator_times import seconds_of

    model = next(each for each in report.models if each.name == row.model)
    reference, here = seconds_of(model.timings), seconds_of(row.timings)
    both = bool(reference and here) and row.ran
    return {
        "model": row.model, "platform": row.platform, "verdict": row.word,
        "culprit": row.culprit.op if row.culprit else "",
        "reference_seconds": reference or None, "seconds": here if both else None,
        "slowdown": here / reference if both else None, "load_seconds": row.timings.get("load"),
        "message": " ".join(row.message.split()), "finding": row.finding,
    }  # fmt: skip


def _totals(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each platform: models with a time, those that are slower, by how much, those that are fast and wrong, and
    those without a verdict of their results."""
    import statistics

    from mindgap.graph.compare.verdict import CALM

    totals: list[dict[str, Any]] = []
    for platform in dict.fromkeys(row["platform"] for row in rows):
        mine = [row for row in rows if row["platform"] == platform and row["slowdown"] is not None]
        slower = [row["slowdown"] for row in mine if row["slowdown"] > 1]
        totals.append({
            "platform": platform, "models": len(mine), "slower": len(slower),
            "slower_share": len(slower) / len(mine) if mine else None,
            "median_slowdown": statistics.median(slower) if slower else None,
            "fast_and_wrong": sum(row["finding"] and row["slowdown"] <= 1 for row in mine),
            "slow_and_wrong": sum(row["finding"] and row["slowdown"] > 1 for row in mine),
            "not_judged": sum(not row["finding"] and row["verdict"] not in CALM for row in mine),
        })  # fmt: skip
    return totals


def _page(rows: Sequence[Mapping[str, Any]]) -> StudyPage:
    columns = ("model", "platform", "reference_seconds", "seconds", "slowdown", "load_seconds", "verdict", "culprit")
    cells = tuple((*(row[name] for name in columns[:-1]), row["culprit"] or row["message"][:60]) for row in rows)
    totals: list[Text] = []
    for each in _totals(rows):
        median = "" if each["median_slowdown"] is None else f", by {each['median_slowdown']:.2f}× in the median"
        totals.append(Text(
            f"{each['platform']}: {each['slower']} of {each['models']} models are slower than cpu/eager{median}; "
            f"fast and wrong: {each['fast_and_wrong']}, slow and wrong: {each['slow_and_wrong']}; "
            f"not judged: {each['not_judged']}"
        ))  # fmt: skip
    table = StudyTable("speed", "", columns, cells)
    return StudyPage("Time of models after compilation", (), (Section("speed", "Models", (table, *totals)),))


def _costs_page(
    name: str, platforms: Sequence[PlatformName], times: OperatorTimes, nodes: Mapping[str, list[NodeTime] | str]
) -> StudyPage:
    sections = [_operators(platform, times) for platform in platforms if platform != CPU_EAGER]
    for platform, timed in nodes.items():
        title = f"inside a run of {platform}, by the runtime's profiler"
        if isinstance(timed, str):
            sections.append(Section(platform, title, (Text(f"no times by node: {timed}"),)))
            continue
        total = sum(each.seconds for each in timed)
        rows = tuple((each.kind, each.nodes, each.seconds, each.seconds / (total or 1)) for each in timed[:_OPERATORS])
        table = StudyTable("", "", ("node", "nodes", "seconds", "share"), (*rows, ("all", None, total, 1.0)))
        sections.append(Section(platform, title, (table,)))
    return StudyPage(name, (), tuple(sections))


def _operators(platform: PlatformName, times: OperatorTimes) -> Section:
    known = [(lost, each) for each in times.operators if (lost := each.lost(platform, CPU_EAGER)) is not None]
    rows = tuple(
        (each.op, each.calls, each.seconds[CPU_EAGER], each.seconds[platform], lost)
        for lost, each in sorted(known, key=lambda pair: -pair[0])[:_OPERATORS]
    )
    columns = ("operator", "calls", "reference_seconds", "seconds", "more_seconds")
    alone = sum(each.seconds[platform] or 0.0 for _, each in known)
    whole = f"all by themselves: {cell_text('seconds', alone)}; {times.left_out} calls cannot be timed alone"
    refused = [(each.op, each.reasons[platform]) for each in times.operators if platform in each.reasons]
    blocks = (StudyTable("", "", columns, rows), Text(whole), *(Text(f"not by itself: {op}: {w}") for op, w in refused))
    return Section(platform, f"what costs {platform} most, each operator by itself", blocks)
