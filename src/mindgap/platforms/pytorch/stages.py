"""Tells the stage at fault for PyTorch's own ways: Inductor, AOTInductor, TorchScript, and eager mode."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.name import PlatformName
from mindgap.platforms.stages import Stage, VariantRuns, right_with

#: Value of Inductor's option `stage` -> the stage that it ends with.
_PARTIAL: Final[dict[str, Stage]] = {
    "captured": "graph capture",
    "functional": "functionalisation",
    "decomposed": "decomposition",
}
#: What generates code, in the order in which it is left out.
_GENERATION: Final[dict[str, Stage]] = {
    "vectors": "vectorised code generation",
    "fusion": "fusion",
    "generated_kernels": "code generation",
}
_TIERS: Final = ("default", "avx2", "avx512")


def inductor_stage(runs: VariantRuns) -> Stage:
    """Capture, functionalisation, decomposition, a graph pass, fusion, or code generation.

    The stages before Inductor are run one after the other, the first that shows the fault brings it. Then parts of
    Inductor are left out, the first without which the fault is gone brings it.
    """
    compiled = PlatformName(f"{runs.name.device}/inductor", runs.name.options)
    for value, stage in _PARTIAL.items():
        if runs.ask(compiled.with_options(stage=value)) == "shows":
            return stage
    if runs.name.options.get("off"):
        return "unknown"
    if runs.ask(runs.with_options(off="passes")) == "right":
        return "graph pass"
    for name, stage in _GENERATION.items():
        if runs.ask(runs.with_options(off=name)) == "right":
            return stage
    return "unknown"


def jit_stage(runs: VariantRuns) -> Stage:
    """The executor's optimisation, or TorchScript's interpreter with what it runs."""
    if right_with(runs, "opt", "off"):
        return "executor optimisation"
    return "interpreter"


def eager_stage(runs: VariantRuns) -> Stage:
    """A kernel of oneDNN, a kernel for one tier of instructions, or a kernel for all tiers."""
    if right_with(runs, "onednn", "off"):
        return "oneDNN kernel"
    own = runs.name.options.get("isa")
    answers = [runs.ask(runs.with_options(isa=tier)) for tier in _TIERS if tier != own]
    if "right" in answers:
        return "kernel (ISA tier)"
    return "kernel" if "shows" in answers else "unknown"
