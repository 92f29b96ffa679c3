"""Tells the stage at fault for OpenVINO."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.onnx.stages import exporter_stage
from mindgap.platforms.stages import Stage, VariantRuns, right_with

_INTERMEDIATE: Final = "mindgap.platforms.openvino.intermediate"


def openvino_stage(runs: VariantRuns) -> Stage:
    """Exporter, decomposition, front end, graph compiler, or device plugin.

    OpenVINO has no public option that switches its graph compiler off; two properties switch off parts. A wrong result
    that arises behind the front end is one of the plugin.
    """
    options = runs.name.options
    if not runs.fails and right_with(runs, "precision", "f32"):
        runs.note("The plugin chose a precision below float32 by itself.")
        return "graph compiler"
    onnx = options.get("frontend") == "onnx"
    if onnx:
        stage = exporter_stage(runs, other="onnxruntime/cpu@opt=off")
        if stage is not None:
            return stage
    converted = f"{_INTERMEDIATE}:CONVERTED@frontend={'onnx' if onnx else 'pytorch'}"
    shown = runs.ask(runs.in_same_environment(converted), "The converted model in OpenVINO's core, not compiled")
    if runs.fails and shown != "shows":
        return "graph compiler" if runs.fails_at_load else "kernel"
    if not runs.fails and shown == "right":
        return "device plugin"
    # A wrong result of the core may be one that the plugin shares.
    behind: Stage = "front end" if runs.fails else "unknown"
    if onnx:
        return behind
    words = "The front end's decomposed program in eager PyTorch"
    return (
        "decomposition"
        if runs.ask(runs.in_same_environment(f"{_INTERMEDIATE}:DECOMPOSED"), words) == "shows"
        else behind
    )
