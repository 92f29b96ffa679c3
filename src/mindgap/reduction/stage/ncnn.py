"""Tells the stage at fault for ncnn, behind the converter pnnx."""

from __future__ import annotations

from mindgap.reduction.stage.at_fault import Stage
from mindgap.reduction.stage.onnx import fails_at_load
from mindgap.reduction.stage.runs import StageRuns


def ncnn_stage(runs: StageRuns) -> Stage:
    """The front end, where it rounds weights or the model does not load; a kernel, where `opt=off` takes another."""
    options = runs.name.options
    if not runs.fails and options.get("precision") != "f32" and runs.ask(runs.with_options(precision="f32")) == "right":
        runs.evidence.append("pnnx stores weights in float16, and ncnn computes in it where the processor can.")
        return "front end"
    if options.get("opt") != "off" and runs.ask(runs.with_options(opt="off")) == "right":
        return "kernel"
    return "front end" if runs.fails and fails_at_load(runs) else "unknown"
