"""Tells the stage at fault for TVM: its front end, its passes, the code that it generates."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.stages import Stage, StageStep, VariantRuns, right_with, stage_by, stage_of_failure

_PLACE: Final = "mindgap_runtimes.tvm.intermediate"
_STEPS: Final = (
    StageStep(f"{_PLACE}:TRANSLATED@stop=import", "front end", "The front end alone (from_exported_program)"),
    StageStep(f"{_PLACE}:TRANSLATED@stop=passes", "graph compiler", "The front end with TVM's passes, without code"),
)


def tvm_stage(runs: VariantRuns) -> Stage:
    """The front end, the graph compiler (Relax's passes), code generation, or the kernel that fails while it runs."""
    if runs.fails:
        return stage_of_failure(runs, _STEPS, load="code generation")
    if runs.structural:
        shown = runs.ask(
            runs.in_same_environment(_STEPS[0].platform), "The front end's Relax module, by the types that it declares,"
        )
        return stage_by(shown, shows="front end", right="graph compiler")
    return "code generation" if right_with(runs, "opt", "off") else "unknown"
