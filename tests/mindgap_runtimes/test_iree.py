"""IREE's compiler and CPU runtime, through iree-turbine. Its workers run where the environment of its recipe exists."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap_runtimes.iree.compiler import Diagnostics
from mindgap_runtimes.iree.messages import TABLE, aten_operator, read
from mindgap_runtimes.iree.processor import read_features
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured, eager, normal

PLATFORM = "iree/cpu@threads=1"
PORTABLE = "iree/cpu@float64=kept,parameters=external,target=vmvx,threads=1"
NO_LOWERING = (
    "error: failed to legalize operation 'torch.operator' that was explicitly marked illegal: "
    '%1 = "torch.operator"(%arg0, %0) <{name = "torch.aten.addr"}> : (!torch.vtensor<[5],f32>) -> !torch.int'
)


@pytest.fixture(scope="module")
def pool():
    with workers(PLATFORM, PORTABLE) as pool:
        yield pool


def test_features_of_a_processor():
    program = (
        '#hal.executable.target<"llvm-cpu", {cpu = "znver4", cpu_features = "+avx2,+pku,+avx512f,+64bit,-avx512f"}>'
    )
    assert read_features(program) == {"avx2"}


def test_messages():
    assert read(Diagnostics(NO_LOWERING)).kind == "refusal" and read(Diagnostics(NO_LOWERING)).operator == "aten.addr"
    constant = read(Diagnostics("error: failed to legalize operation 'torch.constant.int': %0 = …"))
    assert constant.kind == "refusal" and constant.operator == ""
    assert read(NotImplementedError("an output of `None`")).kind == "refusal"
    assert read(Diagnostics("error: 'linalg.generic' op inferred shape differs")).kind == "failure"
    assert read(ValueError(NO_LOWERING)).kind == "failure"
    assert read(KeyError(torch.uint64)).kind == "refusal" and read(KeyError("uint64")).kind == "failure"
    assert len({row.name for row in TABLE}) == len([*TABLE])


def test_the_operator_of_a_message():
    graph, _ = captured(lambda x, y: torch.addr(x.sin(), y, y), normal(3, 3), normal(3))
    assert aten_operator(read(Diagnostics(NO_LOWERING)), graph) == "aten.addr.default"
    assert aten_operator(read(Diagnostics("error: 'torch.operator'")), graph) == ""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8,
              torch.bool, torch.complex64]
)  # fmt: skip
def test_dtypes_go_in_and_out(pool: WorkerPool, dtype: torch.dtype):
    graph, inputs = captured(lambda x: (x.reshape(2, 6).t(), x[0, 0]), normal(3, 4).mul(5).to(dtype))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    for found, expected in zip(outcome.arrays, eager(graph, inputs), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.nightly
def test_float64_fails_unless_it_is_kept(pool: WorkerPool):
    """IREE 3.13 computes float64 in float32 by default, and then takes the results for float64."""
    graph, inputs = captured(lambda x: x + 1, normal(3).double())
    failed, kept = (pool.run(Job(name, graph, want="outputs")) for name in (PLATFORM, PORTABLE))
    assert failed.status == "runtime_error" and "exceeds backing buffer byte length" in failed.message
    assert kept.status == "ok" and kept.arrays is not None, kept.message
    np.testing.assert_array_equal(kept.arrays[0], eager(graph, inputs)[0])


@pytest.mark.parametrize("platform", [PLATFORM, PORTABLE])
def test_a_layer_with_weights_written_in_place(pool: WorkerPool, platform: str):
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(2, 64, 3)
    graph, inputs = captured(lambda x: layer(x).relu_()[:, 1:].add_(1), normal(1, 2, 6, 6))
    outcome = pool.run(Job(platform, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_allclose(outcome.arrays[0], eager(graph, inputs)[0], atol=1e-5)


def test_an_input_that_is_written_and_an_empty_tensor(pool: WorkerPool):
    graph, inputs = captured(lambda x, y: (x.add_(y.sum()), y), normal(3), torch.zeros(0, 4))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    for found, expected in zip(outcome.arrays, eager(graph, inputs), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_operator_without_a_lowering_is_a_refusal(pool: WorkerPool):
    graph, _ = captured(torch.special.airy_ai, normal(3))
    outcome = pool.run(Job(PLATFORM, graph))
    assert outcome.status == "unsupported" and outcome.op == "aten.special_airy_ai.default", outcome.message


def test_its_description(pool: WorkerPool):
    said, portable = pool.describe(PLATFORM), pool.describe(PORTABLE)
    assert said["versions"]["iree-turbine"] and said["workers"] == said["threads"] == 1
    assert (said["target"], portable["target"], portable["parameters"]) == ("llvm-cpu", "vmvx", "external")
    assert (said["float64"], portable["float64"]) == ("default", "kept")


def test_a_processor_that_is_none_is_one_clear_line():
    with workers(PLATFORM), WorkerPool(["iree/cpu@cpu=nonsense"]) as pool:
        assert "Unknown CPU for target architecture" in str(pool.describe("iree/cpu@cpu=nonsense")["error"])
