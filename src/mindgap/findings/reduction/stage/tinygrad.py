"""Tells the stage at fault for tinygrad, behind the ONNX model."""

from __future__ import annotations

from typing import Final

from mindgap.findings.reduction.stage.at_fault import Stage
from mindgap.findings.reduction.stage.onnx import exporter_stage
from mindgap.findings.reduction.stage.runs import StageRuns
from mindgap.findings.reduction.stage.steps import Step, fails_at_load, first_failing

_TENSORS: Final = "mindgap.platforms.tinygrad.intermediate:TRANSLATED"


def tinygrad_stage(runs: StageRuns) -> Stage:
    """What comes before the model, tinygrad's reading of it, code generation, or what is behind the reading."""
    before = exporter_stage(runs, "onnxruntime/cpu@opt=off")
    if before not in (None, "unknown"):
        return before
    if runs.fails:
        found = "front end" if fails_at_load(runs) else None
        found = found or first_failing(runs, [Step(_TENSORS, "front end", "tinygrad's reading of the model alone")])
        return found or "compiler"
    values, words = (
        ("types", "by the types that they declare,") if runs.structural else ("values", "evaluated in numpy,")
    )
    shown = runs.ask(runs.beside(f"{_TENSORS}@run={values}"), f"The tensors of tinygrad's ONNX front end, {words}")
    if shown != "right":
        return "front end" if shown == "shows" and before is None else "unknown"
    if runs.name.options.get("opt") != "off" and runs.ask(runs.with_options(opt="off")) == "right":
        return "code generation"
    return "compiler"
