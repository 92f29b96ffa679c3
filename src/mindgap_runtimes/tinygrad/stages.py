"""Tells the stage at fault for tinygrad, behind the ONNX model."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.onnx.stages import exporter_stage
from mindgap.platforms.stages import Stage, StageStep, VariantRuns, first_failing, right_with

_TENSORS: Final = "mindgap_runtimes.tinygrad.intermediate:TRANSLATED"


def tinygrad_stage(runs: VariantRuns) -> Stage:
    """What comes before the model, tinygrad's reading of it, code generation, or what is behind the reading."""
    before = exporter_stage(runs, "onnxruntime/cpu@opt=off")
    if before not in (None, "unknown"):
        return before
    if runs.fails:
        stage = "front end" if runs.fails_at_load else None
        stage = stage or first_failing(
            runs, [StageStep(_TENSORS, "front end", "tinygrad's reading of the model alone")]
        )
        return stage or "compiler"
    if runs.structural:
        words = "The tensors of tinygrad's ONNX front end, by the types that they declare,"
        shown = runs.ask(runs.in_same_environment(_TENSORS), words)
        if shown != "right":
            return "front end" if shown == "shows" and before is None else "unknown"
    if right_with(runs, "opt", "off"):
        return "code generation"
    return "compiler" if runs.structural else "unknown"
