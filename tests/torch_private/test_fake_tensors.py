"""Smoke tests of PyTorch's fake tensors."""

from __future__ import annotations

import pytest
import torch

from mindgap.aten.torch_private.fake_tensors import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)


def test_a_fake_tensor_has_a_shape_and_no_data() -> None:
    with FakeTensorMode() as mode:
        made = mode.from_tensor(torch.ones(2, 3)) @ torch.empty(3, 4)
        assert isinstance(made, FakeTensor)
        assert made.shape == (2, 4)
        with unset_fake_temporarily():
            assert not isinstance(torch.ones(1), FakeTensor)


def test_results_that_depend_on_data_raise() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        with pytest.raises(DataDependentOutputException):
            torch.ones(1).item()
        with pytest.raises(DynamicOutputShapeException):
            torch.ones(3).nonzero()
