"""TVM's compiler and CPU runtime. Its workers run where the environment of its recipe exists."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap_runtimes.tvm.messages import TABLE, aten_operator, read
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured, eager, normal

PLATFORM = "tvm/cpu@threads=1"


@pytest.fixture(scope="module")
def pool():
    with workers(PLATFORM) as pool:
        yield pool


def test_messages():
    graph, _ = captured(lambda x: x.sin().cummax(0), normal(3))
    missing = read(AssertionError("Unsupported function types ['cummax.default']"))
    assert missing.kind == "refusal" and aten_operator(missing, graph) == "aten.cummax.default"
    assert read(NotImplementedError("input_type torch.complex64 is not handled yet")).kind == "refusal"
    assert read(ValueError("Unsupported input kind: InputKind.TOKEN")).kind == "refusal"
    assert read(AssertionError("Dropout is not supported")).kind == "refusal"
    assert read(AssertionError("")).kind == "failure"
    assert read(TypeError("Binary operators must have the same datatype for both operands.")).kind == "failure"
    assert len({row.name for row in TABLE}) == len([*TABLE])


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8,
              torch.bool]
)  # fmt: skip
def test_dtypes_go_in_and_out(pool: WorkerPool, dtype: torch.dtype):
    graph, inputs = captured(lambda x: (x.reshape(2, 6).t(), x[0, 0]), normal(3, 4).mul(5).to(dtype))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    for found, expected in zip(outcome.arrays, eager(graph, inputs), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_a_layer_with_weights_written_in_place_and_an_empty_tensor(pool: WorkerPool):
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(2, 3, 3)
    graph, inputs = captured(
        lambda x, y: (layer(x).relu_()[:, 1:].add_(1), x.add_(1), y), normal(1, 2, 6, 6), torch.zeros(0, 4)
    )
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    for found, expected in zip(outcome.arrays, eager(graph, inputs), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_what_the_front_end_lacks_is_a_refusal(pool: WorkerPool):
    graph, _ = captured(torch.special.airy_ai, normal(3))
    outcome = pool.run(Job(PLATFORM, graph))
    assert outcome.status == "unsupported" and outcome.op == "aten.special_airy_ai.default", outcome.message
    graph, _ = captured(lambda x: x + 1, normal(3).to(torch.complex64))
    outcome = pool.run(Job(PLATFORM, graph))
    assert outcome.status == "unsupported" and "complex64" in outcome.message


def test_a_product_of_float64_is_float32(pool: WorkerPool):
    """TVM 0.27's front end writes products of matrices with results of float32."""
    graph, _ = captured(torch.mm, normal(2, 3).double(), normal(3, 2).double())
    outcome = pool.run(Job(PLATFORM, graph))
    assert outcome.status == "ok" and outcome.outputs[0].dtype == "float32", outcome.message
    assert pool.describe(PLATFORM)["dtypes"]["float64"]["matmul_in"] == "float32"


def test_its_description(pool: WorkerPool):
    said = pool.describe(PLATFORM)
    assert said["versions"]["apache-tvm"] and said["runtime_threads"] == said["threads"] == 1
    assert said["dtypes"]["float64"]["computes_in"] == "float64"
