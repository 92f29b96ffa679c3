"""onnxruntime-web: WebAssembly in Node, and WebGPU and WebGL in Chromium on its software driver."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import torch

from mindgap.platforms.delegation import delegation_of
from mindgap.platforms.listing import platform_info
from mindgap.platforms.name import parse
from mindgap.platforms.onnxruntime.messages import WEB_TABLE
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap_runtimes.onnxruntime_providers.web_backend import WEBNN, left_to_cpu
from mindgap_runtimes.onnxruntime_providers.web_server import decode, encode, parts
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured, eager, normal

WASM = "ortweb/wasm"
WEBGPU = "ortweb/webgpu@device=swiftshader"
WEBGL = "ortweb/webgl@device=swiftshader"


@pytest.fixture(scope="module")
def node():
    with workers(WASM) as pool:
        yield pool


@pytest.fixture(scope="module")
def browsers():
    with workers(WEBGPU, WEBGL) as pool:
        yield pool


def test_a_message_keeps_its_blocks():
    blocks = [np.arange(3, dtype=np.int8), b"abcdefghi", np.zeros(0, np.float32)]
    message = encode({"action": "run"}, blocks)
    begin = 4 + int.from_bytes(message[:4], "little")
    found = [message[begin + at :][:size] for at, size in parts([3, 9, 0])]
    assert found == [b"\0\1\2", b"abcdefghi", b""]
    answer = encode({"outputs": [], "sizes": [2, 1]}, [])
    assert decode(answer + b"xyz") == ({"outputs": []}, [b"xy", b"z"])


def test_nodes_of_the_cpu_are_read_from_the_log():
    lacking = "[I:…] webgpu kernel not found in registries for Op type: Erf node name: node_erf"
    everything = "[V:…]  All nodes placed on [CPUExecutionProvider]. Number of nodes: 1"
    assert left_to_cpu([lacking, everything]) == [("Erf", "node_erf")]
    shared = [
        lacking, "[V:…]  Node(s) placed on [WebGpuExecutionProvider]. Number of nodes: 1", "[V:…]   Relu (node_relu)",
        "[V:…]  Node(s) placed on [CPUExecutionProvider]. Number of nodes: 1", "[V:…]   Erf (node_erf)",
    ]  # fmt: skip
    assert left_to_cpu(shared) == [("Erf", "node_erf")]


def test_webnn_is_listed_with_the_reason():
    assert not platform_info(parse("ortweb/webnn")).available
    assert "WebNN is not supported on this platform" in WEBNN.missing()


def test_webassembly_runs_a_model(node: WorkerPool):
    layer = torch.nn.Linear(16, 8)
    graph, inputs = captured(lambda x, n: (torch.relu(layer(x)), n + 1, x > 0), normal(4, 16), torch.arange(5))
    outcome = node.run(Job(WASM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    for found, right in zip(outcome.arrays, eager(graph, inputs), strict=True):
        assert found.dtype == right.dtype
        np.testing.assert_allclose(found, right, atol=1e-5)
    said = node.describe(WASM)
    assert said["node"] and "execution" not in said and said["dtypes"]["float64"]["computes_in"] == "float64"


def test_what_webassembly_lacks_is_refused(node: WorkerPool):
    graph, _ = captured(lambda x: x.to(torch.bfloat16) + 1, normal(4))
    outcome = node.run(Job(WASM, graph))
    assert (outcome.status, outcome.op) == ("unsupported", "aten.add.Tensor"), outcome.message


@pytest.mark.nightly
def test_node_ends_with_its_worker(node: WorkerPool):
    graph, _ = captured(torch.relu, normal(3))
    assert node.run(Job(WASM, graph)).status == "ok"
    with workers(WASM) as other:
        before = runners()
        assert other.run(Job(WASM, graph)).status == "ok"
        assert len(runners()) == len(before) + 1
    deadline = time.monotonic() + 20
    while len(runners()) > len(before) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(runners()) == len(before)


@pytest.mark.browser
@pytest.mark.parametrize("platform", [WEBGPU, pytest.param(WEBGL, marks=pytest.mark.nightly)])
def test_a_browser_runs_a_model(browsers: WorkerPool, platform: str):
    layer = torch.nn.Linear(16, 8)
    graph, inputs = captured(lambda x: torch.relu(layer(x)), normal(4, 16))
    outcome = browsers.run(Job(platform, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_allclose(outcome.arrays[0], eager(graph, inputs)[0], atol=1e-5)
    found = delegation_of(outcome.facts)
    assert found is not None and found.gave_back == {} and sum(found.ran.values()) >= 2
    said = browsers.describe(platform)
    assert (said["execution"], said["isolated"]) == ("emulated", True)
    assert "swiftshader" in str(said["adapter"]).lower() and "Chrome/" in said["browser"]


@pytest.mark.nightly
def test_an_operator_that_webgpu_leaves_to_the_cpu_is_refused_by_name(browsers: WorkerPool):
    graph, _ = captured(lambda x: torch.log_softmax(torch.relu(x), -1), normal(4, 16))
    outcome = browsers.run(Job(WEBGPU, graph))
    assert (outcome.status, outcome.op) == ("unsupported", "aten.log_softmax.int"), outcome.message


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("row", "function"),
    [
        ("operator that WebGL lacks", lambda x: torch.nn.functional.gelu(x)),
        ("case that WebGL lacks", lambda x: torch.nn.functional.instance_norm(x[None])),
        ("dtype that WebGL lacks", lambda x: x.half() + 1),
    ],
)
def test_what_webgl_lacks_is_refused(browsers: WorkerPool, row: str, function):
    graph, _ = captured(function, normal(4, 16))
    outcome = browsers.run(Job(WEBGL, graph))
    assert outcome.status == "unsupported", outcome.message
    found = WEB_TABLE.find(outcome.message.partition(": ")[2])
    assert found is not None and found.name == row, outcome.message


def runners() -> list[int]:
    """The processes of Node that run a runner."""
    found = list[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if b"web_runner.mjs" in words and words.startswith((b"node", b"/")):
            found.append(int(folder.name))
    return found
