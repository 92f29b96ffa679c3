"""Tells the stage at fault for OpenVINO."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.onnx.stages import exporter_stage
from mindgap.platforms.stages import Stage, VariantRuns, right_with

_INTERMEDIATE: Final = "mindgap.platforms.openvino.intermediate"


def openvino_stage(runs: VariantRuns) -> Stage:
    """Exporter, decomposition, front end, graph compiler, or device plugin.

    OpenVINO has no public option that switches its graph compiler off. A wrong result that arises behind the front end
    is one of the plugin.
    """
    options = runs.name.options
    if not runs.fails and right_with(runs, "precision", "f32"):
        runs.note("The plugin chose a precision below float32 by itself.")
        return "graph compiler"
    onnx = options.get("frontend") == "onnx"
    if onnx:
        found = exporter_stage(runs, other="onnxruntime/cpu@opt=off")
        if found is not None:
            return found
    converted = f"{_INTERMEDIATE}:CONVERTED@frontend={'onnx' if onnx else 'pytorch'}"
    if runs.fails:
        shown = runs.ask(runs.beside(converted), "The converted model in OpenVINO's core, not compiled")
        if shown != "shows":
            return "graph compiler" if runs.fails_at_load else "kernel"
    else:
        words = "The converted model, evaluated operation by operation in PyTorch,"
        shown = runs.ask(runs.beside(f"{converted},run=torch"), words)
        if shown == "unclear":
            return _by_core(runs, converted)
        if shown == "right":
            return "device plugin"
    return "front end" if onnx else _before_frontend(runs)


def _by_core(runs: VariantRuns, converted: str) -> Stage:
    """The plugin, where OpenVINO's core gives the right result. It may share a fault with the plugin."""
    shown = runs.ask(runs.beside(converted), "The converted model in OpenVINO's core, not compiled")
    return "device plugin" if shown == "right" else "unknown"


def _before_frontend(runs: VariantRuns) -> Stage:
    words = "The front end's decomposed program in eager PyTorch"
    return "decomposition" if runs.ask(runs.beside(f"{_INTERMEDIATE}:DECOMPOSED"), words) == "shows" else "front end"
