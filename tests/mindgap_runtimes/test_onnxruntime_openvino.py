"""ONNX Runtime's OpenVINO provider. Its workers run where the environment of its recipe exists."""

from __future__ import annotations

import json
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mindgap.platforms.delegation import delegation_of
from mindgap.platforms.protocol import Fallback
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap_runtimes.onnxruntime_providers import providers, settings_check
from mindgap_runtimes.onnxruntime_providers.execution_provider import CPU, ProviderSettings, assigned
from mindgap_runtimes.onnxruntime_providers.providers import OPENVINO_PROVIDER
from platforms.elsewhere import workers
from platforms.onnx_graphs import MODELS, captured, eager, normal

OPENVINO = OPENVINO_PROVIDER.name
PLATFORM = "onnxruntime/openvino@threads=1"
KERNELS = "onnxruntime/openvino@delegate=none,threads=1"


def settings(**options: str) -> ProviderSettings:
    return ProviderSettings(OPENVINO_PROVIDER, options)


@pytest.fixture(scope="module")
def pool():
    with workers(PLATFORM, KERNELS) as pool:
        yield pool


@dataclass
class Session:
    """What `assigned` reads of a session."""

    providers: list[str]
    parts: list[tuple[str, list[str]]] = field(default_factory=list[tuple[str, list[str]]])

    def get_providers(self) -> list[str]:
        return self.providers

    def get_provider_graph_assignment_info(self) -> list[Any]:
        return [
            SimpleNamespace(ep_name=name, get_nodes=lambda ops=ops: [SimpleNamespace(op_type=op) for op in ops])
            for name, ops in self.parts
        ]


def test_options_of_the_provider():
    assert settings().provider_options == {"device_type": "CPU"}
    assert settings(precision="f32", threads="3").provider_options == {
        "device_type": "CPU",
        "num_of_threads": "3",
        "precision": "FP32",
    }
    given = json.loads(settings(precision="bf16").provider_options["load_config"])
    assert given == {"CPU": {"INFERENCE_PRECISION_HINT": "bf16"}}
    assert settings(delegate="none").providers == [CPU]


def test_the_openvino_that_the_package_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "capi").mkdir()
    monkeypatch.setattr(providers, "package_folder", lambda: tmp_path)
    assert providers.bundled_openvino() == "unknown"
    for name in ("libopenvino.so", "libopenvino.so.2541", "libopenvino.so.2025.4.1"):
        (tmp_path / "capi" / name).touch()
    assert providers.bundled_openvino() == "2025.4.1"


def test_a_session_without_the_provider_is_a_fallback():
    with pytest.raises(Fallback, match=r"not on \['OpenVINOExecutionProvider', 'CPUExecutionProvider'\]"):
        assigned(Session([CPU]), settings())
    with pytest.raises(Fallback, match="gave \\['Add'\\] to Other"):
        assigned(Session([OPENVINO, CPU], [("Other", ["Add"])]), settings())


def test_nodes_are_counted_by_provider():
    session = Session([OPENVINO, CPU], [(OPENVINO, ["Relu", "Exp"]), (CPU, ["Det"]), (OPENVINO, ["Exp"])])
    found = assigned(session, settings())
    assert (found.delegate, found.ran, found.parts) == (OPENVINO, {"Relu": 1, "Exp": 2}, 2)
    assert (found.otherwise, found.gave_back) == (CPU, {"Det": 1})
    found = assigned(Session([CPU], [(CPU, ["Det"])]), settings(delegate="none"))
    assert (found.delegate, found.ran, found.gave_back, found.parts) == (CPU, {"Det": 1}, {}, 0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_precision_is_read_from_what_a_product_keeps(dtype: str):
    values = settings_check._values()
    rounded = torch.from_numpy(values).to(getattr(torch, dtype)).float().numpy()
    image = rounded.reshape(1, 1, *rounded.shape)
    assert settings_check._precision([rounded, image], values) == dtype
    if dtype != "float32":
        assert "differ: " in settings_check._precision([values, image], values)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="this system does not list threads")
@pytest.mark.parametrize("count", [1, 2])
def test_threads_that_compute_are_counted(count: int):
    """The thread that waits for the others is not counted."""

    def busy() -> int:
        return sum(range(200_000))

    with ThreadPoolExecutor(count) as threads:
        both = threading.Barrier(count)
        for waiting in [threads.submit(both.wait) for _ in range(count)]:
            waiting.result()

        class Busy:
            def run(self, _names: None, _feeds: dict[str, Any]) -> None:
                for done in [threads.submit(lambda: (busy(), both.wait())) for _ in range(count)]:
                    done.result()

        assert settings_check._busy_threads(Busy(), {}) == count


@pytest.mark.parametrize("name", MODELS)
def test_real_models_stay_near_eager(pool: WorkerPool, name: str):
    graph, inputs = captured(*MODELS[name]())
    for platform in (PLATFORM, KERNELS):
        outcome = pool.run(Job(platform, graph, want="outputs"))
        assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
        for ours, theirs in zip(outcome.arrays, eager(graph, inputs), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, atol=1e-3 * max(1.0, np.abs(theirs).max()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8, torch.int64, torch.bool])
def test_dtypes_go_in_and_out(pool: WorkerPool, dtype: torch.dtype):
    graph, inputs = captured(lambda x: torch.cat([x, x], 1).reshape(2, 3, 4), normal(3, 4).mul(5).to(dtype))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_array_equal(outcome.arrays[0], eager(graph, inputs)[0])


def test_weights_outside_the_model(pool: WorkerPool):
    torch.manual_seed(0)
    layer = torch.nn.Linear(4096, 4200)  # more than the 64 MiB that stay in the model
    graph, inputs = captured(lambda x: layer(x), normal(2, 4096))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_allclose(outcome.arrays[0], eager(graph, inputs)[0], atol=1e-4)


def test_what_the_provider_took(pool: WorkerPool):
    graph, _ = captured(lambda x: torch.det(torch.relu(x) + 1), normal(3, 3))
    found = delegation_of(pool.run(Job(PLATFORM, graph)).facts)
    assert found is not None and (found.delegate, found.otherwise, found.parts) == (OPENVINO, CPU, 1)
    assert found.ran == {"Relu": 1, "Add": 1} and found.gave_back == {"Det": 1}
    found = delegation_of(pool.run(Job(KERNELS, graph)).facts)
    assert found is not None and (found.delegate, found.gave_back) == (CPU, {})


def test_a_provider_that_takes_nothing_is_no_success(pool: WorkerPool):
    graph, _ = captured(torch.det, normal(3, 3))
    outcome = pool.run(Job(PLATFORM, graph))
    assert outcome.status == "unsupported" and f"{OPENVINO} took none of 1 operators" in outcome.message
    assert pool.run(Job(KERNELS, graph)).status == "ok"


_PROFILED = """
import json, sys
import onnxruntime
settings = onnxruntime.SessionOptions()
settings.enable_profiling, settings.profile_file_prefix = True, sys.argv[1]
settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
providers = ["OpenVINOExecutionProvider", "CPUExecutionProvider"]
session = onnxruntime.InferenceSession(sys.argv[2], settings, providers=providers)
import numpy
session.run(None, {session.get_inputs()[0].name: numpy.ones((3, 3), numpy.float32)})
events = [each["args"] for each in json.load(open(session.end_profiling())) if each["cat"] == "Node"]
recorded = [[p.ep_name, [n.op_type for n in p.get_nodes()]] for p in session.get_provider_graph_assignment_info()]
print(json.dumps([[[e["provider"], e["op_name"]] for e in events], recorded]))
"""


def test_the_record_agrees_with_the_profile(pool: WorkerPool, tmp_path: Path):
    """The provider runs a part as one node, which the profile names; nodes of the CPU provider have their own."""
    from mindgap.platforms.environments import find
    from mindgap.platforms.onnx.export import export

    graph, inputs = captured(lambda x: torch.det(torch.relu(x) + 1), normal(3, 3))
    model = tmp_path / "model.onnx"
    model.write_bytes(export(graph, inputs).model)
    python = find("onnxruntime-openvino").python
    command = [python, "-c", _PROFILED, str(tmp_path / "profile"), str(model)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    events, recorded = json.loads(done.stdout.splitlines()[-1])
    assert [name for provider, name in events if provider == CPU] == ["Det"]
    assert [name.startswith("OpenVINO-EP-subgraph") for provider, name in events if provider == OPENVINO] == [True]
    assert sorted(recorded) == [[CPU, ["Det"]], [OPENVINO, ["Add", "Relu"]]] or sorted(recorded) == [
        [CPU, ["Det"]],
        [OPENVINO, ["Relu", "Add"]],
    ]


def test_a_dtype_without_a_kernel_is_a_refusal(pool: WorkerPool):
    graph, _ = captured(lambda x: x + x, normal(2, dtype=torch.bfloat16))
    outcome = pool.run(Job(PLATFORM, graph))
    assert (outcome.status, outcome.op) == ("unsupported", "aten.add.Tensor"), outcome.message


def test_an_output_that_is_a_weight_stops_the_provider(pool: WorkerPool):
    """Of ONNX Runtime 1.24.1. The CPU provider of the same package runs the model."""
    weight = torch.tensor([1.0, 2.0])
    graph, _ = captured(lambda x: (torch.relu(x), weight * 2), normal(3))
    outcome = pool.run(Job(PLATFORM, graph))
    assert outcome.status == "compile_error" and "node not found in graph cache" in outcome.message
    assert "OpenVINO provider | <node> not found" in outcome.signature
    assert pool.run(Job(KERNELS, graph)).status == "ok"


def test_its_description(pool: WorkerPool):
    said = pool.describe(PLATFORM)
    assert said["versions"]["onnxruntime-openvino"] and said["bundled_openvino"] != "unknown"
    assert said["providers"] == [OPENVINO, CPU] and said["threads"] == 1
    assert said["precision_in_force"] == said["dtypes"]["float32"]["matmul_in"] == "float32"
    assert said["dtypes"]["int64"]["computes_in"] == "int32"
    assert said["dtypes"]["float64"]["computes_in"] == "unsupported", "the CPU provider's dtypes are not the provider's"
    assert pool.describe(KERNELS)["dtypes"]["int64"]["computes_in"] == "int64"


def test_a_precision_that_is_not_in_force_is_a_fallback():
    """The CPU provider computes no float32 product in bfloat16."""
    platform = "onnxruntime/openvino@delegate=none,precision=bf16"
    with workers(platform) as pool:
        assert "precision=bf16 is not in force" in str(pool.describe(platform)["error"])
