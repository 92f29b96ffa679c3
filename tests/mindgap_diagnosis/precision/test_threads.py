"""Programs of public threads that ask what must stay in float32, rebuilt from their description.

Each has a known answer: the operators around the values that leave the range of float16.
"""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mindgap.graph import TensorStore
from mindgap_diagnosis.precision.finding import Precision
from mindgap_diagnosis.precision.search import MOST_RUNS
from precision.eager_here import found


@pytest.fixture
def tensors(tmp_path: Path) -> TensorStore:
    torch.manual_seed(0)
    return TensorStore(tmp_path / "tensors")


def kinds(answer: Precision) -> list[str]:
    return sorted(each.kind.split(".")[1] for each in answer.kept)


def check(answer: Precision) -> None:
    assert answer.runs <= MOST_RUNS
    assert answer.minimal
    assert answer.after <= answer.bound < answer.before
    assert all(each.given_back is not None and each.given_back > answer.bound for each in answer.kept)


def test_a_late_layer_is_named_and_not_all_before_it(tensors: TensorStore) -> None:
    """https://github.com/NVIDIA/TensorRT/issues/4616: bisection answers "the first 1301 layers in higher precision"."""
    layers = [nn.Linear(16, 16) for _ in range(12)]
    layers[9].weight.data *= 4e5
    layers[10].weight.data *= 1e-5
    answer = found(nn.Sequential(*layers), (torch.randn(2, 16),), tensors)
    check(answer)
    assert [each.name for each in answer.kept] == ["9", "10"]


def test_values_inside_a_layer_overflow(tensors: TensorStore) -> None:
    """https://github.com/apple/coremltools/issues/2110: no layer's result is beyond 65504, an intermediate one is."""

    class Norm(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x / (x * x).sum(-1, keepdim=True).sqrt()

    answer = found(nn.Sequential(nn.Linear(16, 16), Norm()), (torch.randn(2, 16) * 1000,), tensors)
    check(answer)
    assert set(kinds(answer)) == {"mul", "sqrt", "sum"}
    assert {each.name for each in answer.kept} == {"1"}


def test_an_activation_that_is_written_out_overflows(tensors: TensorStore) -> None:
    """https://github.com/apple/coremltools/issues/2625: mish as x * tanh(log(1 + exp(x)))."""

    class Mish(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.tanh(torch.log(1 + torch.exp(x)))

    answer = found(nn.Sequential(nn.Linear(8, 8), Mish(), nn.Linear(8, 4)), (torch.randn(2, 8) * 60,), tensors)
    assert answer.kept == ()  # exp overflows, log hands infinity on, and tanh makes it 1: the result is right


def test_a_loss_that_is_written_out_overflows(tensors: TensorStore) -> None:
    """https://github.com/apple/coremltools/issues/2603: a sensitive part of the model, here softplus written out."""

    class Softplus(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.log(1 + torch.exp(x))

    answer = found(nn.Sequential(nn.Linear(8, 8), Softplus(), nn.Linear(8, 4)), (torch.randn(2, 8) * 60,), tensors)
    check(answer)
    assert kinds(answer) == ["add", "exp", "log"]


def test_one_convolution_and_what_follows_it(tensors: TensorStore) -> None:
    """https://github.com/Tencent/ncnn/issues/3607: all is right in float16 but one convolution, which overflows."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = (nn.Conv2d(a, b, 3) for a, b in ((3, 8), (8, 8), (8, 4)))
            self.second.weight.data *= 1e6

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(F.relu(self.second(F.relu(self.first(x)))) / 1e6)

    answer = found(Net(), (torch.rand(1, 3, 10, 10),), tensors)
    check(answer)
    assert [each.kind for each in answer.kept] == ["aten.conv2d.default", "aten.div.Tensor"]
    assert answer.kept[0].name == "second"


def test_reductions_overflow(tensors: TensorStore) -> None:
    """https://github.com/open-mmlab/mmdeploy/pull/1819: a pose model gives NaN until reductions are in float32."""

    class ScaleNorm(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            norm = (x.pow(2).sum(-1, keepdim=True) * 64).sqrt() / 8
            return x / norm.clamp(min=1e-5)

    answer = found(nn.Sequential(nn.Linear(64, 64), ScaleNorm(), nn.Linear(64, 2)), (torch.randn(1, 64) * 60,), tensors)
    check(answer)
    assert "sum" in kinds(answer)
    assert {each.name for each in answer.kept} == {"1"}


def test_variance_overflows_in_the_last_stage(tensors: TensorStore) -> None:
    """https://github.com/facebookresearch/ConvNeXt/issues/80: (x - u).pow(2) overflows in a norm over channels."""

    class Norm(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            centred = x - x.mean(1, keepdim=True)
            return centred / torch.sqrt(centred.pow(2).mean(1, keepdim=True) + 1e-6)

    net = nn.Sequential(nn.Conv2d(3, 8, 1), Norm(), nn.Conv2d(8, 8, 1), Norm())
    net[2].weight.data *= 1000
    answer = found(net, (torch.rand(1, 3, 8, 8),), tensors)
    check(answer)
    assert {each.name for each in answer.kept} == {"3"}
    assert {"pow", "mean", "sqrt"} <= set(kinds(answer))


def test_a_mask_that_float16_cannot_hold(tensors: TensorStore) -> None:
    """https://github.com/NVIDIA/TensorRT/issues/2899: a constant near -3.4e38 that stands for minus infinity."""

    class Masked(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.masked_fill(torch.ones(6, 6).triu(1).bool(), torch.finfo(torch.float32).min).softmax(-1)

    answer = found(nn.Sequential(nn.Linear(6, 6), Masked()), (torch.randn(1, 6, 6),), tensors)
    assert [(each.kind, each.refused) for each in answer.kept] == [("aten.masked_fill.Scalar", True)]
