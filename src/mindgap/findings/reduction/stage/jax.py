"""Tells the stage at fault for JAX, LiteRT and torch_xla, whose front ends write StableHLO."""

from __future__ import annotations

from typing import Final

from mindgap.findings.reduction.stage.at_fault import Stage
from mindgap.findings.reduction.stage.runs import Shown, StageRuns
from mindgap.findings.reduction.stage.steps import Step, fails_at_load, first_failing, stage_by

_JAX: Final = "mindgap.platforms.jax.intermediate:TRANSLATED"
_XLA: Final = "mindgap.platforms.xla.intermediate:TRANSLATED"
_LITERT: Final = "mindgap.platforms.litert.intermediate:TRANSLATED"


def jax_stage(runs: StageRuns) -> Stage:
    """The front end (torchax with JAX), XLA's code generation, or XLA."""
    step = f"{_JAX}@mode={runs.name.options.get('mode', 'default')}"
    if runs.fails:
        found = first_failing(runs, [Step(step, "front end", "torchax's and JAX's translation to StableHLO alone")])
        return found or ("compiler" if fails_at_load(runs) else "kernel")
    shown = _translated(runs, step)
    if shown != "right":
        return "front end" if shown == "shows" else "unknown"
    if runs.name.options.get("opt") != "off" and runs.ask(runs.with_options(opt="off")) == "right":
        return "code generation"
    return "compiler"


def xla_stage(runs: StageRuns) -> Stage:
    """The front end (torch_xla), or XLA."""
    if runs.fails:
        step = Step(_XLA, "front end", "torch_xla's translation alone, which computes nothing,")
        return first_failing(runs, [step]) or "compiler"
    shown = _translated(runs, _XLA)
    return stage_by(shown, shows="front end", right="compiler")


def litert_stage(runs: StageRuns) -> Stage:
    """The front end (litert-torch), the graph compiler (LiteRT's converter), the delegate, the interpreter's loading of
    a model, or its kernel."""
    step = f"{_LITERT}@x64={runs.name.options.get('x64', 'off')}"
    if not runs.fails:
        return _litert_values(runs, step)
    if _without_delegate_is_right(runs):
        return "delegate"
    steps = [
        Step(step, "front end", "litert-torch's translation to StableHLO alone"),
        Step(
            f"{step},stop=convert", "graph compiler", "litert-torch with LiteRT's converter, without the interpreter,"
        ),
    ]
    found = first_failing(runs, steps)
    return found or ("runtime load" if fails_at_load(runs) else "kernel")


def _litert_values(runs: StageRuns, step: str) -> Stage:
    """What LiteRT's converter wrote is looked at before the delegate: other kernels may hide that it is wrong."""
    translated = _translated(runs, step)
    if translated == "shows":
        return "front end"
    converted = runs.ask(
        runs.beside(f"{step},run=model"), "The converted model, evaluated operator by operator in numpy,"
    )
    if converted == "shows":
        return "graph compiler" if translated == "right" else "unknown"
    if _without_delegate_is_right(runs):
        return "delegate"
    if converted == "right":
        return "kernel"
    return "compiler" if translated == "right" else "unknown"


def _without_delegate_is_right(runs: StageRuns) -> bool:
    return runs.name.options.get("delegate") != "none" and runs.ask(runs.with_options(delegate="none")) == "right"


def _translated(runs: StageRuns, step: str) -> Shown:
    if runs.structural:
        return runs.ask(runs.beside(step), "The StableHLO program, by the types that it declares,")
    values = f"{step}{',' if '@' in step else '@'}run=values"
    return runs.ask(runs.beside(values), "The StableHLO program in StableHLO's reference interpreter")
