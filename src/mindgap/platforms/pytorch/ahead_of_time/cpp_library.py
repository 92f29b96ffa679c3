"""Builds the C++ of many graphs as one shared library, with one function per graph."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.aten.torch_private.aot_inductor import (
    cpp_builder,
    handles_of,
    load_library,
    precompile_header,
    tensors_of,
    wrapper_header,
    write_code,
)
from mindgap.aten.torch_private.inductor import inductor_config, pick_vec_isa
from mindgap.platforms.pytorch.ahead_of_time.cpp_source import CppSource
from mindgap.platforms.pytorch.ahead_of_time.proxy_executor import ProxyExecutor

#: One graph's function: the tensors that the module takes -> the tensors that it gives.
Function = Callable[..., list[torch.Tensor]]

_ROOM: Final = 4096
_ACCUSED: Final = re.compile(r"^graph_(\d+):\d+:(?:\d+:)? (?:fatal )?error:", re.MULTILINE)
_PREFIX: Final = "torch/csrc/inductor/cpp_prefix.h"
_HEADED: Final = f"#include <{_PREFIX}>"
#: What a library has once. `AOTInductorModel` here is what the generated code uses of the class of that name.
_HEAD: Final = """
#include <cstring>
#include <exception>
using namespace torch::aot_inductor;
namespace {
struct AOTInductorModelKernels {};
inline bool _check_aoti_runtime_check_inputs_env() { return false; }
inline void __check_inputs_outputs(AtenTensorHandle*, AtenTensorHandle*) {}
using Program = void(AtenTensorHandle*, AtenTensorHandle*, AOTIProxyExecutorHandle);
}
"""
_CLASS: Final = """
struct AOTInductorModel {
  std::unique_ptr<AOTInductorModelKernels> kernels_ = std::make_unique<AOTInductorModelKernels>();
  int32_t device_idx_ = -1;
  void _const_run_impl(std::vector<AtenTensorHandle>&, DeviceStreamType, AOTIProxyExecutorHandle);
  void run_impl(AtenTensorHandle*, AtenTensorHandle*, DeviceStreamType, AOTIProxyExecutorHandle);
};
"""
_RUN: Final = """
void run(AtenTensorHandle* given, AtenTensorHandle* found, AOTIProxyExecutorHandle proxy) {
  AOTInductorModel model;
  model.run_impl(given, found, nullptr, proxy);
}
"""
_ENTRY: Final = """
extern "C" int mindgap_run(int number, AtenTensorHandle* given, AtenTensorHandle* found, AOTIProxyExecutorHandle proxy,
                           char* message, size_t room) {
  try {
    programs[number](given, found, proxy);
    return 0;
  } catch (const std::exception& error) {
    std::strncpy(message, error.what(), room - 1);
  } catch (...) {
    std::strncpy(message, "an exception of an unknown type", room - 1);
  }
  return 1;
}
"""


def build(sources: Sequence[CppSource]) -> list[Function]:
    """Builds one library with one function for each source. Raises the errors of the C++ compiler's caller.

    A library that was built before from the same code, by the same compiler under the same settings, is taken
    from Inductor's cache.
    """
    library = _built(*_texts(sources))
    run: Any = ctypes.CDLL(library).mindgap_run
    run.restype = ctypes.c_int
    return [
        _bound(run, number, source.outputs, ProxyExecutor(source.proxied) if source.proxied else None)
        for number, source in enumerate(sources)
    ]


def accused(error: Exception) -> set[int]:
    """Returns the indices of the sources with compiler errors; empty for other errors."""
    return {int(number) for number in _ACCUSED.findall(str(error))}


def opened(path: str) -> Function:
    """Loads the function of a library that AOTInductor built alone. Raises `RuntimeError` if it cannot."""
    runner = load_library(path)
    return lambda *given: runner.run(list(given))


def _texts(sources: Sequence[CppSource]) -> tuple[str, str]:
    """Returns the library's programs and kernels, each under a unique name."""
    includes = dict.fromkeys(line for source in sources for line in source.includes)
    programs = [*includes, _HEAD]
    kernels = [_HEADED, *dict.fromkeys(line for source in sources for line in source.kernel_includes)]
    for number, source in enumerate(sources):
        program, kernel = _renamed(source, f"g{number}_")
        # The compiler's errors then have the number of the graph.
        programs.append(f'#line 1 "graph_{number}"\nnamespace graph_{number} {{{_CLASS}{program}{_RUN}}}')
        kernels.append(f'#line 1 "graph_{number}"\nnamespace graph_{number} {{{kernel}}}')
    programs.append('#line 1 "table"')
    table = ", ".join(f"graph_{number}::run" for number in range(len(sources)))
    programs.append(f"static Program* const programs[] = {{{table}}};{_ENTRY}")
    return "\n".join(programs), "\n".join(kernels)


def _renamed(source: CppSource, prefix: str) -> tuple[str, str]:
    if not source.names:
        return source.program, source.kernels
    names = re.compile(r"\b(?:" + "|".join(map(re.escape, source.names)) + r")\b")

    def prefixed(found: re.Match[str]) -> str:
        return prefix + found[0]

    return names.sub(prefixed, source.program), names.sub(prefixed, source.kernels)


def _built(programs: str, kernels: str) -> str:
    """Compiles the library as AOTInductor does, with the same options, headers and cache. Returns its path.

    The program, which only calls kernels, is left unoptimised: that takes most of the time otherwise.
    """
    isa = pick_vec_isa()
    common: dict[str, Any] = {"aot_mode": True, "device_type": "cpu", "vec_isa": isa}
    with inductor_config.patch(
        {"aot_inductor.compile_wrapper_opt_level": "O0", "aot_inductor.enable_line_tables": False}
    ):
        key = _key(common)
        _, program_path = write_code(programs + "\n//" + str(len(kernels)), "cpp", extra=key + kernels)
        library = Path(program_path).with_suffix(".so")
        if library.exists():
            return str(library)
        _, kernel_path = write_code(kernels, "kernel.cpp", extra=key)
        builders = [
            _object_builder(program_path, wrapper_header(), {**common, "min_optimize": True}, key),
            _object_builder(kernel_path, _PREFIX, common, key),
        ]
        with ThreadPoolExecutor(len(builders)) as compilers:
            for compiled in [compilers.submit(builder.build) for builder in builders]:
                compiled.result()
        program, kernel = (builder.get_target_file_path() for builder in builders)
        linker = cpp_builder.CppBuilder(
            name=library.stem,
            sources=[program, kernel],
            output_dir=str(library.parent),
            BuildOption=cpp_builder.CppTorchDeviceOptions(**common),
        )
        linker.build()
        for done in (program, kernel):
            Path(done).unlink(missing_ok=True)
        return linker.get_target_file_path()


def _object_builder(source: str, header: str, options: dict[str, Any], key: str) -> Any:
    """Makes what compiles a source to an object file with a precompiled header."""
    wanted = cpp_builder.CppTorchDeviceOptions(**options, compile_only=True)
    wanted.precompiled_header = _precompiled(header, key, tuple(sorted(options.items())))
    path = Path(source)
    return cpp_builder.CppBuilder(name=path.stem, sources=source, output_dir=str(path.parent), BuildOption=wanted)


@cache
def _precompiled(header: str, key: str, options: tuple[tuple[str, Any], ...]) -> str:
    return precompile_header(header, key, **dict(options))


def _key(common: dict[str, Any]) -> str:
    """Returns the cache key of a build: it contains the whole command."""
    options = cpp_builder.CppTorchDeviceOptions(**common)
    return repr(cpp_builder.CppBuilder(name="o", sources="i", BuildOption=options).get_command_line())


def _bound(run: Any, number: int, outputs: int, proxy: ProxyExecutor | None) -> Function:
    def function(*given: torch.Tensor) -> list[torch.Tensor]:
        handles = (ctypes.c_void_p * max(1, len(given)))(*(_pointer(capsule, None) for capsule in handles_of(given)))
        outputs_found = (ctypes.c_void_p * max(1, outputs))()
        message = ctypes.create_string_buffer(_ROOM)
        if run(number, handles, outputs_found, proxy.handle if proxy else None, message, ctypes.c_size_t(_ROOM)):
            raise RuntimeError(_with_aten_message(message.value.decode(errors="replace")))
        capsules = [_capsule(outputs_found[position], None, None) for position in range(outputs)]
        return tensors_of(capsules)

    return function


_pointer: Any = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule: Any = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def _with_aten_message(message: str) -> str:
    """Adds ATen's message for a failed ATen call: the program's message names only the call."""
    if "API call failed" not in message:
        return message
    library: Any = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    try:
        what: Any = library.torch_exception_get_what_without_backtrace
    except AttributeError:
        return message
    what.restype = ctypes.c_char_p
    text = what()
    return f"{text.decode(errors='replace')}\n{message}" if text else message
