"""ONNX Runtime's execution providers but OpenVINO's. QNN's workers run where the environment of its recipe is."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from mindgap.platforms.delegation import delegation_of
from mindgap.platforms.listing import platform_info
from mindgap.platforms.name import parse
from mindgap.platforms.onnxruntime import execution_provider
from mindgap.platforms.onnxruntime.execution_provider import CPU, ExecutionProvider, ProviderSettings
from mindgap.platforms.onnxruntime.providers import QNN_PROVIDER
from mindgap.platforms.protocol import CompileFailure
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured, eager, normal

QNN = "onnxruntime/qnn"
CHIP = "onnxruntime/qnn@soc=SM8550"


@pytest.fixture(scope="module")
def pool():
    with workers(QNN, CHIP) as pool:
        yield pool


def test_options_of_a_provider():
    assert ProviderSettings(QNN_PROVIDER).provider_options == {}
    chip = ProviderSettings(QNN_PROVIDER, {"soc": "SM8450"})
    assert (chip.provider_options, chip.dtype, chip.alone) == ({"soc_model": "36"}, "float16", True)
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


@pytest.mark.parametrize("mode", ["cuda", "tensorrt", "migraphx", "directml", "coreml", "vitisai"])
def test_an_absent_provider_is_listed_with_the_reason(mode: str):
    info = platform_info(parse(f"onnxruntime/{mode}"))
    assert info.available or "ExecutionProvider" in info.reason


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
