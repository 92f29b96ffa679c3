"""Platforms on Vulkan's software drivers: WebGPU of ONNX Runtime, and ncnn's shaders. Skipped without such a driver."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import mindgap
from mindgap.findings.script.culprit_script import script_platform_of
from mindgap.findings.script.form import NO_FAULT, ScriptForm, script_source
from mindgap.platforms.name import parse
from mindgap.platforms.protocol import Fallback, PlatformError
from mindgap.platforms.registry import find
from mindgap.run.outcome import Job
from mindgap_runtimes import vulkan_driver
from mindgap_runtimes.tinygrad import webgpu_driver
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured, eager, normal
from platforms.test_conformance import CASES

WEBGPU = "onnxruntime/webgpu@device=swiftshader"
NCNN = "ncnn/vulkan@device=swiftshader,precision=f32"
TINYGRAD = "tinygrad/webgpu@device=swiftshader"
IREE = "iree/vulkan@device=swiftshader"


@pytest.fixture(scope="module", autouse=True)
def driver():
    try:
        return vulkan_driver.driver_file("swiftshader")
    except PlatformError as error:
        pytest.skip(str(error))


def test_a_driver_that_is_absent_is_one_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vulkan_driver, "_FOLDERS", ("/nowhere",))
    with pytest.raises(PlatformError, match=r"device=lavapipe: no such Vulkan driver in /nowhere: Mesa has it"):
        find(parse("ncnn/vulkan@device=lavapipe"))


@pytest.mark.parametrize(("platform", "op", "left"), [
    (WEBGPU, torch.erfinv, "aten.erfinv.default"),
    (NCNN, lambda x: torch.relu(x).cumsum(-1), "ncnn.CumulativeSum"),
])  # fmt: skip
def test_what_runs_and_what_is_refused(platform: str, op, left: str):
    with workers(platform) as pool:
        graph, inputs = captured(lambda x: torch.relu(x) * 2, normal(1, 4, 16))
        outcome = pool.run(Job(platform, graph, want="outputs"))
        assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
        np.testing.assert_array_equal(outcome.arrays[0], eager(graph, inputs)[0])
        assert outcome.facts["delegation"]["ran"] and not outcome.facts["delegation"]["gave_back"]
        said = pool.describe(platform)
        assert said["execution"] == "emulated" and said["vulkan_devices"][0]["software"]
        graph, _ = captured(op, normal(1, 4, 16))
        outcome = pool.run(Job(platform, graph))
        assert (outcome.status, outcome.op) == ("unsupported", left), outcome.message


def test_a_program_for_vulkan_runs_and_is_read_back():
    with workers(IREE) as pool:
        graph, inputs = captured(lambda x: (torch.relu(x) * 2, (x * 4).to(torch.int32)), normal(3, 5))
        outcome = pool.run(Job(IREE, graph, want="outputs"))
        assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
        for found, right in zip(outcome.arrays, eager(graph, inputs), strict=True):
            np.testing.assert_array_equal(found, right)
        said = pool.describe(IREE)
        assert (said["execution"], said["accuracy"], said["target"]) == ("emulated", "SPIR-V", "vulkan-spirv")
        assert said["vulkan_devices"][0]["software"]


def test_the_loader_beside_a_driver_is_found_where_the_system_has_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    folder = str(vulkan_driver.driver_file("swiftshader").parent)
    given = vulkan_driver.variables_with_loader({"device": "swiftshader"})
    assert given["LD_LIBRARY_PATH"].split(":")[0] == folder
    monkeypatch.setattr("ctypes.util.find_library", lambda name: "libvulkan.so.1")
    assert "LD_LIBRARY_PATH" not in vulkan_driver.variables_with_loader({"device": "swiftshader"})


@pytest.mark.nightly
def test_dawn_runs_tinygrads_shaders():
    with workers(TINYGRAD) as pool:
        layer = torch.nn.Linear(16, 8)
        graph, inputs = captured(lambda x: torch.relu(layer(x)), normal(4, 16))
        outcome = pool.run(Job(TINYGRAD, graph, want="outputs"))
        assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
        np.testing.assert_allclose(outcome.arrays[0], eager(graph, inputs)[0], atol=1e-5)
        said = pool.describe(TINYGRAD)
        assert (said["execution"], said["accuracy"]) == ("emulated", "WGSL") and "SwiftShader" in said["webgpu_adapter"]
        assert said["dtypes"]["float32"]["computes_in"] != "unsupported"


def test_an_adapter_of_dawn_that_computes_nothing_is_a_fallback(monkeypatch: pytest.MonkeyPatch):
    null = SimpleNamespace(enum_WGPUBackendType={1: "WGPUBackendType_Null"}, enum_WGPUAdapterType={})
    modules = {"tinygrad": SimpleNamespace(Device={"WEBGPU": None}), "tinygrad.runtime.ops_webgpu": None}
    modules["tinygrad.runtime.ops_webgpu"] = SimpleNamespace(webgpu=null)
    monkeypatch.setattr("importlib.import_module", modules.__getitem__)
    monkeypatch.setattr(webgpu_driver, "_adapter", lambda operations: SimpleNamespace(backendType=1, adapterType=3))
    with pytest.raises(Fallback, match="Dawn's adapter is WGPUBackendType_Null, not Vulkan's"):
        webgpu_driver.described()
    monkeypatch.setitem(modules, "tinygrad", SimpleNamespace(Device={}))
    with pytest.raises(Fallback, match="tinygrad opens no WebGPU device"):
        webgpu_driver.described()


@pytest.mark.nightly
@pytest.mark.parametrize(("platform", "language"), [(WEBGPU, "WGSL"), (NCNN, "SPIR-V")])
def test_what_a_shading_language_allows_is_calm(platform: str, language: str):
    with workers(platform):
        report = mindgap.diff(Sine(), (normal(1, 4, 64),), platforms=[platform], own_path=False)
    (row,) = [each for each in report.rows if each.platform == platform]
    assert row.verdict == "rounding"
    assert row.detail.startswith(f"beyond the usual bounds, within the accuracy that {language} promises: sin(")


@pytest.mark.nightly
@pytest.mark.parametrize("platform", [WEBGPU, TINYGRAD])
def test_a_script_runs_on_a_software_driver(platform: str, tmp_path: Path):
    with workers(platform):
        target = script_platform_of(parse(platform))
    text = script_source(ScriptForm("relu", target, CASES))
    assert text is not None
    (tmp_path / "script.py").write_text(text)
    command = [target.python or sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == NO_FAULT, done.stdout + done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("platforms", [
    (NCNN, "ncnn/vulkan@device=swiftshader,opt=off,precision=f32"), (WEBGPU, TINYGRAD),
    ("tinygrad/cl@device=pocl", "tinygrad/cl@device=pocl,opt=off"),
    ("onnxruntime/qnn", "onnxruntime/qnn@soc=SM8350"),
])  # fmt: skip
def test_two_workers_on_one_driver_do_not_disturb_each_other(platforms: tuple[str, str]):
    with workers(*platforms) as pool, ThreadPoolExecutor(2) as threads:
        layer = torch.nn.Linear(32, 16)
        graph, _ = captured(lambda x: torch.relu(layer(x)), normal(8, 32))
        alone = [pool.run(Job(each, graph, want="outputs")) for each in platforms]
        assert [each.status for each in alone] == ["ok", "ok"], [each.message for each in alone]
        for _ in range(4):
            beside = [*threads.map(lambda each: pool.run(Job(each, graph, want="outputs")), platforms)]
            for first, again in zip(alone, beside, strict=True):
                assert again.status == "ok" and first.arrays is not None and again.arrays is not None, again.message
                np.testing.assert_array_equal(again.arrays[0], first.arrays[0])


class Sine(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x)
