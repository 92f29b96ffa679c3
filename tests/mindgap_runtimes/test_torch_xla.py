"""torch_xla on its CPU client. Its workers run where the environment of its recipe exists."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mindgap.platforms.delegation import delegation_of
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured, eager, normal
from platforms.torch_graphs import conv_net

EAGER, COMPILED = "xla/eager@pjrt=cpu", "xla/openxla@pjrt=cpu"
BOTH = pytest.mark.parametrize("platform", [EAGER, COMPILED])


@pytest.fixture(scope="module")
def pool():
    with workers(EAGER, COMPILED) as pool:
        yield pool


@BOTH
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_dtypes_go_in_and_out(pool: WorkerPool, platform: str, dtype: torch.dtype):
    graph, inputs = captured(lambda x: torch.cat([x, x], 1).reshape(2, 3, 4), normal(3, 4).mul(5).to(dtype))
    outcome = pool.run(Job(platform, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_array_equal(outcome.arrays[0], eager(graph, inputs)[0])


@BOTH
def test_a_layer_with_weights_written_in_place(pool: WorkerPool, platform: str):
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(2, 3, 3)
    graph, inputs = captured(lambda x: layer(x).relu_()[:, 1:].add_(1), normal(1, 2, 6, 6))
    outcome = pool.run(Job(platform, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_allclose(outcome.arrays[0], eager(graph, inputs)[0], atol=1e-5)
    found = delegation_of(outcome.facts)
    assert found is not None and found.delegate == "OpenXLA" and not found.gave_back
    assert any("convolution" in name for name in found.ran), found.ran


@BOTH
def test_a_transformer_block_gives_the_same_bits_again(pool: WorkerPool, platform: str):
    torch.manual_seed(0)
    block = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    graph, inputs = captured(block, normal(2, 5, 16))
    first, again = (pool.run(Job(platform, graph, want="outputs")) for _ in range(2))
    assert first.status == "ok" and first.arrays is not None, first.message
    np.testing.assert_allclose(first.arrays[0], eager(graph, inputs)[0], atol=1e-5)
    assert [each.digest for each in first.outputs or ()] == [each.digest for each in again.outputs or ()]


@BOTH
def test_random_masks_come_with_the_graph(pool: WorkerPool, platform: str):
    graph, inputs = captured(lambda x: torch.nn.functional.dropout(x, 0.5, True), normal(50))
    outcome = pool.run(Job(platform, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_array_equal(outcome.arrays[0], eager(graph, inputs)[0])


@BOTH
def test_gradients(pool: WorkerPool, platform: str):
    graph = conv_net(grad=(0, 1, 2))
    found, wanted = (pool.run(Job(each, graph, want="outputs")) for each in (platform, EAGER))
    assert found.status == "ok" and found.arrays is not None and wanted.arrays is not None, found.message
    assert len(found.arrays) == 6
    for one, other in zip(found.arrays, wanted.arrays, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@BOTH
def test_an_operator_that_goes_to_the_cpu_is_a_refusal(pool: WorkerPool, platform: str):
    graph, _ = captured(lambda x: torch.fft.fft(torch.lgamma(x.abs() + 1)).real, normal(4))
    outcome = pool.run(Job(platform, graph))
    assert outcome.status == "unsupported" and outcome.op == "aten.lgamma.default", outcome.message
    assert outcome.message and outcome.message.startswith("aten.lgamma.default: aten::lgamma ran on the CPU")
    assert outcome.message.endswith("likewise aten::_fft_r2c")
    # The counters of one graph are not another's.
    graph, _ = captured(torch.sin, normal(4))
    assert pool.run(Job(platform, graph)).status == "ok"


def test_its_description(pool: WorkerPool):
    said = pool.describe(EAGER)
    assert said["pjrt"] == "CPU" and said["torch"].startswith("2.9") and said["torch_xla"] == "2.9.0"
    assert min(said["float32_product_bits"].values()) >= 16
    assert said["dtypes"]["float64"]["computes_in"] == "float64"
