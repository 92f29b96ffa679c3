"""A model file that shows a finding where there is no short script, and the command of mindgap that runs it."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from mindgap.findings.reduction.reproducer import PRINTED, Reproducer, run_script
from mindgap.graph import Graph, MindgapError, ModelFile, TensorStore, default_tensor_store, write_model
from mindgap.judge.pipeline.comparison import RunContext
from mindgap.platforms.name import PlatformName
from mindgap.results.report_json import decode_report
from mindgap.results.rows import Row
from mindgap.results.settings import RunSettings


def diff_arguments(platform: PlatformName, settings: RunSettings, word: str) -> tuple[str, ...]:
    """Returns the arguments of `mindgap diff` after a model file, with which its row is what it was.

    `word`: the row's, as in a table.
    """
    usual, arguments = RunSettings(), ["-p", platform]
    if settings.reference != usual.reference:
        arguments += ["--reference", settings.reference]
    if settings.deadline_s != usual.deadline_s:
        arguments += ["--deadline", f"{settings.deadline_s:g}"]
    if settings.repeat != usual.repeat:
        arguments += ["--repeat", str(settings.repeat)]
    arguments += ["--internal"] if settings.internal else []
    return (*arguments, *(["--require-support"] if word == "unsupported" else []))


def diff_command(file: str, arguments: Sequence[str]) -> str:
    """Returns the command line that runs a model file."""
    return shlex.join(["mindgap", "diff", file, *arguments])


def write_case(file: Path, name: str, graph: Graph, tensors: TensorStore | None) -> None:
    """Writes the model file of a graph, with its inputs. Raises `MindgapError`."""
    made_by = {"mindgap": version("mindgap"), "torch": version("torch")}
    write_model(file, ModelFile(name, "", graph, made_by), tensors or default_tensor_store())


def with_model_file(made: Reproducer, graph: Graph, row: Row, context: RunContext) -> Reproducer:
    """The reproducer with the command that runs a model file of the graph: verified where it gives the finding of
    `row`.

    The command runs once, in separate processes.
    """
    arguments = diff_arguments(row.platform, context.settings, row.word)
    with tempfile.TemporaryDirectory(prefix="mindgap-") as folder:
        file = Path(folder, "case.mindgap")
        write_case(file, row.model, graph, context.tensors)
        command = [sys.executable, "-m", "mindgap", "diff", str(file), *arguments, "--json"]
        status, printed, errors = run_script(command, ".")
    row_now = _row_in(printed)
    if row_now is None:
        return replace(made, verified=False, printed=(printed + errors)[-PRINTED:], command=arguments)
    culprit = row_now.culprit.op if row_now.culprit else ""
    parts = (row_now.platform, row_now.word, culprit, row_now.detail, row_now.message)
    verified = status == 1 and row_now.word == row.word
    return replace(made, verified=verified, printed=": ".join(filter(None, parts))[:PRINTED], command=arguments)


def _row_in(printed: str) -> Row | None:
    """The only row of a report in JSON; None where there is none."""
    try:
        (row,) = decode_report(printed).rows
    except (MindgapError, ValueError):
        return None
    return row
