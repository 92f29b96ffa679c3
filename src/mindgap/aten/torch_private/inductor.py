"""Dynamo and Inductor: their configuration, the vector instructions that it picks, their caches."""

import traceback
from collections.abc import Mapping
from typing import Any, Final

import torch._dynamo
import torch._inductor.config
from torch._dynamo.utils import counters as counters
from torch._inductor.cpu_vec_isa import pick_vec_isa as pick_vec_isa
from torch._inductor.runtime.cache_dir_utils import default_cache_dir as default_cache_dir

#: `torch._dynamo.config`, whose `patch` is made at import and has no type.
dynamo_config: Any = torch._dynamo.config


def reset() -> None:
    """Discards all compiled code of this process."""
    torch._dynamo.reset()


def list_backends() -> list[str]:
    """Returns the names of all registered backends."""
    dynamo: Any = torch._dynamo  # typed in parts
    return list(dynamo.list_backends(()))


#: `torch._inductor.config`, whose `patch` is made at import and has no type.
inductor_config: Any = torch._inductor.config

#: Stage of `torch.compile` -> the backend that stops after it and runs the rest in eager mode. `decomposed` uses
#: Inductor's decompositions.
PARTIAL_BACKENDS: Final[Mapping[str, str]] = {
    "captured": "eager",
    "functional": "aot_eager",
    "decomposed": "aot_eager_decomp_partition",
}

_PASSES: Final = {
    "pre_grad": "use_pre_grad_passes",
    "joint": "use_joint_graph_passes",
    "post_grad": "use_post_grad_passes",
}
#: Part of Inductor -> the configuration that switches it off.
SWITCHED_OFF: Final[Mapping[str, Mapping[str, Any]]] = {
    "passes": {**dict.fromkeys(_PASSES.values(), False), "pattern_matcher": False, "layout_optimization": False},
    **{f"{name}_passes": {key: False} for name, key in _PASSES.items()},
    "pattern_matcher": {"pattern_matcher": False},
    "constant_folding": {"joint_graph_constant_folding": False},
    "layout_optimization": {"layout_optimization": False},
    "vectors": {"cpp.simdlen": 1},
    "fusion": {"max_fusion_size": 1, "epilogue_fusion": False, "realize_opcount_threshold": 0},
    "generated_kernels": {"fallback_by_default": True, "selective_decompose": True},
}


def graph_breaks(program: Any, args: tuple[Any, ...]) -> list[tuple[str, str]]:
    """Runs a program as `torch.compile` would, without compiling it. Returns the graph breaks: the reason, and where it
    is in the form of a traceback."""
    dynamo: Any = torch._dynamo  # typed in parts
    breaks = dynamo.explain(program)(*args).break_reasons
    return [(str(each.reason).splitlines()[0], "".join(traceback.format_list(each.user_stack))) for each in breaks]
