"""Implements `mindgap trace`, which compares two platforms value by value, or one platform with itself."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from mindgap.cli.diff import Deadline, Options, seconds
from mindgap.cli.numbers import whole_numbers
from mindgap.cli.outputs import check_files, write_file
from mindgap.cli.sources import CaptureEnv, OnlyPlatform, source_client, subjects
from mindgap.cli.streams import Exit, result_stream
from mindgap.graph import MindgapError, default_tensor_store
from mindgap.results.settings import DEADLINE_S
from mindgap.workflows.diff import Subject

if TYPE_CHECKING:
    from mindgap.judge.trace.value_dump import ValueDump
    from mindgap.judge.trace.value_trace import ValueTrace

#: Raised when a field changes its meaning or goes.
VERSION: Final = 1


def json_text(answer: Any, **derived: Any) -> str:
    """A dataclass, or a dictionary, as JSON: its fields under their names, `version`, and `derived`. An infinite number
    is `"inf"`."""
    fields = {"version": VERSION, **derived, **(answer if isinstance(answer, dict) else dataclasses.asdict(answer))}
    return json.dumps(_finite(fields), indent=1, allow_nan=False) + "\n"


def _index_text(trace: ValueTrace, dump: ValueDump) -> str:
    """The index of a dump: which sides are compared, and each written value with its files and its distances."""
    values = [
        {**dataclasses.asdict(value), "files": dump.files[value.number]}
        for value in trace.values if value.number in dump.files
    ]  # fmt: skip
    about = {"model": trace.model, "platform": str(trace.platform), "reference": str(trace.reference)}
    notes = {"probes": [dataclasses.asdict(probe) for probe in trace.probes], "unseen": dump.unseen, "values": values}
    return json.dumps(_finite({"version": VERSION, **about, **notes}), indent=1, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in cast("list[Any]", value)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def trace(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="As for mindgap diff; it names one model.")],
    platforms: OnlyPlatform,
    reference: Annotated[str, typer.Option(metavar="PLATFORM", help="What it is compared with.")] = "cpu/eager",
    options: Options = None,
    capture_env: CaptureEnv = None,
    backward: Annotated[bool, typer.Option("--backward", help="As for mindgap diff.")] = False,
    all_values: Annotated[bool, typer.Option("--all", help="Show every value, not only the turning points.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write a self-contained page.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The trace as JSON on standard output.")] = False,
    dump: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write every value of both sides as .npy, and index.json, into DIR."),
    ] = None,
    layer: Annotated[
        str | None, typer.Option(metavar="PATH", help="With --dump: only values of this submodule: layers.3.mlp.")
    ] = None,
    nodes: Annotated[
        str | None, typer.Option(metavar="FIRST..LAST", help="With --dump: only values of these nodes: 3..9.")
    ] = None,
    probes: Annotated[
        int, typer.Option(min=1, help="Of a compiled platform: how many graphs with further outputs may be compiled.")
    ] = 24,
    repeat: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Instead: run the model N times, and count distinct results.")
    ] = None,
    processes: Annotated[int, typer.Option(min=1, help="With --repeat: in how many new processes.")] = 1,
    threads: Annotated[
        str | None, typer.Option(metavar="1,2,4", help="With --repeat: on how many threads, one after the other.")
    ] = None,
    deadline: Deadline = DEADLINE_S,
) -> int:
    """Follow a difference through a model: which value differs first, and how the distance grows from node to node.

    With --repeat, the platform is compared with itself. Exit status: 1 where anything differs, 0 where every digest is
    equal, 2 where nothing was compared.

    Example: mindgap trace timm:resnet18 -p onnxruntime/cpu --html trace.html
    """
    # Imported late: other commands need no PyTorch.
    from mindgap.cli.trace_tables import print_repeats, print_trace
    from mindgap.judge.trace.probing import ProbeLimits
    from mindgap.judge.trace.value_dump import new_dump
    from mindgap.workflows.diff.tracing import repeat_graph, trace_graph

    if repeat is None and (processes > 1 or threads):
        raise MindgapError("--processes and --threads count results of repeated runs: they need --repeat N")
    if repeat is not None and html is not None:
        raise MindgapError("--html shows a trace: it cannot be used with --repeat")
    if repeat is not None and dump is not None:
        raise MindgapError("--dump writes the values of a trace: it cannot be used with --repeat")
    if dump is None and (layer is not None or nodes is not None):
        raise MindgapError("--layer and --nodes choose the values that --dump DIR writes: they need --dump DIR")
    check_files(("--html", html))
    kept = None if dump is None else new_dump(dump, layer, nodes)
    counts = [] if threads is None else whole_numbers("--threads", threads)
    limits = ProbeLimits(probes, seconds(deadline))
    tensors = default_tensor_store()
    with result_stream() as out, source_client(tensors, limits.deadline_s, capture_env) as client:
        subject = _one(list(subjects([source], options or [], client, backward)), source)
        graph = subject.captured()
        if repeat is not None:
            report = repeat_graph(
                graph, platforms[0], repeat, processes=processes, threads=counts, tensors=tensors,
                deadline_s=limits.deadline_s, model=subject.name,
            )  # fmt: skip
            text, different = json_text(report, results=report.results), len(report.results) > 1
            if not as_json:
                print_repeats(report, out)
        else:
            traced = trace_graph(
                graph,
                platforms[0],
                reference=reference,
                tensors=tensors,
                limits=limits,
                model=subject.name,
                dump=kept,
            )
            text, different = json_text(traced, diverged=traced.diverged), traced.diverged
            if not as_json:
                print_trace(traced, out, everything=all_values)
            if kept is not None:
                write_file(kept.directory / "index.json", _index_text(traced, kept))
                count = sum(map(len, kept.files.values()))
                unseen = "".join(f"; {len(n)} not seen on the {side}" for side, n in kept.unseen.items() if n)
                (sys.stderr if as_json else out).write(
                    f"{count} files of {len(kept.files)} values, and index.json: {kept.directory}{unseen}\n"
                )
            if html is not None:
                from mindgap.report.trace_page import trace_page

                write_file(html, trace_page(traced))
        if as_json:
            out.write(text)
    return Exit.FINDINGS if different else Exit.NOTHING_FOUND


def _one(subjects: Sequence[Subject], source: str) -> Subject:
    """The only model of a source."""
    if len(subjects) != 1:
        raise MindgapError(f"{source} names {len(subjects)} models: name one, as in `mindgap trace timm:resnet18`")
    return subjects[0]
