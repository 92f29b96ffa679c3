"""Passes of TVM, flags of IREE's compiler and properties of OpenVINO's CPU plugin by name, and the lines that leave
some out.

The lists hold what programs were seen to compile without. A compiler of another version may know only some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mindgap.platforms.name import PlatformName
from mindgap.platforms.openvino.backend import SWITCHES

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


def tvm_passes(_: PlatformName) -> Sequence[str]:
    return _TVM


def tvm_remedy(names: Sequence[str]) -> str:
    return f"with tvm.transform.PassContext(disabled_pass={[*names]}): tvm.compile(…)"


def iree_flags(_: PlatformName) -> Sequence[str]:
    return _IREE


def iree_remedy(names: Sequence[str]) -> str:
    return " ".join(("iree-compile", *(f"--{each}=false" for each in names)))


def openvino_properties(_: PlatformName) -> Sequence[str]:
    return [*SWITCHES]


def openvino_remedy(names: Sequence[str]) -> str:
    return f'openvino.Core().compile_model(…, "CPU", { ({each: SWITCHES[each] for each in names}) })'
