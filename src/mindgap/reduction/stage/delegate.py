"""Tells the stage at fault for runtimes that hand parts of a model to a delegate: ExecuTorch and LiteRT."""

from __future__ import annotations

from mindgap.reduction.stage.at_fault import Stage
from mindgap.reduction.stage.runs import StageRuns


def delegate_stage(runs: StageRuns) -> Stage:
    """The delegate, where `delegate=none` gives the right result; no other option switches a stage off."""
    if runs.name.options.get("delegate") != "none" and runs.ask(runs.with_options(delegate="none")) == "right":
        return "delegate"
    return "unknown"
