"""Tells the stage at fault for IREE, whose portable code shares all stages before code generation with that of LLVM."""

from __future__ import annotations

from mindgap.platforms.registry import PlatformName
from mindgap.reduction.stage.at_fault import Stage
from mindgap.reduction.stage.runs import StageRuns


def iree_stage(runs: StageRuns) -> Stage:
    """Code generation by LLVM, or unknown."""
    options = {name: value for name, value in runs.name.options.items() if name != "cpu"}
    portable = str(PlatformName(runs.name.device_mode, {**options, "target": "vmvx"}))
    if options.get("target") != "vmvx" and runs.ask(portable) == "right":
        return "code generation"
    return "unknown"
