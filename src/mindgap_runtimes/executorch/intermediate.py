"""Backends for the steps between PyTorch and an ExecuTorch program, to find the stage of a fault.

`EDGE` runs the program in the edge dialect, before a delegate takes parts of it, in eager PyTorch. `TRANSLATED` lowers
the graph further and does not load it; its results are eager PyTorch's. It ends with the edge dialect in which the
delegate has taken its parts (`stop=delegate`), or with the program (`stop=program`).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

import torch

from mindgap.graph import Graph
from mindgap.platforms.messages import loading_error
from mindgap.platforms.onnx.step_backend import step_backend
from mindgap.platforms.protocol import Array, Executable, Options
from mindgap.platforms.pytorch.compilation.exported_program import ExportedGraph, export_program, operator_named, quiet
from mindgap_runtimes.executorch import messages
from mindgap_runtimes.executorch.backend import MODULES
from mindgap_runtimes.executorch.lowering import partitioners, with_layouts_taken


def _edge(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    from mindgap_runtimes.step_results import TorchResults

    graph = with_layouts_taken(graph)
    program = export_program(graph, inputs)
    edge = _lowered(program, "none", further=False)
    return TorchResults(graph, edge.exported_program().module(), program.fed)


def _translated(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    from mindgap_runtimes.step_results import DeclaredResults

    program = export_program(with_layouts_taken(graph), inputs)
    _lowered(program, options["delegate"], further=options["stop"] == "program")
    return DeclaredResults(graph)


def _lowered(program: ExportedGraph, delegate: str, *, further: bool) -> Any:
    """The program in the edge dialect. `further`: it is lowered to ExecuTorch's program. Raises as the backend does."""
    exir: Any = importlib.import_module("executorch.exir")
    try:
        with torch.no_grad(), quiet():
            edge = exir.to_edge_transform_and_lower(program.exported, partitioner=partitioners(delegate))
            if further:
                edge.to_executorch()
            return edge
    except Exception as error:
        text = messages.exporter_text(error)
        raise loading_error(messages.read(error).kind, text, operator_named(text, program.operators())) from error


EDGE: Final = step_backend(MODULES, _edge)
TRANSLATED: Final = step_backend(
    MODULES, _translated, {"stop": ("delegate", "program"), "delegate": ("xnnpack", "none")}
)
