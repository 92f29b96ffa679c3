"""Smoke tests of AOTInductor's private parts. What needs the C++ compiler is in one test."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.fx

from mindgap.aten.torch_private import aot_inductor
from mindgap.aten.torch_private.inductor import pick_vec_isa


@pytest.mark.nightly
def test_a_module_is_compiled_loaded_and_called() -> None:
    module = torch.fx.symbolic_trace(lambda x: (x + 1,))
    x = torch.ones(4)
    path = aot_inductor.aot_compile(module, [x])
    assert Path(path).is_file()
    assert aot_inductor.load_library(path).run([x])[0].tolist() == [2, 2, 2, 2]


def test_tensors_travel_as_handles() -> None:
    x = torch.arange(3)
    (back,) = aot_inductor.tensors_of(aot_inductor.handles_of([x]))
    assert back.tolist() == [0, 1, 2]


def test_the_cpu_has_code_generators() -> None:
    aot_inductor.register_code_generators()
    registered = aot_inductor.code_generators["cpu"]
    assert isinstance(registered, aot_inductor.CodeGenerators)
    for field in ("scheduling", "wrapper_codegen", "fx_wrapper_codegen"):
        assert hasattr(registered, field)
    assert "compile" in vars(aot_inductor.AotCodeCompiler)
    for method in (
        "create", "_write_aoti_interface_header", "_codegen_aoti_model_class", "generate_input_output_runtime_checks",
    ):  # fmt: skip
        assert hasattr(aot_inductor.CppWrapperCpu, method)
    assert issubclass(aot_inductor.FallbackKernel, aot_inductor.ExternKernel)


def test_code_is_written_to_the_cache_and_a_header_is_known() -> None:
    _, path = aot_inductor.write_code("int mindgap;", "cpp", extra="key")
    assert Path(path).read_text() == "int mindgap;"
    assert aot_inductor.wrapper_header().endswith(".h")
    assert callable(aot_inductor.precompile_header)
    assert hasattr(aot_inductor._codecache, "_precompile_header")


def test_the_builder_gives_a_command() -> None:
    options = aot_inductor.cpp_builder.CppTorchDeviceOptions(
        aot_mode=True, device_type="cpu", vec_isa=pick_vec_isa(), compile_only=True
    )
    builder = aot_inductor.cpp_builder.CppBuilder(name="o", sources="i.cpp", BuildOption=options)
    assert "i.cpp" in builder.get_command_line()
