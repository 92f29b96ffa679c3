"""Tells the stage at fault for RKNN-Toolkit2: what comes before the ONNX model, its graph passes, or the rest of it."""

from __future__ import annotations

from mindgap.platforms.stages import Stage, VariantRuns, right_with


def rknn_stage(runs: VariantRuns) -> Stage:
    """The exporter, where ONNX's reference evaluator shows the fault in the model of the same operator set; else the
    toolkit's graph passes, where the fault is gone without them; else its compiler, which the simulator does not
    separate from the kernels."""
    shown = runs.ask(
        runs.in_same_environment("onnx/reference@opset=18"), "The exported model in ONNX's reference evaluator"
    )
    if shown == "shows":
        return "exporter"
    if right_with(runs, "opt", "0"):
        return "graph optimiser"
    if shown == "unclear":
        return "unknown"
    return "graph compiler" if runs.fails_at_load else "compiler"
