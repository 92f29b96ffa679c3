"""ExecuTorch's runtime. Its workers run where the environment of its recipe exists."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from mindgap.platforms.delegation import delegation_of
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap_runtimes.executorch.backend import printed_by
from mindgap_runtimes.executorch.messages import RUNTIME_TABLE, TABLE, read, read_runtime, runtime_text
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured, eager, normal

PLATFORM, KERNELS = "executorch/cpu", "executorch/cpu@delegate=none,threads=1"


@pytest.fixture(scope="module")
def pool():
    with workers(PLATFORM, KERNELS) as pool:
        yield pool


def test_messages_of_the_exporter():
    assert read(RuntimeError("Missing out variants: {'aten::linalg_det'}")).kind == "refusal"
    assert read(RuntimeError("shape mismatch")).kind == "failure"
    outer = Exception("An error occurred when running the pass")
    outer.__cause__ = NotImplementedError("no")
    assert read(outer).kind == "refusal"
    assert len({row.name for row in [*TABLE, *RUNTIME_TABLE]}) == len([*TABLE, *RUNTIME_TABLE])


def test_messages_of_the_runtime():
    error = RuntimeError("Failed to execute method forward, error: 0x12")
    text = runtime_text(
        error, "I 00:00:00 [op_eq.cpp:33] Check failed (false): Unhandled dtype Half for eq.out\nnoise\n"
    )
    assert text == f"RuntimeError: {error}; op_eq.cpp:33: Check failed (false): Unhandled dtype Half for eq.out"
    assert read_runtime(text).kind == "refusal"
    assert read_runtime(runtime_text(error, "")).kind == "failure"
    assert read_runtime("Failed to load method forward, error: 0x:14").kind == "refusal"


def test_what_a_call_prints_is_read(capfd: pytest.CaptureFixture[str]):
    def fails() -> None:
        os.write(2, b"[op.cpp:1] lost\n")
        raise RuntimeError("0x12")

    assert printed_by(fails) == "[op.cpp:1] lost\n"
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool]
)
def test_dtypes_go_in_and_out(pool: WorkerPool, dtype: torch.dtype):
    graph, inputs = captured(lambda x: torch.cat([x, x], 1).reshape(2, 3, 4), normal(3, 4).mul(5).to(dtype))
    outcome = pool.run(Job(KERNELS, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_array_equal(outcome.arrays[0], eager(graph, inputs)[0])


def test_a_layer_with_weights_written_in_place(pool: WorkerPool):
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(2, 3, 3)
    graph, inputs = captured(lambda x: layer(x).relu_()[:, 1:].add_(1), normal(1, 2, 6, 6))
    for platform in (PLATFORM, KERNELS):
        outcome = pool.run(Job(platform, graph, want="outputs"))
        assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
        np.testing.assert_allclose(outcome.arrays[0], eager(graph, inputs)[0], atol=1e-5)


def test_what_the_delegate_took(pool: WorkerPool):
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 3)
    graph, _ = captured(lambda x: torch.erf(torch.relu(layer(x))), normal(2, 4))
    found = delegation_of(pool.run(Job(PLATFORM, graph)).facts)
    assert found is not None and (found.delegate, found.parts) == ("XNNPACK", 1)
    assert found.ran["aten.linear.default"] == 1 and found.gave_back == {"aten.erf.default": 1}
    found = delegation_of(pool.run(Job(KERNELS, graph)).facts)
    assert found is not None and found.delegate == "ExecuTorch's kernels" and found.ran["aten.erf.default"] == 1


def test_a_delegate_that_takes_nothing_is_no_success(pool: WorkerPool):
    graph, _ = captured(torch.erf, normal(3))
    outcome = pool.run(Job(PLATFORM, graph))
    assert outcome.status == "unsupported" and "XNNPACK took none of 1 operators" in outcome.message
    assert pool.run(Job(KERNELS, graph)).status == "ok"


def test_an_operator_that_the_dialect_lacks_is_a_refusal(pool: WorkerPool):
    graph, _ = captured(torch.special.airy_ai, normal(3))
    outcome = pool.run(Job(KERNELS, graph))
    assert outcome.status == "unsupported" and outcome.op == "aten.special_airy_ai.default", outcome.message


def test_odd_outputs_and_inputs(pool: WorkerPool):
    """A scalar, an empty tensor, an input that is an output, one value twice, an input that is written to."""

    def program(x, scalar, empty):
        y = x.add_(scalar)
        return y, y, scalar, empty * 2, x.sum()

    graph, inputs = captured(program, normal(2, 3), torch.tensor(2.0), torch.empty(0, 3))
    outcome = pool.run(Job(KERNELS, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    for found, expected in zip(outcome.arrays, eager(graph, inputs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_its_description(pool: WorkerPool):
    said = pool.describe(KERNELS)
    assert said["versions"]["executorch"] and said["pool_threads"] == said["threads"] == 1
    assert said["dtypes"]["float64"] == {"computes_in": "float64", "returns": "float64", "matmul_in": "float64"}


def test_a_refusal_beside_an_operator_with_several_results(pool: WorkerPool):
    graph, _ = captured(lambda x: (*torch.sort(x), torch.linalg.svdvals(x)), normal(3, 3))
    outcome = pool.run(Job(PLATFORM, graph))
    assert (outcome.status, outcome.op) == ("unsupported", "aten._linalg_svd.default"), outcome.message
