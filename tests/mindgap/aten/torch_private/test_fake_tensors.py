"""Smoke tests of PyTorch's fake tensors."""

from __future__ import annotations

import pytest
import torch

from mindgap.aten.torch_private.fake_tensors import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    fixed_sizes,
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


def test_sizes_that_a_traced_program_fixes_are_noted() -> None:
    class Stacked(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.stack([row.exp() for row in x])

    noted: list[int] = []
    with fixed_sizes(noted.append):
        torch.export.export(Stacked(), (torch.ones(3, 2),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    assert 3 in noted
