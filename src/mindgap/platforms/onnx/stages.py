"""Tells the stage at fault for runtimes of ONNX models: ONNX Runtime, by provider, and OpenVINO's ONNX front end."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.name import PlatformName
from mindgap.platforms.stages import Shown, Stage, VariantRuns, right_with

_INTERMEDIATE: Final = "mindgap.platforms.onnx.intermediate"


def onnxruntime_stage(runs: VariantRuns) -> Stage:
    """Exporter, decomposition, graph optimiser, loading of the model, or kernel."""
    shown = _ask_reference_evaluator(runs)
    sure = shown == "shows" and (runs.fails or runs.same_bits)
    if not sure and right_with(runs, "opt", "off"):
        return "graph optimiser"
    if shown == "right":
        return "runtime load" if runs.fails_at_load else "kernel"
    return _model_stage(runs, shown, "openvino/cpu@frontend=onnx,precision=f32")


def provider_stage(runs: VariantRuns) -> Stage:
    """The execution provider, where the CPU provider of the same package gives the right result for the same model;
    else as for `onnxruntime/cpu`."""
    options = {
        name: value for name, value in runs.name.options.items() if name in ("opt", "threads", "delegate", "env")
    }
    if options.get("delegate") == "none":
        return onnxruntime_stage(runs)
    shown = runs.ask(PlatformName(runs.name.device_mode, {**options, "delegate": "none"}))
    if shown == "right":
        return "delegate"
    if shown == "shows":
        return onnxruntime_stage(runs)
    return exporter_stage(runs, "openvino/cpu@frontend=onnx,precision=f32") or "delegate"


def onnx_reference_stage(runs: VariantRuns) -> Stage:
    """The evaluator's implementation of an operator, or what comes before the model."""
    shown = runs.ask("onnxruntime/cpu@opt=off")
    return "kernel" if shown == "right" else _model_stage(runs, shown, "openvino/cpu@frontend=onnx,precision=f32")


def exporter_stage(runs: VariantRuns, other: str) -> Stage | None:
    """The stage before the ONNX model, or `unknown`; None where the model is right.

    `other`: another runtime of the same model.
    """
    shown = _ask_reference_evaluator(runs)
    return None if shown == "right" else _model_stage(runs, shown, other)


def _ask_reference_evaluator(runs: VariantRuns) -> Shown:
    return runs.ask(runs.in_same_environment("onnx/reference"), "The exported model in ONNX's reference evaluator")


def _model_stage(runs: VariantRuns, shown: Shown, other: str) -> Stage:
    """The stage that makes the model wrong. Where the reference evaluator did not run it, `other` runs it."""
    if shown == "unclear":
        if runs.fails or runs.ask(runs.in_same_environment(other)) != "shows" or not runs.same_bits:
            return "unknown"
        runs.note("Two runtimes give the same wrong bits for one model, so the model is wrong.")
    if not runs.fails and not runs.facts.get("decomposed"):
        runs.note("The exporter translates each operator and decomposes none.")
        return "exporter"
    shown = runs.ask(
        runs.in_same_environment(f"{_INTERMEDIATE}:DECOMPOSED"), "The exporter's decomposed program in eager PyTorch"
    )
    return "decomposition" if shown == "shows" else "exporter"
