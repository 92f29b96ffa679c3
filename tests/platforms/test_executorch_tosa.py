"""TOSA by ExecuTorch's Arm backend. Its workers run where the environment of its recipe is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mindgap.platforms.delegation import delegation_of
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured, eager, normal

PLATFORM = "executorch/tosa"


@pytest.fixture(scope="module")
def pool():
    with workers(PLATFORM) as pool:
        yield pool


def test_a_network_is_one_part_and_simulated(pool: WorkerPool):
    """Statistics of the normalisation are buffers: the backend folds no others."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.GELU()).eval()
    graph, inputs = captured(net, normal(1, 3, 8, 8))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_allclose(outcome.arrays[0], eager(graph, inputs)[0], atol=1e-5)
    found = delegation_of(outcome.facts)
    assert found is not None and (found.delegate, found.gave_back, found.parts) == ("TOSA", {}, 1)
    assert pool.describe(PLATFORM)["execution"] == "simulated"


def test_an_operator_that_is_not_lowered_is_refused_by_name(pool: WorkerPool):
    graph, _ = captured(lambda x: torch.relu(x).sort(-1).values, normal(2, 8))
    outcome = pool.run(Job(PLATFORM, graph))
    assert (outcome.status, outcome.op) == ("unsupported", "aten.sort.default"), outcome.message


def test_outputs_come_in_their_order(pool: WorkerPool):
    graph, inputs = captured(lambda x, y: (x - y, torch.relu(y), x * 2), normal(2, 8), normal(2, 8, seed=1))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    for ours, theirs in zip(outcome.arrays, eager(graph, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_an_operand_of_which_only_the_shape_counts_is_no_input(pool: WorkerPool):
    graph, inputs = captured(lambda x, y: torch.zeros_like(x) + y, normal(2, 8), normal(2, 8, seed=1))
    outcome = pool.run(Job(PLATFORM, graph, want="outputs"))
    assert outcome.status == "ok" and outcome.arrays is not None, outcome.message
    np.testing.assert_array_equal(outcome.arrays[0], eager(graph, inputs)[0])


def test_a_graph_of_which_nothing_is_left_says_nothing_of_tosa(pool: WorkerPool):
    graph, _ = captured(torch.atleast_3d, normal(2, 8, 3))
    outcome = pool.run(Job(PLATFORM, graph))
    assert outcome.status == "unsupported" and "before TOSA got a node" in outcome.message
