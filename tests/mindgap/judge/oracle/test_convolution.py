"""Convolutions without columns: PyTorch's own results in another order of additions, and nothing of other kinds."""

from __future__ import annotations

import pytest
import torch

from judge.oracle.applied import normal
from mindgap.judge.oracle.evaluation import convolution
from mindgap.judge.oracle.evaluation.convolution import convolved

F64 = torch.float64


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution, "COLUMN_BYTES", 1)


def images(*shape: int, seed: int = 0) -> torch.Tensor:
    return normal(*shape, seed=seed, dtype=F64)


@pytest.mark.parametrize("shape", [(1, 3, 9, 9), (2, 4, 70, 80), (1, 5, 3, 90)])
@pytest.mark.parametrize(("kernel", "padding", "dilation"), [
    ((3, 3), [1, 1], [1, 1]), ((1, 5), [0, 2], [1, 2]), ((2, 3), [2, 0], [1, 1]), ((3, 1), [3], [2]),
])  # fmt: skip
@pytest.mark.parametrize("bias", [True, False])
def test_results_are_pytorchs(shape: tuple[int, ...], kernel: tuple[int, int], padding: list[int],
                              dilation: list[int], bias: bool) -> None:  # fmt: skip
    x, weight = images(*shape), images(6, shape[1], *kernel, seed=1)
    b = images(6, seed=2) if bias else None
    right = torch.ops.aten.conv2d(x, weight, b, [1, 1], padding, dilation)
    found = convolved("conv2d", [x, weight, b, [1, 1], padding, dilation], {})
    assert found is not None and found.is_contiguous() and found.shape == right.shape
    assert float((found - right).abs().max()) < 1e-12
    again = convolved("convolution", [x, weight, b, [1, 1], padding, dilation, False, [0, 0], 1], {})
    assert again is not None and torch.equal(again, found)


def test_defaults_are_those_of_the_operator() -> None:
    x, weight = images(1, 3, 12, 12), images(4, 3, 3, 3, seed=1)
    found = convolved("conv2d", [x, weight], {})
    assert found is not None and torch.allclose(found, torch.conv2d(x, weight), rtol=1e-13, atol=1e-13)


def test_infinities_and_nan_land_where_pytorch_has_them() -> None:
    x, weight = images(1, 2, 12, 12), images(3, 2, 3, 3, seed=1)
    x[0, 0, 0, 0], x[0, 1, 5, 5], weight[1, 0, 0, 0] = float("inf"), float("nan"), float("inf")
    right = torch.conv2d(x, weight, None, 1, 1)
    found = convolved("conv2d", [x, weight, None, [1, 1], [1, 1]], {})
    assert found is not None
    assert torch.equal(found.isnan(), right.isnan()) and torch.equal(found.isinf(), right.isinf())
    assert torch.allclose(found, right, rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("args", [
    [images(1, 4, 9, 9), images(4, 4, 3, 3), None, [2, 2]],
    [images(1, 4, 9, 9), images(4, 4, 3, 3), None, [1, 1], "same"],
    [images(1, 4, 9, 9), images(4, 2, 3, 3), None, [1, 1], [0, 0], [1, 1], 2],
    [images(1, 4, 9, 9), images(4, 4, 1, 1)],
    [images(4, 9, 9), images(4, 4, 3, 3)],
    [images(1, 4, 9, 9).float(), images(4, 4, 3, 3).float()],
    [images(1, 4, 9, 9).to(memory_format=torch.channels_last), images(4, 4, 3, 3)],
    [images(0, 4, 9, 9), images(4, 4, 3, 3)],
])  # fmt: skip
def test_other_convolutions_are_left_to_pytorch(args: list[object]) -> None:
    assert convolved("conv2d", args, {}) is None


def test_transposed_and_small_ones_are_left_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = images(1, 4, 9, 9), images(4, 4, 3, 3)
    assert convolved("convolution", [x, weight, None, [1, 1], [0, 0], [1, 1], True, [0, 0], 1], {}) is None
    assert convolved("conv1d", [x, weight], {}) is None
    monkeypatch.setattr(convolution, "COLUMN_BYTES", 1 << 30)
    assert convolved("conv2d", [x, weight], {}) is None
