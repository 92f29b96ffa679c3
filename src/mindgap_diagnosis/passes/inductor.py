"""Inductor's passes by name, and the settings that leave some out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mindgap.platforms.name import PlatformName
from mindgap.platforms.stages import Stage
from mindgap_diagnosis.passes.names import names_there

#: Parts of names of passes without which no graph compiles.
_NEEDED: Final = ("decompose_", "stable_sort", "fix_", "custom_", "replace_by_example", "replacement")
#: Value of the platform's option `off` -> stages that it stands for.
_SWITCHES: Final[Mapping[str, tuple[Stage, ...]]] = {
    "constant_folding": ("graph pass",), "layout_optimization": ("graph pass",), "pattern_matcher": ("graph pass",),
    "pre_grad_passes": ("graph pass",), "joint_passes": ("graph pass",), "post_grad_passes": ("graph pass",),
    "vectors": ("vectorised code generation",), "fusion": ("fusion",), "generated_kernels": ("code generation",),
}  # fmt: skip


def inductor_passes(platform: PlatformName) -> list[str]:
    """The names that `torch._inductor.config.disabled_passes` takes, without those that every graph needs."""
    names = names_there(platform, "mindgap.platforms.pytorch.compilation.inductor_passes")
    return [each for each in names if not any(part in each for part in _NEEDED)]


def inductor_remedy(names: Sequence[str]) -> str:
    return f'torch._inductor.config.disabled_passes = "{",".join(names)}"'


def inductor_switches(stage: Stage) -> dict[str, str]:
    """For each value of the option `off` that a stage stands for, the lines of a deployment."""
    # Imported late: it imports PyTorch's compiler.
    from mindgap.aten.torch_private.inductor import SWITCHED_OFF

    def lines(settings: Mapping[str, Any]) -> str:
        return "; ".join(f"torch._inductor.config.{name} = {value!r}" for name, value in settings.items())

    return {value: lines(SWITCHED_OFF[value]) for value, stages in _SWITCHES.items() if stage in stages}
