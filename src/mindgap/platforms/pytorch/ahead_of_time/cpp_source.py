"""Takes the C++ that AOTInductor generates for one graph before it is built, to build many graphs together."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.fx

from mindgap.aten.torch_private.aot_inductor import (
    AotCodeCompiler,
    CodeGenerators,
    CppWrapperCpu,
    ExternKernel,
    FallbackKernel,
    aot_compile,
    code_generators,
    register_code_generators,
)
from mindgap.platforms.protocol import Fallback

_INCLUDE: Final = re.compile(r"^\s*#include\s+[<\"].*[>\"]\s*$", re.MULTILINE)
_EXPORTED: Final = re.compile(r'extern\s+"C"\s+(?:__declspec\(\w+\)\s+)?[\w:\s*]*?\b(\w+)\s*\(')
#: Checks that the program makes only where a variable of the environment asks for them.
_ON_REQUEST: Final = re.compile(r"^\s*if \(_check_aoti_runtime_check_inputs_env\(\)\).*$\n?", re.MULTILINE)
_OPENING: Final = "namespace torch::aot_inductor {"
_CLOSING: Final = "} // namespace torch::aot_inductor"


@dataclass(frozen=True, slots=True)
class CppSource:
    """One graph as C++: `program` defines `AOTInductorModel::run_impl`, `kernels` the functions that it calls.

    `includes` and `kernel_includes`: what each wants included. `names`: of the kernels, unique in this graph only.
    `outputs`: how many tensors it gives. `fallbacks`: operators that Inductor has no code for and calls in
    ATen; `external`: calls of libraries that it prefers to generated code (matrix products, convolutions).
    `proxied`: the calls that the program makes through AOTInductor's proxy executor, as its JSON; empty if none.
    """

    program: str
    kernels: str
    includes: tuple[str, ...]
    kernel_includes: tuple[str, ...]
    names: tuple[str, ...]
    outputs: int
    fallbacks: Mapping[str, int]
    external: int
    proxied: str


class NeedsOwnLibrary(Exception):
    """The graph's program needs constants, or has an unknown form, and so must be built alone."""


class _Taken(BaseException):
    """Carries the code out of the compiler. Not an `Exception`, which the compiler would wrap in another error."""

    def __init__(self, source: CppSource | None, why: str = "") -> None:
        super().__init__(why)
        self.source = source
        self.why = why


class _Bare(CppWrapperCpu):
    """The program without the parts that every package repeats: interface, class, disabled checks."""

    @staticmethod
    def create(
        is_subgraph: bool, subgraph_name: str | None, parent_wrapper: Any, partition_signatures: Any = None
    ) -> CppWrapperCpu:
        return _Bare()

    def _write_aoti_interface_header(self) -> None:
        pass

    def _codegen_aoti_model_class(self) -> None:
        pass

    def generate_input_output_runtime_checks(self) -> None:
        pass


def source_of(module: torch.fx.GraphModule, sample: Sequence[torch.Tensor]) -> CppSource:
    """Translates the module to C++. Raises `NeedsOwnLibrary`, or the compiler's errors."""
    try:
        with _taking():
            compile_alone(module, sample)
    except _Taken as taken:
        if taken.source is None:
            raise NeedsOwnLibrary(taken.why) from None
        return taken.source
    raise Fallback("AOTInductor gave no program")


def compile_alone(module: torch.fx.GraphModule, sample: Sequence[torch.Tensor]) -> str:
    """Compiles this module alone with AOTInductor. Returns the library's path. Raises the compiler's errors."""
    with torch.no_grad():
        return aot_compile(module, sample)


@contextlib.contextmanager
def _taking() -> Generator[None]:
    """Within this block, AOTInductor returns its C++ instead of building it."""
    register_code_generators()
    registered = code_generators["cpu"]
    building = AotCodeCompiler.__dict__["compile"]
    bare = CodeGenerators(registered.scheduling, registered.wrapper_codegen, _Bare, registered.fx_wrapper_codegen)
    code_generators["cpu"] = bare
    AotCodeCompiler.compile = _take
    try:
        yield
    finally:
        AotCodeCompiler.compile = building
        code_generators["cpu"] = registered


def _take(
    graph: Any, wrapper_code: str, kernel_code: str, serialized_extern_kernel_nodes: str | None, **_: Any
) -> None:
    if graph.constants:
        raise _Taken(None, "it holds constants")
    body = _ON_REQUEST.sub("", _INCLUDE.sub("", wrapper_code))
    opened, closed = body.count(_OPENING), body.count(_CLOSING)
    if opened != closed or "kernels." in body or "AOTInductorModel::run_impl(" not in body:
        raise _Taken(None, "its program has a form that is not known here")
    called = Counter(
        str(getattr(node, "op_overload", None) or type(node).__name__)
        for node in graph.operations
        if isinstance(node, FallbackKernel)
    )
    outside = sum(isinstance(node, ExternKernel) for node in graph.operations) - called.total()
    raise _Taken(
        CppSource(
            body.replace(_OPENING, "").replace(_CLOSING, ""),
            _INCLUDE.sub("", kernel_code),
            _included(wrapper_code),
            _included(kernel_code),
            tuple(dict.fromkeys(_EXPORTED.findall(kernel_code))),
            len(graph.graph_outputs),
            dict(called),
            outside,
            serialized_extern_kernel_nodes or "",
        )
    )


def _included(code: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line.strip() for line in _INCLUDE.findall(code)))
