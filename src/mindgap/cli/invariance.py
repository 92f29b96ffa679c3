"""Implements `mindgap invariance`, which asks whether an answer depends on its company."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer

from mindgap.cli.diff import AsJson, Deadline, Options, seconds
from mindgap.cli.numbers import whole_numbers
from mindgap.cli.sources import CaptureEnv, source_client, with_options
from mindgap.cli.streams import Exit, result_stream
from mindgap.cli.trace import json_text
from mindgap.graph import Graph, MindgapError, default_tensor_store
from mindgap.models.sources.client import SourceClient

if TYPE_CHECKING:
    from mindgap.workflows.diff.invariance import Answer, Invariance, Question
    from mindgap.workflows.diff.kernel_choice import KernelChoice

_LONGEST: Final = 100


@dataclass(frozen=True)
class _Results:
    results: list[Invariance]


def invariance(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="As for mindgap diff; it names one model.")],
    platforms: Annotated[
        list[str], typer.Option("-p", "--platform", metavar="PLATFORM", help="A platform; may be given several times.")
    ],
    batches: Annotated[str, typer.Option(metavar="1,2,4", help="Numbers of examples in a batch.")] = "1,2,3,4,8,16",
    threads: Annotated[
        str, typer.Option(metavar="1,2", help="Also on so many threads, where the platform has the option.")
    ] = "",
    lengths: Annotated[
        str, typer.Option(metavar="8,16,32", help="Of a causal model: the first 8 tokens alone, and in longer texts.")
    ] = "",
    require_identical: Annotated[
        bool, typer.Option("--require-identical", help="Exit with status 1 for any other bits, rounding included.")
    ] = False,
    options: Options = None,
    capture_env: CaptureEnv = None,
    as_json: AsJson = False,
    deadline: Deadline = 300.0,
) -> int:
    """Ask whether the answer to one example depends on its company: batch size, position, neighbours, threads, process.

    Other bits are judged: rounding, or beyond it. The operators that choose another kernel for another batch are named,
    with the sizes at which they do. Exit status: 1 where an answer is beyond rounding, 2 where something did not run.

    Example: mindgap invariance timm:resnet18 -p cpu/eager -p onnxruntime/cpu
    """
    # Imported late: other commands need no PyTorch.
    from mindgap.workflows.diff.invariance import ask

    sizes = sorted(whole_numbers("--batches", batches))
    counts = whole_numbers("--threads", threads) if threads else []
    if not any(size > 1 for size in sizes):
        raise MindgapError(f"--batches {batches}: give a size above 1, as in --batches 1,2,4")
    tokens = sorted(whole_numbers("--lengths", lengths)) if lengths else []
    if tokens and (len(tokens) < 2 or any(each % tokens[0] for each in tokens)):
        raise MindgapError(f"--lengths {lengths}: give multiples of the smallest, as in --lengths 8,16,32")
    deadline_s, tensors = seconds(deadline), default_tensor_store()
    found: list[Invariance] = []
    with result_stream() as out:
        with source_client(tensors, deadline_s, capture_env) as client:
            asked = with_options(source, options or [])
            _refuse_sizes(asked, bool(tokens))
            graph_of, text_of = (_graph_of(client, asked, option) for option in ("examples", "tokens"))
            for platform in dict.fromkeys(platforms):
                one = ask(
                    graph_of, platform, model=source, batches=sizes, threads=counts,
                    text_of=text_of if tokens else None, lengths=tokens, tensors=tensors, deadline_s=deadline_s,
                )  # fmt: skip
                found.append(one)
                if not as_json:
                    print_invariance(one, out)
        if as_json:
            out.write(json_text(_Results(found)))
    return _status(found, require_identical)


def _refuse_sizes(source: str, lengths: bool) -> None:
    """Raises `MindgapError` for a source that sets what the command itself tries several values of."""
    options = {each.partition("=")[0]: each for each in source.partition("?")[2].split("&")}
    for name, option in (("examples", "--batches"), *([("tokens", "--lengths")] if lengths else [])):
        if name in options:
            raise MindgapError(f"{source}: {options[name]} is what {option} sets: leave it out of the source")


def _status(found: Sequence[Invariance], require_identical: bool) -> Exit:
    verdicts = {answer.verdict for one in found for answer in one.answers}
    if "beyond" in verdicts or (require_identical and verdicts & {"rounding", "unjudged"}):
        return Exit.FINDINGS
    return Exit.WRONG_USE if verdicts & {"not_run", "unjudged"} else Exit.NOTHING_FOUND


def _graph_of(client: SourceClient, source: str, option: str) -> Callable[[int], Graph]:
    """Captures the model at a size, once for all platforms."""
    graphs: dict[int, Graph] = {}

    def captured(size: int) -> Graph:
        if size not in graphs:
            opened = client.open(with_options(source, [f"{option}={size}"]))
            if len(opened.programs) != 1:
                raise MindgapError(
                    f"{source} names {len(opened.programs)} models or sets of arguments: name one "
                    f"({opened.programs[0].source.partition('?')[0]}, arguments=1)"
                )
            graphs[size] = client.capture(opened, 0)
        return graphs[size]

    return captured


def print_invariance(found: Invariance, out: TextIO) -> None:
    """Prints a line per question and verdict, the operators that choose other kernels, and notes."""
    out.write(f"{found.model} on {found.platform}\n")
    for question in found.questions:
        for number, line in enumerate(_lines(question, found.of(question))):
            out.write(f"  {question if number == 0 else '':<11} {line}\n")
    for choice in found.choices:
        out.write(_choice(choice))
    for note in found.notes:
        out.write(f"  note: {note}\n")
    out.write("\n")


def _lines(question: Question, answers: Sequence[Answer]) -> list[str]:
    """The answers to one question, a line for each verdict: under which conditions, and how far they are apart."""
    lines: list[str] = []
    for verdict in dict.fromkeys(answer.verdict for answer in answers):
        same = [answer for answer in answers if answer.verdict == verdict]
        labels = ", ".join(answer.condition.label for answer in same)
        company = f" in a batch of {same[0].condition.size}" if question in ("position", "neighbours") else ""
        line = f"{verdict.replace('_', ' '):<10} {labels}{company}"
        if verdict in ("rounding", "beyond", "unjudged"):
            classes = len({answer.bits for answer in same})
            farthest, relative = max(each.max_abs for each in same), max(each.max_rel for each in same)
            line += f": {classes} class{'es' * (classes > 1)} of bits, {farthest:.2g} apart (relative {relative:.2g})"
        lines.append(line + (f": {same[0].detail[:_LONGEST]}" if verdict == "not_run" else ""))
    return lines


def _choice(choice: KernelChoice) -> str:
    shapes = " × ".join(f"[{','.join(map(str, shape))}]" for shape in choice.shapes)
    sizes = " | ".join(" ".join(map(str, each)) for each in choice.classes)
    where = f" ({choice.label})" if choice.label else ""
    times = f", {choice.nodes} nodes" if choice.nodes > 1 else ""
    same = f"    sizes of equal bits: {sizes}\n" if len(choice.classes) > 1 else ""
    return f"  other bits by itself: {choice.op}{where} {shapes}{times}\n{same}"
