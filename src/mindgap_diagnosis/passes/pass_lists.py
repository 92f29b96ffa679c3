"""Names the passes of runtimes that can be left out, and the lines of a deployment that leave some out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from mindgap.platforms.environments import find
from mindgap.platforms.name import PlatformName
from mindgap.platforms.openvino.backend import SWITCHES
from mindgap.platforms.stages import Stage

_SECONDS: Final = 60.0
#: Parts of names of Inductor's passes without which no graph compiles.
_NEEDED: Final = ("decompose_", "stable_sort", "fix_", "custom_", "replace_by_example", "replacement")
#: Each alone and all together can be left out of a compilation by 0.27.0.post1 (`mindgap diff -p tvm/cpu@without=…`).
_TVM: Final = (
    "FoldConstant", "FuseOps", "FuseTIR", "RewriteDataflowReshape", "StaticPlanBlockMemory", "KillAfterLastUse",
    "s_tir.CanonicalizeLoop", "s_tir.StmtSimplify", "s_tir.InjectSoftwarePipeline", "tirx.NarrowDataType",
    "s_tir.LoopPartition", "tirx.VectorizeLoop", "tirx.StorageRewrite", "s_tir.HoistIfThenElse",
    "s_tir.InsertHoistIfThenElse", "tirx.RemoveNoOp", "tirx.UnrollLoop", "tirx.StmtSimplify",
    "s_tir.RewriteUnsafeSelect", "tirx.CommonSubexprElim",
)  # fmt: skip
#: Boolean flags of `iree-compile` (3.13.0), which set to false leave something out.
_IREE: Final = (
    "iree-opt-const-eval", "iree-opt-const-expr-hoisting", "iree-opt-strip-assertions", "iree-opt-data-tiling",
    "iree-opt-aggressively-propagate-transposes", "iree-dispatch-creation-fuse-multi-use",
    "iree-llvmcpu-reassociate-fp-reductions", "iree-llvmcpu-skip-intermediate-roundings",
    "iree-llvmcpu-use-decompose-softmax-fuse", "iree-llvmcpu-link-ukernel-bitcode", "iree-llvmcpu-loop-interleaving",
    "iree-llvmcpu-loop-unrolling", "iree-llvmcpu-loop-vectorization", "iree-llvmcpu-slp-vectorization",
    "iree-llvmcpu-link-embedded",
)  # fmt: skip
#: Values of the platform's option `off`, by the stage that they stand for.
_SWITCHES: Final[Mapping[Stage, str]] = {
    "graph pass": (
        "constant_folding layout_optimization pattern_matcher pre_grad_passes joint_passes post_grad_passes"
    ),
    "vectorised code generation": "vectors", "fusion": "fusion", "code generation": "generated_kernels",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PassList:
    """The passes of a platform's stages. `names`: those that the runtime in the platform's environment can leave out,
    as its option `without` takes them. `line`: of a deployment that leaves some out."""

    stages: frozenset[Stage]
    names: Callable[[PlatformName], Sequence[str]]
    line: Callable[[Sequence[str]], str]


@cache
def _printed(environment: str, module: str) -> tuple[str, ...]:
    """The names that a module of mindgap prints in an environment; none where it fails there."""
    command = find(environment).command(module) if environment else [sys.executable, "-P", "-m", module]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    return tuple(json.loads(done.stdout)) if done.returncode == 0 else ()


def _listed(module: str, left_out: Sequence[str]) -> Callable[[PlatformName], Sequence[str]]:
    """Lists the passes that a module of `mindgap.platforms` prints, but for those with certain parts in their names."""

    def names(platform: PlatformName) -> list[str]:
        printed = _printed(platform.environment or "", f"mindgap.platforms.{module}")
        return [each for each in printed if not any(part in each for part in left_out)]

    return names


#: Stages that a compiler's passes may bring a fault in. Where no run shows more, the passes are tried.
_COMPILED: Final[frozenset[Stage]] = frozenset(("graph compiler", "code generation", "compiler", "unknown"))
_INDUCTOR: Final = PassList(
    frozenset(("graph pass",)), _listed("pytorch.compilation.inductor_passes", _NEEDED),
    lambda names: f'torch._inductor.config.disabled_passes = "{",".join(names)}"',
)  # fmt: skip
PASSES: Final[Mapping[str, PassList]] = {
    "onnxruntime/cpu": PassList(
        # A transformer of this name stands for rules, which are named.
        frozenset(("graph optimiser",)), _listed("onnxruntime.optimizers", ("_RuleBasedTransformer",)),
        lambda names: f"onnxruntime.InferenceSession(…, disabled_optimizers={[*names]})",
    ),
    "cpu/inductor": _INDUCTOR,
    "cuda/inductor": _INDUCTOR,
    "tvm/cpu": PassList(
        _COMPILED, lambda _: _TVM,
        lambda names: f"with tvm.transform.PassContext(disabled_pass={[*names]}): tvm.compile(…)",
    ),
    "openvino/cpu": PassList(
        frozenset(("graph compiler", "device plugin", "kernel", "unknown")), lambda _: [*SWITCHES],
        lambda names: f'openvino.Core().compile_model(…, "CPU", { ({each: SWITCHES[each] for each in names}) })',
    ),
    "iree/cpu": PassList(
        _COMPILED, lambda _: _IREE, lambda names: " ".join(("iree-compile", *(f"--{each}=false" for each in names)))
    ),
}  # fmt: skip


def inductor_switches(stage: Stage) -> dict[str, str]:
    """For each value of the option `off` that a stage stands for, the lines of a deployment."""
    # Imported late: it imports PyTorch's compiler.
    from mindgap.aten.torch_private.inductor import SWITCHED_OFF

    return {
        value: "; ".join(f"torch._inductor.config.{name} = {to!r}" for name, to in SWITCHED_OFF[value].items())
        for value in _SWITCHES.get(stage, "").split()
    }
