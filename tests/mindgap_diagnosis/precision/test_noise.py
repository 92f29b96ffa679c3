"""The predicted effect of rounding, against what rounding does."""

from pathlib import Path

import pytest
import torch
from torch import nn

from mindgap.graph import TensorStore
from mindgap_diagnosis.precision.finding import Bound
from mindgap_diagnosis.precision.noise import CALLER, measured_noise
from mindgap_diagnosis.precision.search import ranked
from precision.eager_here import target_of


@pytest.fixture
def tensors(tmp_path: Path) -> TensorStore:
    torch.manual_seed(0)
    return TensorStore(tmp_path)


def test_the_predicted_error_is_of_the_size_of_the_measured_one(tensors: TensorStore) -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)) for _ in range(3)))
    target = target_of(model, (torch.randn(16, 64),), "float16", tensors)
    noise = measured_noise(target.graph, target.arrays, target.of, "float16")
    predicted = ranked(len(target.of.operators), noise.edges).damage[0]
    exact = [y.numpy() for y in noise.outputs]
    measured = Bound().measured(exact, target.outputs(frozenset()))
    assert predicted[:2] == (0, 0)
    # Predicted is the root of a sum over all elements, measured is the largest one of 1,024.
    assert 1 < predicted[2] ** 0.5 / measured < 1024**0.5


def test_batch_normalisation_by_running_statistics_has_a_derivative(tensors: TensorStore) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    model[1].running_mean.fill_(1000.3)  # 1000.5 in float16
    target = target_of(model, (torch.rand(1, 3, 8, 8),), "float16", tensors)
    noise = measured_noise(target.graph, target.arrays, target.of, "float16")
    assert noise.derived
    assert max(noise.edges, key=lambda edge: edge.cost).reader == 1


def test_a_value_beyond_the_range_overflows_only_where_the_outputs_depend_on_it(tensors: TensorStore) -> None:
    class Clipped(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 1e6).clamp(min=-1.0, max=1.0) + (x * 1e5).sum() * 1e-9

    target = target_of(Clipped(), (torch.tensor([0.9, -0.8]),), "float16", tensors)
    noise = measured_noise(target.graph, target.arrays, target.of, "float16")
    kinds = [each.kind for each in target.of.operators]
    found = {kinds[edge.reader]: (edge.overflows, edge.saturates) for edge in noise.edges if edge.reader != CALLER}
    assert found["aten.clamp.default"] == (False, True)
    assert found["aten.sum.default"] == (True, True)


def test_an_operator_without_a_derivative_leaves_relative_errors(tensors: TensorStore) -> None:
    class Histogram(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.histc(x * 2.0, bins=4, min=-2.0, max=2.0)

    target = target_of(Histogram(), (torch.randn(50),), "float16", tensors)
    noise = measured_noise(target.graph, target.arrays, target.of, "float16")
    assert noise.outputs[0].sum() > 0
    assert noise.edges
