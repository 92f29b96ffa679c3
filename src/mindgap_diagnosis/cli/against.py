"""Implements `mindgap against`, which compares two ONNX files of one model."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer
from rich.text import Text

from mindgap.cli.diff import AsJson, Deadline, Options, finished, report_problems, seconds
from mindgap.cli.progress import progress
from mindgap.cli.sources import OnlyPlatform, source_client, subjects
from mindgap.cli.streams import Exit, complain, result_stream, status_of
from mindgap.cli.tables import Lines, print_report
from mindgap.cli.trace import json_text
from mindgap.graph import Graph, MindgapError, default_tensor_store, materialise
from mindgap.own_path.client import OwnPathClient
from mindgap.own_path.runners import check_file
from mindgap.platforms.registry import canonical
from mindgap.results.settings import DEADLINE_S, RunSettings
from mindgap.source_worker.client import ProgramRefused
from mindgap.workflows.diff import Report, diff_many
from mindgap_diagnosis.versions.bisection import one_program

if TYPE_CHECKING:
    from mindgap_diagnosis.rewrites.parting import Parting
    from mindgap_diagnosis.rewrites.structure import OnnxFile, StructuralChanges

#: Lines of a kind that are printed.
_MOST: Final = 8


def against(
    new: Annotated[Path, typer.Argument(metavar="NEW.onnx", help="The file after the rewrite.")],
    old: Annotated[Path, typer.Argument(metavar="OLD.onnx", help="The file before it, which is taken as right.")],
    platforms: OnlyPlatform,
    options: Options = None,
    as_json: AsJson = False,
    deadline: Deadline = DEADLINE_S,
) -> int:
    """Compare two ONNX files of one model: before and after an optimiser, a simplifier, a quantiser, a converter. The
    new file runs on the platform, and the old one is the reference: a rewrite that is right is `rounding`. Nodes and
    constants are compared too, and the first value that parts is named in both files.

    Exit status: as for mindgap diff.

    Example: mindgap against slim.onnx model.onnx -p onnxruntime/cpu
    """
    platform = canonical(platforms[0])
    sides = _checked(old, new)
    check_file(platform, new, False)
    settings, tensors = RunSettings(deadline_s=seconds(deadline)), default_tensor_store()
    from mindgap_diagnosis.rewrites.parting import first_parting
    from mindgap_diagnosis.rewrites.structure import structural_changes

    def run() -> Report:
        with (
            progress() as tell,
            source_client(tensors, settings.deadline_s, None) as client,
            OwnPathClient(settings.deadline_s, {platform: new}, where=client.where) as exporting,
        ):
            opened = one_program(subjects([str(old)], options or [], client, False, exporting))
            if len(opened) != 1:
                raise MindgapError(f"{old}: it is run with {len(opened)} sets of inputs: name one (--set arguments=1)")
            with suppress(ProgramRefused):  # it has no translation
                graphs.append(opened[0].captured())
            return diff_many(opened, [platform], settings=settings, progress=tell, tensors=tensors)

    graphs: list[Graph] = []
    with result_stream() as out:
        report, status = finished(run)
        given = [materialise(each, tensors) for graph in graphs for each in graph.inputs if each.role == "input"]
        changes, fed = structural_changes(*sides), dict(zip(sides[0].inputs, given, strict=False))
        parting = "The values inside were not compared: the old file has no translation."
        if len(given) == len(sides[0].inputs):
            parting = first_parting(old, new, fed)
        if as_json:
            answer = {"report": json.loads(report.to_json()), "structure": changes, "first_parting": parting}
            out.write(json_text(answer))
        else:
            print_report(report, out)
            _print(changes, parting, out)
    report_problems(report)
    left = [row.own_path.detail for row in report.rows if row.own_path and row.own_path.status == "not_compared"]
    for reason in left:
        complain(f"{new}: not compared: {reason}")
    return status or (Exit.WRONG_USE if left else status_of(report))


def _checked(old: Path, new: Path) -> tuple[OnnxFile, OnnxFile]:
    """Both files, read. Raises `MindgapError` for what is no ONNX file, and for files of two models."""
    from mindgap_diagnosis.rewrites.structure import check_one_model, read_onnx

    for each in (new, old):
        if each.suffix != ".onnx" or not each.is_file():
            raise MindgapError(f"{each}: {'it is no .onnx file' if each.is_file() else 'there is no such file'}")
    sides = read_onnx(old), read_onnx(new)
    check_one_model(*sides)
    return sides


def _print(changes: StructuralChanges, parting: Parting | str, out: TextIO) -> None:
    lines = Lines(out)
    lines.put(Text())
    lines.put(Text("What the rewrite did", style="bold"))
    counts = (("gone", changes.gone), ("new", changes.added))
    kinds = [
        [f"nodes {changes.nodes[0]} -> {changes.nodes[1]}, constants {changes.constants[0]} -> {changes.constants[1]}"],
        [f"{word}: {', '.join(f'{n} {op}' for op, n in each)}" for word, each in counts if each],
        [f"{' + '.join(olds)} -> {new}" for olds, new in changes.replaced],
        [f"folded: {each}" for each in changes.folded],
        [f"attribute {name}: {before} -> {after}" for name, before, after in changes.attributes],
        [f"constant {name}: {how}" for name, how in changes.changed],
    ]
    for texts in kinds:
        more = [f"… and {len(texts) - _MOST} more of this kind"] if len(texts) > _MOST else []
        for text in (*texts[:_MOST], *more):
            lines.put(Text(text), 4, Text("  "))
    if isinstance(parting, str):
        lines.put(Text(parting), 4, Text("  "))
        return
    apart = f"{parting.off:.2g} of its largest magnitude"
    lines.put(Text(f"first value that parts: {parting.value}, {apart}"), 4, Text("  "))
    lines.put(Text(f"old: {parting.old}; new: {parting.new}"), 6, Text("    "))
