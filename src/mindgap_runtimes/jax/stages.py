"""Tells the stage at fault for JAX: torchax, or XLA."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.stages import Stage, StageStep, VariantRuns, first_failing, right_with, stable_hlo_shows

_JAX: Final = "mindgap_runtimes.jax.intermediate:TRANSLATED"


def jax_stage(runs: VariantRuns) -> Stage:
    """The front end (torchax with JAX), XLA's code generation, or XLA."""
    step = f"{_JAX}@mode={runs.name.options.get('mode', 'default')}"
    if runs.fails:
        stage = first_failing(
            runs, [StageStep(step, "front end", "torchax's and JAX's translation to StableHLO alone")]
        )
        return stage or ("compiler" if runs.fails_at_load else "kernel")
    shown = stable_hlo_shows(runs, step)
    if shown != "right":
        return "front end" if shown == "shows" else "unknown"
    if right_with(runs, "opt", "off"):
        return "code generation"
    return "compiler"
