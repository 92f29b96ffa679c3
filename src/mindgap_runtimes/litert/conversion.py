"""Converts a graph to a LiteRT model (`.tflite`) with litert-torch, as LiteRT's users of PyTorch do."""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mindgap.graph import Graph
from mindgap.platforms.messages import loading_error
from mindgap.platforms.protocol import Array
from mindgap.platforms.pytorch.compilation.exported_program import export_program, operator_named, quiet
from mindgap_runtimes.litert import messages


@dataclass(frozen=True)
class LiteRtModel:
    """A LiteRT model. `fed`: the number of the graph input behind its input `args_N`. `outputs`: how many it has.

    `called`: the operators of `torch.export`'s program.
    """

    model: bytes
    fed: tuple[int, ...]
    outputs: int
    called: tuple[str, ...]

    def operator(self, message: str) -> str:
        """The operator that a message is about; empty where it names none, and the program calls several."""
        return operator_named(message, self.called)


def convert(graph: Graph, inputs: Sequence[Array], *, x64: bool) -> LiteRtModel:
    """Converts the graph. `x64`: keep 64-bit dtypes. Raises `Unsupported` or `CompileFailure`."""
    program = export_program(graph, inputs)
    called = program.operators()
    litert_torch: Any = importlib.import_module("litert_torch")
    try:
        # It prints its progress.
        with torch.no_grad(), quiet(), contextlib.redirect_stdout(io.StringIO()):
            made = litert_torch.convert(program.exported.module(), program.example, enable_x64=x64)
            model = made.model_content()
    except Exception as error:
        reading = messages.read(error)
        text = f"{type(error).__name__}: {str(error).strip()}"
        raise loading_error(reading.kind, text, operator_named(text, called)) from error
    return LiteRtModel(model, program.fed, len(graph.outputs), called)
