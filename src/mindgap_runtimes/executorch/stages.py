"""Tells the stage at fault for ExecuTorch and for TOSA: the edge dialect, the delegate, the program, the runtime."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.stages import Stage, StageStep, VariantRuns, stage_by, stage_of_failure

_PLACE: Final = "mindgap_runtimes.executorch.intermediate"


def executorch_stage(runs: VariantRuns) -> Stage:
    """The delegate, the front end, the graph compiler (the lowering of the edge dialect), loading, or a kernel."""
    delegate = runs.name.options.get("delegate", "xnnpack")
    if delegate != "none" and runs.ask(runs.with_options(delegate="none")) == "right":
        return "delegate"
    if runs.fails:
        lowered = f"{_PLACE}:TRANSLATED@delegate={delegate}"
        steps = [
            StageStep(f"{_PLACE}:TRANSLATED@delegate=none", "front end", "The lowering to the edge dialect alone"),
            StageStep(lowered, "delegate", "The edge dialect with the delegate's parts"),
            StageStep(f"{lowered},stop=program", "graph compiler", "The lowering to a program, which is not loaded,"),
        ]
        return stage_of_failure(runs, steps if delegate != "none" else [steps[0], steps[2]], load="runtime load")
    shown = runs.ask(runs.in_same_environment(f"{_PLACE}:EDGE"), "The program in the edge dialect in eager PyTorch")
    return stage_by(shown, shows="front end", right="kernel")


def tosa_stage(runs: VariantRuns) -> Stage:
    """The front end, or the Arm backend's lowering to TOSA and the reference model, which no run separates."""
    if runs.fails:
        steps = [StageStep(f"{_PLACE}:TRANSLATED@delegate=none", "front end", "The lowering to the edge dialect alone")]
        return stage_of_failure(runs, steps, load="delegate")
    shown = runs.ask(runs.in_same_environment(f"{_PLACE}:EDGE"), "The program in the edge dialect in eager PyTorch")
    return stage_by(shown, shows="front end", right="delegate")
