"""Tells the stage at fault for IREE: iree-turbine's import, its conversion of torch-mlir, its passes, its code."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.name import PlatformName
from mindgap.platforms.stages import Stage, StageStep, VariantRuns, stage_of_failure

_PLACE: Final = "mindgap_runtimes.iree.intermediate"
_STEPS: Final = (
    StageStep(f"{_PLACE}:TRANSLATED@stop=import", "front end", "iree-turbine's import to torch-mlir alone"),
    StageStep(
        f"{_PLACE}:TRANSLATED@stop=input", "front end", "iree-compile --compile-to=input, which converts torch-mlir,"
    ),
    StageStep(
        f"{_PLACE}:TRANSLATED@stop=executable-sources",
        "graph compiler",
        "iree-compile --compile-to=executable-sources, which generates no code,",
    ),
)


def iree_stage(runs: VariantRuns) -> Stage:
    """Decomposition, front end, graph compiler, code generation, or the kernel that fails while it runs.

    The portable code of `target=vmvx` shares all stages before code generation with that of LLVM.
    """
    if runs.fails:
        return stage_of_failure(runs, _STEPS, load="code generation")
    shown = runs.ask(
        runs.in_same_environment(f"{_PLACE}:DECOMPOSED"), "iree-turbine's decomposed program in eager PyTorch"
    )
    if shown == "shows":
        return "decomposition"
    return "code generation" if _portable_code_is_right(runs) else "unknown"


def _portable_code_is_right(runs: VariantRuns) -> bool:
    options = {name: value for name, value in runs.name.options.items() if name != "cpu"}
    portable = PlatformName(runs.name.device_mode, {**options, "target": "vmvx"})
    return options.get("target") != "vmvx" and runs.ask(portable) == "right"
