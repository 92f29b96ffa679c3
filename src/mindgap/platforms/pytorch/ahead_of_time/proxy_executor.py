"""Makes proxy executors: what a compiled program calls for operators without a C interface."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from mindgap.aten.torch_private.aot_inductor import cpp_builder, load_library, write_code

#: PyTorch makes a proxy executor only for a library that it loads with a JSON file next to it, and hands it to the
#: library's function for running. This library has no program, and keeps what it is handed. It has all functions that
#: the loader of PyTorch 2.13 looks up, and calls only those with a body of their own.
_KEEPER: Final = """
#include <cstddef>
static void* kept = nullptr;
extern "C" {
int AOTInductorModelContainerCreateWithDevice(void** container, size_t, const char*, const char*) {
  *container = &kept;
  return 0;
}
int AOTInductorModelContainerGetNumOutputs(void*, size_t* number) { *number = 0; return 0; }
int AOTInductorModelContainerGetNumConstants(void*, size_t* number) { *number = 0; return 0; }
int AOTInductorModelContainerDelete(void*) { return 0; }
int AOTInductorModelContainerRun(void*, void**, size_t, void**, size_t, void*, void* proxy) {
  kept = proxy;
  return 0;
}
void* mindgap_kept() { return kept; }
%s
}
"""
_NEVER_CALLED: Final = (
    *("AOTInductorModelContainerRunSingleThreaded", "AOTInductorModelContainerGetConstantName"),
    *("AOTInductorModelContainerGetConstantOriginalFQN", "AOTInductorModelContainerGetConstantDtype"),
    *("AOTInductorModelContainerExtractConstantsMap", "AOTInductorModelContainerUpdateUserManagedConstantBuffer"),
    *("AOTInductorModelContainerUpdateConstantBuffer", "AOTInductorModelContainerUpdateInactiveConstantBuffer"),
    *("AOTInductorModelContainerRunConstantFolding", "AOTInductorModelContainerSwapConstantBuffer"),
    *("AOTInductorModelContainerFreeInactiveConstantBuffer", "AOTInductorModelContainerGetCallSpec"),
    *("AOTInductorModelContainerGetConstantsBlobSize", "AOTInductorModelUpdateConstantsFromBlob"),
)


class ProxyExecutor:
    """A proxy executor for the calls that AOTInductor has written as JSON. `handle` is valid while this object lives.

    Raises `RuntimeError` if PyTorch does not take the JSON.
    """

    def __init__(self, calls: str) -> None:
        keeper = Path(_keeper())
        # The loader reads the JSON file of the library's name.
        path = keeper.with_name(f"{keeper.stem}_{sha256(calls.encode()).hexdigest()[:32]}.so")
        _write(path.with_suffix(".json"), calls.encode())
        _write(path, keeper.read_bytes())
        self._runner = load_library(str(path))
        self._runner.run([])
        kept: Any = ctypes.CDLL(str(path)).mindgap_kept
        kept.restype = ctypes.c_void_p
        handle = kept()
        if not handle:
            raise RuntimeError(f"PyTorch made no proxy executor for {path.with_suffix('.json')}")
        self.handle = ctypes.c_void_p(handle)


@cache
def _keeper() -> str:
    """Compiles the library, or takes it from Inductor's cache. Returns its path."""
    _, source = write_code(_KEEPER % "\n".join(f"int {name}() {{ return 1; }}" for name in _NEVER_CALLED), "cpp")
    path = Path(source)
    builder = cpp_builder.CppBuilder(
        name=path.stem, sources=source, output_dir=str(path.parent), BuildOption=cpp_builder.CppOptions()
    )
    library = Path(builder.get_target_file_path())
    if not library.exists():
        builder.build()
    return str(library)


def _write(path: Path, content: bytes) -> None:
    """Writes a file whose name is of its content. Another process may do the same at the same time."""
    if not path.exists():
        draft = path.with_suffix(f"{path.suffix}.{os.getpid()}")
        draft.write_bytes(content)
        draft.replace(path)
