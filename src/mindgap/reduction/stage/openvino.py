"""Tells the stage at fault for OpenVINO."""

from __future__ import annotations

from typing import Final

from mindgap.reduction.stage.at_fault import Stage
from mindgap.reduction.stage.onnx import exporter_stage, fails_at_load
from mindgap.reduction.stage.runs import StageRuns

_INTERMEDIATE: Final = "mindgap.platforms.openvino.intermediate"


def openvino_stage(runs: StageRuns) -> Stage:
    """Exporter, decomposition, front end, graph compiler, or device plugin.

    OpenVINO has no public option that switches its graph compiler off. A wrong result that arises behind the front end
    is one of the plugin.
    """
    options = runs.name.options
    if not runs.fails and options.get("precision") != "f32" and runs.ask(runs.with_options(precision="f32")) == "right":
        runs.evidence.append("The plugin chose a precision below float32 by itself.")
        return "graph compiler"
    onnx = options.get("frontend") == "onnx"
    if onnx:
        found = exporter_stage(runs, other="onnxruntime/cpu@opt=off")
        if found is not None:
            return found
    frontend = "onnx" if onnx else "pytorch"
    shown = runs.ask(
        runs.beside(f"{_INTERMEDIATE}:CONVERTED@frontend={frontend}"),
        "The converted model in OpenVINO's core, not compiled",
    )
    if shown == "shows":
        return "front end" if onnx else _before_frontend(runs)
    if runs.fails:
        return "graph compiler" if fails_at_load(runs) else "kernel"
    if shown == "unclear":
        return "unknown"
    return "device plugin"


def _before_frontend(runs: StageRuns) -> Stage:
    words = "The front end's decomposed program in eager PyTorch"
    return "decomposition" if runs.ask(runs.beside(f"{_INTERMEDIATE}:DECOMPOSED"), words) == "shows" else "front end"
