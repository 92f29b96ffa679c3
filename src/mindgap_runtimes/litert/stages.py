"""Tells the stage at fault for LiteRT: litert-torch, the converter, the delegate, the interpreter."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.stages import Stage, StageStep, VariantRuns, first_failing, right_with, stable_hlo_shows

_LITERT: Final = "mindgap_runtimes.litert.intermediate:TRANSLATED"


def litert_stage(runs: VariantRuns) -> Stage:
    """The front end (litert-torch), the graph compiler (LiteRT's converter), the delegate, the interpreter's loading of
    a model, or its kernel."""
    step = f"{_LITERT}@x64={runs.name.options.get('x64', 'off')}"
    if not runs.fails:
        return _litert_values(runs, step)
    if right_with(runs, "delegate", "none"):
        return "delegate"
    steps = [
        StageStep(step, "front end", "litert-torch's translation to StableHLO alone"),
        StageStep(
            f"{step},stop=convert", "graph compiler", "litert-torch with LiteRT's converter, without the interpreter,"
        ),
    ]
    stage = first_failing(runs, steps)
    return stage or ("runtime load" if runs.fails_at_load else "kernel")


def _litert_values(runs: VariantRuns, step: str) -> Stage:
    translated = stable_hlo_shows(runs, step)
    if translated == "shows":
        return "front end"
    if right_with(runs, "delegate", "none"):
        return "delegate"
    return "compiler" if translated == "right" else "unknown"
