"""Implements `mindgap precision`, which names the operators that must stay in float32."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer
from rich.markup import escape
from rich.text import Text

from mindgap.cli.diff import AsJson, Deadline, Options, seconds
from mindgap.cli.outputs import check_files
from mindgap.cli.sources import CaptureEnv, OnlyPlatform, only_program, source_client, with_options
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.cli.tables import Lines, console, plain_table
from mindgap.cli.trace import json_text
from mindgap.graph import Graph, MindgapError, default_tensor_store
from mindgap.platforms.registry import canonical
from mindgap.results.settings import DEADLINE_S

if TYPE_CHECKING:
    from mindgap_diagnosis.precision.finding import Precision

_FORMATS: Final = ("float16", "bfloat16", "int8")


def precision(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="As for mindgap diff; it names one model.")],
    platforms: OnlyPlatform,
    to: Annotated[str, typer.Option(metavar="FORMAT", help=f"{', '.join(_FORMATS)}: of the others.")] = "float16",
    bound: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Largest error in an output, of its largest magnitude (default: 0.01)."),
    ] = None,
    flips: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Instead: at most N changed decisions (argmax).")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE.onnx", help="Also write the mixed model.")] = None,
    runs: Annotated[int, typer.Option(min=3, metavar="N", help="Runs of the platform, about.")] = 25,
    options: Options = None,
    capture_env: CaptureEnv = None,
    as_json: AsJson = False,
    deadline: Deadline = DEADLINE_S,
) -> int:
    """Name the fewest operators that must stay in float32 for the outputs to meet a bound, in a form to paste.

    The model in float64 is the reference. On onnxruntime/cpu and onnx/reference, ONNX Runtime's tools convert the file.
    To int8, NNCF does for openvino/cpu, PyTorch's pt2e flow for cpu/eager and cpu/inductor. On other platforms, casts
    are put around operators, as autocast does. Exit status: 1 where an operator must stay in
    float32, 0 where none must.

    Example: mindgap precision model.onnx -p onnxruntime/cpu --to int8 --bound 0.05 --save mixed.onnx
    """
    if to not in _FORMATS:
        raise MindgapError(f"--to {to}: it takes {', '.join(_FORMATS)}")
    if bound is not None and flips is not None:
        raise MindgapError("--bound and --flips exclude each other: give one")
    if bound is not None and not 0 < bound < float("inf"):
        raise MindgapError(f"--bound {bound:g}: it takes a number above 0, such as 0.01")
    # Imported late: other commands need no PyTorch.
    from mindgap.workflows.diff.platform_facts import facts_of
    from mindgap_diagnosis.precision.finding import Bound, find_precision
    from mindgap_diagnosis.precision.targets import opened_target
    from mindgap_diagnosis.precision.tool_runs import tool_of

    platform = canonical(platforms[0])
    facts_of([platform], reference=platform, skip_unavailable=False)
    tool = tool_of(platform, to)
    suffix = ".onnx" if tool is None else tool.suffix
    if save is not None and not suffix:
        raise MindgapError(f"--save {save}: PyTorch's pt2e flow writes no file here: give its quantizer the list")
    if save is not None and save.suffix != suffix:
        raise MindgapError(f"--save {save}: it writes a file of {suffix}: name one that ends in {suffix}")
    check_files(("--save", save))
    chosen = Bound(flips, "flips") if flips is not None else Bound(0.01 if bound is None else bound)
    tensors = default_tensor_store()
    named = with_options(source, options or [])
    with result_stream() as out, source_client(tensors, seconds(deadline), capture_env) as client:

        def capture(one: str) -> Graph:
            return client.capture(only_program(client, one), 0)

        with opened_target(capture, named, platform, to, tensors, seconds(deadline)) as target:
            answer, kept, exact = find_precision(target, chosen, source, runs)
            if save is not None:
                error = chosen.measured(exact, target.save(kept, save))
                if not error <= chosen.limit:
                    complain(f"--save {save}: loaded and run, it gives {error:.3g}, above {chosen.limit:g}, the bound")
                answer = dataclasses.replace(answer, saved=str(save), saved_error=error)
        out.write(json_text(answer)) if as_json else _print(answer, out)
    return Exit.FINDINGS if answer.kept else Exit.NOTHING_FOUND


def _print(answer: Precision, out: TextIO) -> None:
    lines = Lines(out)
    count = f"{len(answer.kept) or 'none'} of {answer.operators} operators must stay in float32"
    time = "" if answer.time_share is None else f", with {answer.time_share:.0%} of the time in float32"
    share = f" ({len(answer.kept) / answer.operators:.0%}{time})" if answer.kept else ""
    lines.put(Text(f"{answer.model} on {answer.platform} in {answer.to}: {count}{share}", style="bold"))
    lines.put(Text())
    if answer.kept:
        table = plain_table("operator", "kind", "line", "given back")
        for each in answer.kept:
            without = "not tried" if each.given_back is None else f"{each.given_back:.3g}"
            cells = each.name or "(model)", each.kind, each.line, "no kernel" if each.refused else without
            table.add_row(*map(escape, cells))
        console(out).print(table)
        lines.put(Text())
    if answer.carriers:
        lines.put(Text(f"With them in the list: {len(answer.carriers)} nodes that only move data between them."))
        lines.put(Text())
    lines.put(Text("; ".join(_facts(answer))))
    for note in answer.notes:
        lines.put(Text(f"Note: {note}."))
    for tool, text in answer.lists.items():
        out.write(f"\n# {tool}\n{text}\n")


def _facts(answer: Precision) -> list[str]:
    what = "error" if answer.measure == "error" else "changed decisions"
    after = f"{answer.before:.3g} without them, {answer.after:.3g} with them" if answer.kept else f"{answer.after:.3g}"
    facts = [f"{what} {after}"]
    if answer.all_float32 is not None:
        facts.append(f"{answer.all_float32:.3g} with all in float32")
    facts.append(f"bound {answer.bound:g}; {answer.runs} run{'s'[: answer.runs > 1]}")
    if not answer.minimal:
        facts.append("operators were given back several at a time: more runs (--runs) may shorten the list")
    if answer.saved:
        facts.append(f"{answer.saved} was loaded and run: {answer.saved_error:.3g}")
    return facts
