"""Exports a graph with `torch.onnx.export(dynamo=True)`, as users do."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Generator, Sequence
from typing import Any, Final

import torch

from mindgap.graph import Graph
from mindgap.platforms.messages import causes
from mindgap.platforms.onnx import messages as onnx_export_messages
from mindgap.platforms.onnx.export import Exported, serialized
from mindgap.platforms.protocol import Array, CompileFailure, Unsupported
from mindgap.platforms.pytorch.compilation.exported_program import ExportedGraph, export_program, quiet

_OVERLOAD: Final = re.compile(
    r"OpOverload\(op='(\w+)\.(\w+)', overload='(\w+)'\)|target=(?:torch\.ops\.)?(aten\.\w+\.\w+)"
)


def export_official(graph: Graph, inputs: Sequence[Array]) -> Exported:
    """Exports the graph with `torch.export`, and the program with `torch.onnx.export`, everything by default.

    The large weights of a large model are outside it. Raises `Unsupported` where the exporter reports that it has no
    translation, `CompileFailure` for every other failure.
    """
    program = export_program(graph, inputs)
    try:
        with quiet(), _silent():
            onnx: Any = torch.onnx  # typed in parts
            made = onnx.export(program.exported, (), dynamo=True, verbose=False)
            model = made.model
    except Exception as error:
        raise _typed(error, program) from error
    # By place: the exporter renames an input that is also an output.
    given = tuple(str(value.name) for value in model.graph.inputs)
    if len(given) != len(program.fed):
        raise CompileFailure(f"the exported model has {len(given)} inputs, not {len(program.fed)}")
    written, external = serialized(model, apart=True)
    return Exported(
        written,
        given,
        program.fed,
        tuple(str(value.name) for value in model.graph.outputs),
        {str(node.name): op for node in model.graph if (op := _origin(node))},
        {"exporter": f"torch {torch.__version__}, torch.onnx.export(dynamo=True) on torch.export's program"},
        external,
    )


def _origin(node: Any) -> str:
    """Returns the ATen operator in a node's metadata; empty for a node that the optimiser made."""
    names = re.findall(r"\baten\.\w+\.\w+", str(node.metadata_props.get("namespace", "")))
    return names[-1] if names else ""


def _typed(error: BaseException, program: ExportedGraph) -> Exception:
    """Converts an exporter's error to a refusal or failure by the table of messages."""
    reading, inner = onnx_export_messages.read(error)
    op = _operator(error, program)
    if reading.kind == "refusal":
        return Unsupported(op, onnx_export_messages.why(reading, inner))
    reason = f"{type(inner).__name__}: {str(inner).strip()}"
    return CompileFailure(f"torch.onnx.export failed: {f'{op}: ' if op else ''}{reason}", op)


def _operator(error: BaseException, program: ExportedGraph) -> str:
    """Returns the program's only operator; else the decomposed one that the errors name, innermost first."""
    called = {str(node.target) for node in program.exported.graph.nodes if node.op == "call_function"}
    if len(called) == 1:
        return next(iter(called))
    for cause in reversed(causes(error)):
        match = _OVERLOAD.search(str(cause))
        if match:
            return match[4] or f"{match[1]}.{match[2]}.{match[3]}"
    return ""


@contextlib.contextmanager
def _silent() -> Generator[None]:
    """Keeps the exporter's progress and its report of a failure off the terminal."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
