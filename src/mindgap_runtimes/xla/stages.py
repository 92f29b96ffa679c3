"""Tells the stage at fault for `xla/eager`: torch_xla, or XLA."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.stages import Stage, StageStep, VariantRuns, first_failing, stable_hlo_shows, stage_by

_XLA: Final = "mindgap_runtimes.xla.intermediate:TRANSLATED"


def xla_stage(runs: VariantRuns) -> Stage:
    """The front end (torch_xla), or XLA."""
    if runs.fails:
        step = StageStep(_XLA, "front end", "torch_xla's translation alone, which computes nothing,")
        return first_failing(runs, [step]) or "compiler"
    shown = stable_hlo_shows(runs, _XLA)
    return stage_by(shown, shows="front end", right="compiler")
