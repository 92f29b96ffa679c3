"""ONNX Runtime's execution providers but OpenVINO's. QNN's workers run where the environment of its recipe is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from mindgap.findings.script.culprit_script import script_platform_of
from mindgap.findings.script.form import NO_FAULT, ScriptForm, script_source
from mindgap.platforms.delegation import delegation_of
from mindgap.platforms.environments import environments
from mindgap.platforms.listing import platform_info
from mindgap.platforms.name import parse
from mindgap.platforms.onnxruntime import session
from mindgap.platforms.protocol import CompileFailure, Fallback, PlatformError
from mindgap.platforms.registry import find
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap_runtimes.onnxruntime_providers import execution_provider
from mindgap_runtimes.onnxruntime_providers.execution_provider import CPU, ExecutionProvider, ProviderSettings
from mindgap_runtimes.onnxruntime_providers.providers import LEFT_OUT, PLATFORMS, QNN_PROVIDER
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured, eager, normal
from platforms.test_conformance import CASES

QNN = "onnxruntime/qnn"
#: An environment with plug-ins, which no recipe makes.
PLUGINS = "onnxruntime-plugins"
CHIP = "onnxruntime/qnn@soc=SM8550"


@pytest.fixture(scope="module")
def pool():
    with workers(QNN, CHIP) as pool:
        yield pool


def test_options_of_a_provider():
    # The NPU takes the quantisation of a model's inputs and outputs too, where there is no other provider for it.
    quantises = {"offload_graph_io_quantization": "0"}
    assert ProviderSettings(QNN_PROVIDER).provider_options == quantises
    chip = ProviderSettings(QNN_PROVIDER, {"soc": "SM8450"})
    assert (chip.provider_options, chip.dtype, chip.alone) == ({"soc_model": "36", **quantises}, "float16", True)
    none = ProviderSettings(QNN_PROVIDER, {"delegate": "none", "soc": "SM8450"})
    assert (none.providers, none.alone) == ([CPU], False)


@pytest.mark.parametrize(
    ("error", "log", "told"),
    [
        ("Failed to finalize QNN graph. Error: x", "ERROR:no properties registered for q::QNN_Gelu", True),
        ("Failed to finalize QNN graph. Error: x", "ERROR:could not create op: q::flat_from_vtcm", False),
        ("Failed to compose Qnn graph.", "ERROR:no properties registered for q::QNN_Gelu", False),
    ],
)
def test_what_the_npu_takes_and_lacks_is_read_from_the_log_of_a_second_try(
    error: str, log: str, told: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    tries: list[bool] = []

    def no_session(*given: object, alone: bool, plugin: object):
        tries.append(alone)
        os.write(2, f"{log}\n".encode() if len(tries) > 1 else b"")
        raise CompileFailure(error)

    monkeypatch.setattr(execution_provider, "new_session", no_session)
    monkeypatch.setattr(ExecutionProvider, "device", lambda self: None)
    monkeypatch.setattr(ExecutionProvider, "module_options", lambda self: {})
    exported = SimpleNamespace(origin={"node_Gelu_3": "aten.gelu.default"})
    with pytest.raises(CompileFailure) as caught:
        ProviderSettings(QNN_PROVIDER).session(cast("Any", exported), alone=True)
    assert tries == [True] * (1 if "compose" in error else 2)
    assert capfd.readouterr().err == ""
    before = "QNNExecutionProvider took Gelu without an implementation: "
    assert (str(caught.value), caught.value.op) == ((before + error, "aten.gelu.default") if told else (error, ""))


def test_why_a_provider_is_missing():
    made = ExecutionProvider("NoExecutionProvider", "no", "no-such-package", "the NPUs of nobody")
    assert (
        made.missing() == "the installed onnxruntime has no NoExecutionProvider (no-such-package has it, in its place)"
    )
    made = ExecutionProvider("NoExecutionProvider", "no", "onnxruntime", "the NPUs of nobody", systems=("plan9",))
    assert made.missing() == "NoExecutionProvider runs on the NPUs of nobody, on plan9 only"
    made = ExecutionProvider("NoExecutionProvider", "no", "onnxruntime", "the NPUs of nobody", nodes=("/dev/nobody*",))
    assert made.missing() == "NoExecutionProvider runs on the NPUs of nobody: this machine has no /dev/nobody*"
    assert not ExecutionProvider("NoExecutionProvider", "no", "onnxruntime", "processors").missing()


def test_every_provider_that_onnx_runtime_names_has_a_platform_or_a_reason():
    known = {*session.runtime().get_all_providers(), *session.runtime().get_available_providers()}
    assert {*PLATFORMS} | {*LEFT_OUT} >= known
    assert not {*PLATFORMS} & {*LEFT_OUT}


@pytest.mark.parametrize("platform", sorted({*PLATFORMS.values()} - {"onnxruntime/qnn", "onnxruntime/webgpu"}))
def test_an_absent_provider_is_listed_with_the_reason(platform: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path))  # the user's environments may have the provider, or be damaged
    info = platform_info(parse(platform))
    assert info.available or "ExecutionProvider" in info.reason


def test_a_provider_of_a_build_of_ones_own_is_there(monkeypatch: pytest.MonkeyPatch):
    made = ExecutionProvider("OwnExecutionProvider", "own", "onnxruntime", "processors", built_with="--use_own")
    assert "no package has it, ONNX Runtime is built with --use_own" in made.missing()
    monkeypatch.setattr(execution_provider, "built_in", lambda: frozenset(["OwnExecutionProvider"]))
    assert not made.missing()
    named = ExecutionProvider("OwnExecutionProvider", "own", "no-such-package", "processors")
    assert not named.missing() and "no-such-package has it" in named.missing(ask_build=False)


@pytest.mark.parametrize(("options", "said"), [
    ("", "plugin=MODULE"), ("@name=AzureExecutionProvider", "on no device"),
    ("@name=CUDAExecutionProvider", "that is onnxruntime/cuda"),
])  # fmt: skip
def test_a_provider_that_is_not_named_or_has_a_platform_is_one_line(options: str, said: str):
    with pytest.raises(PlatformError, match=said):
        find(parse(f"onnxruntime/provider{options}"))


def test_a_plug_in_is_named_by_the_device_that_it_brings(monkeypatch: pytest.MonkeyPatch):
    device = SimpleNamespace(
        ep_name="ggml", ep_vendor="ggml", ep_metadata={"version": "2", "library_path": "/here"},
        device=SimpleNamespace(type="OrtHardwareDeviceType.CPU", vendor="Intel"),
    )  # fmt: skip
    found, registered = list[Any](), list[tuple[str, str]]()

    def register(name: str, library: str):
        registered.append((name, library))
        found.extend([device] if library != "empty.so" else [])

    monkeypatch.setattr(
        execution_provider, "runtime",
        lambda: SimpleNamespace(get_ep_devices=lambda: [*found], register_execution_provider_library=register),
    )  # fmt: skip
    made = ExecutionProvider("", "provider", "ggml_ep", "", plugin="ggml_ep")
    with pytest.raises(Fallback, match="plug-in ggml_ep is not installed in this environment"):
        made.registered()
    for module, said in (
        (SimpleNamespace(), "has no get_library_path"),
        (SimpleNamespace(library_path=lambda: "empty.so"), "no device that it can run on"),
    ):
        monkeypatch.setitem(sys.modules, "ggml_ep", cast("Any", module))
        with pytest.raises(Fallback, match=said):
            made.registered()
    monkeypatch.setitem(sys.modules, "ggml_ep", cast("Any", SimpleNamespace(get_library_path=lambda: "ggml.so")))
    named = made.registered()
    assert (named.name, registered[-1]) == ("ggml", ("ggml_ep", "ggml.so"))
    described = {"type": "CPU", "vendor": "Intel", "maker": "ggml", "version": "2"}
    assert named.described_device() == {"provider_device": described}


def test_the_version_of_a_plug_in_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module, library = tmp_path / "loose_ep.py", tmp_path / "loose.so"
    module.write_text(f"library_path = lambda: {str(library)!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    loose = ExecutionProvider("", "provider", "loose_ep", "", plugin="loose_ep")
    versions = list[dict[str, str]]()
    for content in (b"one", b"two", b"two"):
        library.write_bytes(content)
        versions.append(loose.plugin_versions())
    assert versions[0].keys() == {"loose_ep"} and versions[0] != versions[1] == versions[2]
    packaged = tmp_path / "Loose_Plug-1.5.dist-info"
    packaged.mkdir()
    (packaged / "METADATA").write_text("Metadata-Version: 2.1\nName: Loose-Plug\nVersion: 1.5\n")
    (packaged / "RECORD").write_text("loose_ep.py,,\n")
    assert loose.plugin_versions() == {"Loose-Plug": "1.5"}
    assert ExecutionProvider("CUDAExecutionProvider", "cuda", "onnxruntime-gpu", "").plugin_versions() == {}


def test_the_npu_runs_every_node_and_says_that_it_is_simulated(pool: WorkerPool):
    layer = torch.nn.Linear(16, 8)
    graph, inputs = captured(lambda x: torch.relu(layer(x)), normal(4, 16))
    outcome = pool.run(Job(QNN, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_allclose(outcome.arrays[0], eager(graph, inputs)[0], atol=1e-5)
    found = delegation_of(outcome.facts)
    assert found is not None and (found.delegate, found.gave_back) == ("QNNExecutionProvider", {}) and found.ran
    said = pool.describe(QNN)
    assert (said["execution"], said["precision_in_force"]) == ("simulated", "float32") and said["qnn"]


@pytest.mark.nightly
def test_a_chip_computes_float32_in_float16(pool: WorkerPool):
    said = pool.describe(CHIP)
    assert said["precision_in_force"] == said["dtypes"]["float32"]["computes_in"] == "float16"


def test_an_operator_that_is_left_to_the_cpu_is_refused_by_name(pool: WorkerPool):
    graph, _ = captured(lambda x: torch.erf(torch.relu(x)), normal(4, 16))
    outcome = pool.run(Job(QNN, graph))
    assert (outcome.status, outcome.op) == ("unsupported", "aten.erf.default"), outcome.message
    assert "QNNExecutionProvider leaves aten.erf.default to the CPU provider" in outcome.message


def test_an_operator_that_the_npu_takes_and_lacks_fails_by_name(pool: WorkerPool):
    graph, _ = captured(torch.atan, normal(4, 16))
    outcome = pool.run(Job(QNN, graph))
    assert (outcome.status, outcome.op) == ("compile_error", "aten.atan.default"), outcome.message
    assert "QNNExecutionProvider took Atan without an implementation" in outcome.message


def test_a_graph_that_is_computed_at_load_says_nothing_of_the_provider(pool: WorkerPool):
    weight = torch.nn.Parameter(normal(4, 4))
    graph, _ = captured(lambda: torch.relu(weight))
    outcome = pool.run(Job(QNN, graph))
    assert outcome.status == "unsupported" and "before QNNExecutionProvider got a node" in outcome.message


@pytest.mark.nightly
def test_a_plug_in_runs_and_its_script_shows_no_fault(tmp_path: Path):
    platform = f"onnxruntime/provider@env={PLUGINS},plugin=onnxruntime_ggml"
    if PLUGINS not in {each.name for each in environments()}:
        pytest.skip(f"mindgap env create {PLUGINS} onnxruntime==1.30.0 onnxruntime-ggml==0.2.0")
    with workers(platform) as pool:
        graph, inputs = captured(lambda x: torch.relu(x) * 2, normal(4, 16))
        outcome = pool.run(Job(platform, graph, want="outputs"))
        assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
        np.testing.assert_array_equal(outcome.arrays[0], eager(graph, inputs)[0])
        found = delegation_of(outcome.facts)
        assert found is not None and (found.delegate, found.gave_back) == ("onnxruntime_ggml", {}) and found.ran
        said = pool.describe(platform)
        assert said["provider_device"]["backend"] == "ggml" and said["versions"]["onnxruntime"]
        assert said["versions"]["onnxruntime-ggml"]
    target = script_platform_of(parse(platform))
    text = script_source(ScriptForm("relu", target, CASES))
    assert text is not None
    (tmp_path / "script.py").write_text(text)
    command = [target.python or sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == NO_FAULT, done.stdout + done.stderr
