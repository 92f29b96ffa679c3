"""Tells the stage at fault for ncnn, behind the converter pnnx."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.stages import Stage, StageStep, VariantRuns, right_with, stage_of_failure

_PLACE: Final = "mindgap_runtimes.ncnn.intermediate"


def ncnn_stage(runs: VariantRuns) -> Stage:
    """The front end (pnnx), the loading of its model, or a kernel.

    pnnx writes a PyTorch program of what it has understood, next to the model of ncnn's layers.
    """
    precision = runs.name.options.get("precision", "default")
    if runs.fails:
        step = StageStep(f"{_PLACE}:TRANSLATED@precision={precision}", "front end", "pnnx alone")
        return stage_of_failure(runs, [step], load="runtime load")
    if precision != "f32" and runs.ask(runs.with_options(precision="f32")) == "right":
        runs.note("pnnx stores weights in float16, and ncnn computes in it where the processor can.")
        return "front end"
    if right_with(runs, "opt", "off"):
        return "kernel"
    words = "The PyTorch program that pnnx writes of what it has understood"
    if runs.ask(runs.in_same_environment(f"{_PLACE}:UNDERSTOOD@precision=f32"), words) == "shows":
        return "front end"
    return "unknown"
