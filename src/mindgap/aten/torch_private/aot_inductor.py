"""AOTInductor: compilation of an FX module to a library, its code generators, and the handles that libraries take."""
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
import torch._inductor as _inductor
import torch.fx
from torch._inductor import codecache, cpp_builder as cpp_builder
from torch._inductor.codegen import common as codegen_common
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu as CppWrapperCpu
from torch._inductor.ir import ExternKernel as ExternKernel, FallbackKernel as FallbackKernel

_torch: Any = torch  # typed in parts
_library: Any = _inductor
_codecache: Any = codecache

#: Registry of code generators by device, and the class of its entries.
code_generators: Final[dict[str, codegen_common.DeviceCodegen]] = codegen_common.device_codegens
CodeGenerators = codegen_common.DeviceCodegen
register_code_generators = codegen_common.init_backend_registration
#: The class whose `compile` takes the generated C++ of a module.
AotCodeCompiler: Final[Any] = codecache.AotCodeCompiler
#: Writes generated code to the code cache: (text, extension, extra=...) -> (key, path).
write_code = codecache.write


def aot_compile(module: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> str:
    """Returns the path of the library that AOTInductor makes of a module. Raises what the compiler raises."""
    return str(_library.aot_compile(module, tuple(inputs), options={"aot_inductor.package": False}))


def load_library(path: str) -> Any:
    """Returns a runner for a library that `aot_compile` made; `run(tensors)` calls it. Raises `RuntimeError`."""
    return _torch._C._aoti.AOTIModelContainerRunnerCpu(path, 1)


def handles_of(tensors: Sequence[torch.Tensor]) -> list[Any]:
    """Returns one capsule per tensor, around a handle that a compiled program takes ownership of."""
    return _torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors(list(tensors))


def tensors_of(capsules: Sequence[Any]) -> list[torch.Tensor]:
    """Returns the tensors of capsules around handles, and takes ownership of them."""
    return _torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs(list(capsules))


def precompile_header(header: str, key: str, **options: Any) -> str:
    """Returns the path of a precompiled header for these options of the C++ compiler."""
    return _codecache._precompile_header(header, key, **options)


def wrapper_header() -> str:
    """Returns the header that AOTInductor's CPU programs include."""
    return _codecache._get_cpp_wrapper_header("cpu", aot_mode=True)
