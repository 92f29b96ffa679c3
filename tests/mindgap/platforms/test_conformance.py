"""What holds for every backend of mindgap: options, scripts, recipes. Tests of one runtime are beside this one."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from mindgap.findings.script.culprit_script import script_platform_of
from mindgap.findings.script.form import NO_FAULT, ScriptForm, script_source
from mindgap.platforms.environments import read_recipe
from mindgap.platforms.host_runtime import HostRuntime
from mindgap.platforms.listing import platform_info
from mindgap.platforms.name import parse
from mindgap.platforms.protocol import HasRecipe, Packaged, PlatformError, Scripted, Staged
from mindgap.platforms.registry import places, registered
from mindgap.platforms.script_runner import read_runner

OWN = [name for name, place in places().items() if place.partition(".")[0].startswith("mindgap")]
RUNTIMES = [name for name in OWN if isinstance(registered(name), HostRuntime)]
OFF = {"opt": "off", "threads": "2"}
#: Platform, options -> the variables of its worker.
VARIABLES: list[tuple[str, Mapping[str, str], Mapping[str, str]]] = [
    ("jax/cpu", {}, {"JAX_PLATFORMS": "cpu"}),
    (
        "jax/cpu", {"mode": "accuracy", **OFF},
        {"JAX_PLATFORMS": "cpu", "NPROC": "2", "XLA_FLAGS": "--xla_dump_to=here --xla_backend_optimization_level=0"},
    ),
    ("rknn/simulator", {"target": "rk3568", "opt": "0"}, {}),
    ("tinygrad/cpu", {}, {"DEV": "CPU", "PARALLEL": "0"}),
    ("tinygrad/cpu", OFF, {"DEV": "CPU", "PARALLEL": "0", "NOOPT": "1", "NUM_CPU_THREADS": "2", "CPU_COUNT": "2"}),
    ("tinygrad/cl", {"opt": "off"}, {"DEV": "CL", "PARALLEL": "0", "NOOPT": "1"}),
    (
        "tinygrad/webgpu", {"opt": "off"},
        {"DEV": "WEBGPU", "PARALLEL": "0", "NOOPT": "1", "WEBGPU_BACKEND": "WGPUBackendType_Vulkan"},
    ),
    ("iree/vulkan", {"opt": "O2"}, {}),
    ("iree/cpu", {}, {}),
    (
        "iree/cpu", {"threads": "2", "opt": "O2", "cpu": "haswell"},
        {"IREE_PY_RUNTIME_FLAGS": "--task_worker_spin_us=0 --task_topology_group_count=2"},
    ),
    ("tvm/cpu", {}, {}),
    ("tvm/cpu", {"threads": "2", "pipeline": "zero"}, {"TVM_NUM_THREADS": "2"}),
    ("executorch/cpu", {"delegate": "none", "threads": "2"}, {}),
    ("executorch/tosa", {}, {}),
    ("litert/cpu", {"delegate": "none", "threads": "2", "x64": "on"}, {"JAX_PLATFORMS": "cpu"}),
    ("ncnn/cpu", {"precision": "f32", **OFF}, {}),
    ("ncnn/vulkan", {"precision": "f32"}, {}),
    ("openvino/cpu", {"precision": "f32", "threads": "2"}, {}),
    ("onnxruntime/cpu", OFF, {}),
    ("onnxruntime/openvino", {"delegate": "none", "precision": "f32", **OFF}, {}),
    ("onnxruntime/qnn", {"soc": "SM8550"}, {}),
    ("onnxruntime/webgpu", {}, {}),
    ("ortweb/wasm", OFF, {}),
    ("ortweb/webgpu", {"device": "swiftshader"}, {}),
    ("ortweb/webgl", {"opt": "off"}, {}),
    ("ortweb/webnn", {}, {}),
    ("triton/interpreter", {"block": "small"}, {"TRITON_INTERPRET": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}),
    ("onnxruntime/cuda", {"tf32": "off"}, {}),
    ("onnxruntime/tensorrt", {"precision": "f16"}, {}),
    ("onnxruntime/migraphx", {"precision": "f16"}, {}),
    ("onnxruntime/directml", {}, {}),
    ("onnxruntime/coreml", {}, {}),
    ("onnxruntime/vitisai", {"delegate": "none"}, {}),
    *((f"onnxruntime/{mode}", {"opt": "off"}, {}) for mode in
      ("rocm", "tensorrt-rtx", "cann", "nnapi", "xnnpack", "dnnl", "acl", "vsinpu", "rknpu")),
    ("onnxruntime/provider", {"plugin": "onnxruntime_ggml"}, {}),
    ("openvino/gpu", {"precision": "f32", "frontend": "onnx"}, {}),
    ("openvino/npu", {"precision": "f16"}, {}),
    ("onnx/reference", {}, {}),
]  # fmt: skip
#: Platform, options that it refuses, besides those that `test_a_bad_value_is_refused` makes.
REFUSED: list[tuple[str, Mapping[str, str]]] = [
    ("jax/cpu", {"x64": "on"}),
    ("iree/cpu", {"cpu": "haswell", "target": "vmvx"}),
    ("tvm/cpu", {"opt": "O2"}),
    ("litert/cpu", {"opt": "off"}),
    ("ncnn/cpu", {"precision": "bf16"}),
    ("openvino/cpu", {"precision": "f16"}),
    ("openvino/gpu", {"threads": "2"}),
    ("onnxruntime/openvino", {"precision": "f16"}),
    ("onnxruntime/provider", {}),
    ("onnxruntime/provider", {"name": "AzureExecutionProvider"}),
    ("onnxruntime/provider", {"name": "CUDAExecutionProvider"}),
    ("onnxruntime/openvino", {"frontend": "onnx"}),
    ("onnx/reference", {"opt": "off"}),
]
#: Forms of a script besides that of the platform without options.
OTHER_FORMS = [
    "onnxruntime/cpu@opt=off", "openvino/cpu@frontend=onnx", "jax/cpu@mode=accuracy", "executorch/cpu@delegate=none",
    "litert/cpu@x64=on", "ncnn/cpu@opt=off,precision=f32", "iree/cpu@target=vmvx", "onnxruntime/openvino@delegate=none",
    "onnxruntime/qnn@soc=SM8550",
]  # fmt: skip
IN_A_BROWSER = ("ortweb/webgpu", "ortweb/webgl", "ortweb/webnn")
#: One of each way to write a script: a package of this environment, one of another, and a file for a runtime.
SCRIPTS_IN_CI = ("onnxruntime/cpu", "openvino/cpu", "jax/cpu")
#: Options without which a platform runs nothing.
NEEDED: Mapping[str, Mapping[str, str]] = {"onnxruntime/provider": {"plugin": "onnxruntime_ggml"}}
#: No script of a user's runs what mindgap replaces there.
NO_SCRIPT = ("triton/interpreter",)
#: They need a driver of Vulkan or OpenCL: `test_vulkan.py` and `test_tinygrad.py` have one.
ON_VULKAN = ("onnxruntime/webgpu", "ncnn/vulkan", "iree/vulkan", "tinygrad/cl", "tinygrad/webgpu")
#: Module of a `run.py` -> its functions, for runtimes of mindgap's own environment.
FUNCTIONS = [
    ("pytorch", "run"), ("pytorch", "run_traced"), ("pytorch", "run_compiled"),
    pytest.param("pytorch", "run_ahead", marks=pytest.mark.nightly),
    ("onnxruntime", "run"), ("onnxruntime", "run_unoptimised"), ("openvino", "run"), ("openvino", "run_onnx"),
    ("onnx_reference", "run"),
]  # fmt: skip
CASES = """
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


CASES = {"one": (Model, lambda: (torch.tensor([-1.0, 2.0]),))}
"""


def runtime(name: str) -> HostRuntime:
    found = registered(name)
    assert isinstance(found, HostRuntime)
    return found


@pytest.mark.parametrize(("name", "options", "variables"), VARIABLES)
def test_options_become_variables(
    name: str, options: Mapping[str, str], variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=here")
    monkeypatch.setenv("IREE_PY_RUNTIME_FLAGS", "--task_worker_spin_us=0")
    assert runtime(name).environment(options) == variables


def test_every_runtime_is_in_the_table() -> None:
    assert {name for name, _, _ in VARIABLES} == set(RUNTIMES)


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_bad_value_is_refused(name: str) -> None:
    backend = runtime(name)
    bad = {option.name: ["not a value", *(["0", "-1", "two"] if option.name == "threads" else [])]
           for option in backend.declared}  # fmt: skip
    for option, value in [("no_such_option", "1"), *((key, value) for key, values in bad.items() for value in values)]:
        with pytest.raises(PlatformError, match=option):
            backend.environment({option: value})
        with pytest.raises(PlatformError, match=option):
            backend.open({option: value})


@pytest.mark.parametrize(("name", "options"), REFUSED)
def test_these_options_are_refused(name: str, options: Mapping[str, str]) -> None:
    with pytest.raises(PlatformError):
        runtime(name).environment(options)


@pytest.mark.parametrize("name", OWN)
def test_what_it_says_of_its_runtime_can_be_used(name: str) -> None:
    backend = registered(name)
    if isinstance(backend, Packaged):
        assert all(isinstance(each, str) for each in backend.packages)
    if isinstance(backend, Staged) and backend.stage_at_fault is not None:
        assert callable(backend.stage_at_fault)
    if isinstance(backend, HasRecipe) and backend.recipe is not None:
        assert read_recipe(backend.recipe).name == backend.recipe.stem
    runner = backend.script_runner(NEEDED.get(name, {})) if isinstance(backend, Scripted) else None
    if runner is not None:
        ast.parse("\n".join([*runner.imports, runner.run]))
        assert "def run(model, fresh):" in runner.run and "mindgap" not in runner.run


@pytest.mark.parametrize("name", RUNTIMES)
def test_an_option_at_its_default_changes_no_script(name: str) -> None:
    backend = runtime(name)
    given = NEEDED.get(name, {})
    assert backend.script_runner(backend.checked(given)) == backend.script_runner(given)
    assert (backend.script_runner(given) is None) == (name in NO_SCRIPT)


def test_an_edit_of_a_script_that_fits_nowhere_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text("import sys\n\n\ndef run(model, fresh):\n    return model(*fresh())\n")
    assert read_runner(tmp_path / "run.py", ()).imports == ()
    with pytest.raises(ValueError, match="occurs 0 times"):
        read_runner(tmp_path / "run.py", (), edits={"no such text": ""})
    with pytest.raises(ValueError, match="has no function run_other"):
        read_runner(tmp_path / "run.py", (), "run_other")


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "function"), FUNCTIONS)
def test_the_function_of_a_script_runs_a_model(folder: str, function: str) -> None:
    module: Any = importlib.import_module(f"mindgap.platforms.{folder}.run")
    model, operands = torch.nn.Linear(3, 2).eval(), torch.tensor([[1.0, -2.0, 0.5]])
    with torch.no_grad():
        (found,) = [getattr(module, function)(model, lambda: (operands.clone(),))]
        [value] = found if isinstance(found, (list, tuple)) else [found]
        # OpenVINO takes bfloat16 by itself where the processor has it.
        torch.testing.assert_close(value.reshape(1, 2), model(operands), rtol=1e-2, atol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "platform",
    [
        *(name for name in RUNTIMES if name in SCRIPTS_IN_CI),
        *(
            pytest.param(name, marks=pytest.mark.nightly)
            for name in (*RUNTIMES, *OTHER_FORMS)
            if name not in (*ON_VULKAN, *SCRIPTS_IN_CI, *NEEDED, *NO_SCRIPT)
        ),
    ],
)
def test_a_script_runs_where_the_platform_runs(platform: str, tmp_path: Path) -> None:
    info = platform_info(platform)
    if not info.available:
        pytest.skip(f"{platform}: {info.reason}")
    target = script_platform_of(parse(platform))
    text = script_source(ScriptForm("relu", target, CASES))
    assert text is not None
    (tmp_path / "script.py").write_text(text)
    command = [target.python or sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == NO_FAULT, done.stdout + done.stderr
