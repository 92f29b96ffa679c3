"""Implements `mindgap precision`, which names the operators that must stay in float32."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
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
from mindgap.graph import Array, Graph, MindgapError, default_tensor_store
from mindgap.platforms.registry import canonical
from mindgap.results.settings import DEADLINE_S

if TYPE_CHECKING:
    from mindgap_diagnosis.precision.result import Bound, KeptOperator, Precision
    from mindgap_diagnosis.precision.targets import FileTarget, GraphTarget

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
    _check(to, bound, flips)
    # Imported late: other commands need no PyTorch.
    from mindgap.workflows.diff.platform_facts import facts_of
    from mindgap_diagnosis.precision.finding import find_precision
    from mindgap_diagnosis.precision.result import Bound
    from mindgap_diagnosis.precision.targets import opened_target
    from mindgap_diagnosis.precision.tool_runs import tool_of

    platform = canonical(platforms[0])
    facts_of([platform], reference=platform, skip_unavailable=False)
    tool = tool_of(platform, to)
    _check_file(save, ".onnx" if tool is None else tool.suffix)
    chosen = Bound(flips=flips) if flips is not None else Bound(0.01 if bound is None else bound)
    tensors = default_tensor_store()
    named = with_options(source, options or [])
    with result_stream() as out, source_client(tensors, seconds(deadline), capture_env) as client:

        def capture(one: str) -> Graph:
            return client.capture(only_program(client, one), 0)

        with opened_target(capture, named, platform, to, tensors, seconds(deadline)) as target:
            found, kept, exact = find_precision(target, chosen, source, runs)
            if save is not None:
                found = _saved(found, target, kept, exact, chosen, save)
        out.write(json_text(found)) if as_json else _print(found, out)
    return Exit.FINDINGS if found.kept else Exit.NOTHING_FOUND


def _check(to: str, bound: float | None, flips: int | None) -> None:
    if to not in _FORMATS:
        raise MindgapError(f"--to {to}: it takes {', '.join(_FORMATS)}")
    if bound is not None and flips is not None:
        raise MindgapError("--bound and --flips exclude each other: give one")
    if bound is not None and not 0 < bound < float("inf"):
        raise MindgapError(f"--bound {bound:g}: it takes a number above 0, such as 0.01")


def _check_file(save: Path | None, suffix: str) -> None:
    if save is not None and not suffix:
        raise MindgapError(f"--save {save}: PyTorch's pt2e flow writes no file here: give its quantizer the list")
    if save is not None and save.suffix != suffix:
        raise MindgapError(f"--save {save}: it writes a file of {suffix}: name one that ends in {suffix}")
    check_files(("--save", save))


def _saved(
    found: Precision, target: GraphTarget | FileTarget, kept: frozenset[int], exact: Sequence[Array], bound: Bound,
    path: Path,
) -> Precision:  # fmt: skip
    """Writes the mixed model, and measures what it gives when it is loaded and run."""
    error = bound.measured(exact, target.save(kept, path))
    if not error <= bound.limit:
        complain(f"--save {path}: loaded and run, it gives {error:.3g}, above the bound of {bound.limit:g}")
    return dataclasses.replace(found, saved=str(path), saved_error=error)


def _print(found: Precision, out: TextIO) -> None:
    lines = Lines(out)
    lines.put(Text(_summary(found), style="bold"))
    lines.put(Text())
    if found.kept:
        table = plain_table("operator", "kind", "line", "given back")
        for each in found.kept:
            table.add_row(*map(escape, (each.name or "(model)", each.kind, each.line, _without(each))))
        console(out).print(table)
        lines.put(Text())
    if found.carriers:
        lines.put(Text(f"With them in the list: {len(found.carriers)} nodes that only move data between them."))
        lines.put(Text())
    lines.put(Text("; ".join(_facts(found))))
    for note in found.notes:
        lines.put(Text(f"Note: {note}."))
    for tool, text in found.lists.items():
        out.write(f"\n# {tool}\n{text}\n")


def _summary(found: Precision) -> str:
    where = f"{found.model} on {found.platform} in {found.to}"
    if not found.kept:
        return f"{where}: none of {found.operators} operators must stay in float32"
    count = f"{len(found.kept)} of {found.operators} operators must stay in float32"
    time = "" if found.time_share is None else f", with {found.time_share:.0%} of the time in float32"
    return f"{where}: {count} ({len(found.kept) / found.operators:.0%}{time})"


def _facts(found: Precision) -> list[str]:
    what = "error" if found.measure == "error" else "changed decisions"
    facts = [f"{what} {found.before:.3g} without them, {found.after:.3g} with them"] if found.kept else []
    facts = facts or [f"{what} {found.after:.3g}"]
    if found.all_float32 is not None:
        facts.append(f"{found.all_float32:.3g} with all in float32")
    facts.append(f"bound {found.bound:g}")
    facts.append(f"{found.runs} runs")
    if not found.minimal:
        facts.append("operators were given back several at a time: more runs (--runs) may shorten the list")
    if found.saved:
        facts.append(f"{found.saved} was loaded and run: {found.saved_error:.3g}")
    return facts


def _without(each: KeptOperator) -> str:
    if each.refused:
        return "no kernel"
    return "not tried" if each.given_back is None else f"{each.given_back:.3g}"
