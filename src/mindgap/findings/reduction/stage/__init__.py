"""Names the stage of a platform that brings a fault: capture, export, optimiser, code generation, kernel.

Comes in: a reduced graph, its row, and what runs jobs. Goes out: a stage with one sentence of evidence for each run.
The graph runs again with stages of the platform switched off. Where no option of a
platform switches a stage off, the stage is unknown, and the reason is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mindgap.findings.reduction.stage.at_fault import Stage, StageAtFault
from mindgap.findings.reduction.stage.executorch import executorch_stage
from mindgap.findings.reduction.stage.iree import iree_stage
from mindgap.findings.reduction.stage.jax import jax_stage, litert_stage, xla_stage
from mindgap.findings.reduction.stage.ncnn import ncnn_stage
from mindgap.findings.reduction.stage.onnx import onnx_reference_stage, onnxruntime_stage, openvino_provider_stage
from mindgap.findings.reduction.stage.openvino import openvino_stage
from mindgap.findings.reduction.stage.pytorch import eager_stage, inductor_stage, jit_stage
from mindgap.findings.reduction.stage.runs import StageRuns
from mindgap.findings.reduction.stage.tinygrad import tinygrad_stage
from mindgap.findings.reduction.stage.tvm import tvm_stage
from mindgap.graph import Graph
from mindgap.judge.pipeline.comparison import RunContext
from mindgap.platforms.registry import is_import_path, parse
from mindgap.results.rows import Row

__all__ = ["Stage", "StageAtFault", "stage_at_fault"]

_BY_PLATFORM: Final[Mapping[str, Callable[[StageRuns], Stage]]] = {
    "onnxruntime/cpu": onnxruntime_stage,
    "onnxruntime/openvino": openvino_provider_stage,
    "onnx/reference": onnx_reference_stage,
    "tinygrad/cpu": tinygrad_stage,
    "jax/cpu": jax_stage,
    "iree/cpu": iree_stage,
    "tvm/cpu": tvm_stage,
    "executorch/cpu": executorch_stage,
    "litert/cpu": litert_stage,
    "ncnn/cpu": ncnn_stage,
    "openvino/cpu": openvino_stage,
    "xla/eager": xla_stage,
    "cpu/inductor": inductor_stage,
    "cpu/aotinductor": inductor_stage,
    "cuda/inductor": inductor_stage,
    "rocm/inductor": inductor_stage,
    "xpu/inductor": inductor_stage,
    "cpu/jit": jit_stage,
    "cpu/eager": eager_stage,
}


def stage_at_fault(context: RunContext, graph: Graph, row: Row) -> StageAtFault:
    """The stage that brings what `row` found in `graph`. `context`: runs any platform."""
    side = context.settings.reference if row.blame == "reference" else row.platform
    find = None if is_import_path(side) else _BY_PLATFORM.get(parse(side).device_mode)
    if find is None:
        return StageAtFault("unknown", (f"No option of {side} switches a stage off.",))
    runs = StageRuns(context, graph, row)
    stage = find(runs)
    if stage == "unknown":
        runs.evidence.append("None of these runs tells the stage.")
    return StageAtFault(stage, tuple(runs.evidence))
