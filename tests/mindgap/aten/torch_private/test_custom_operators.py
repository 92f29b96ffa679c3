"""Smoke tests of what PyTorch knows about custom operators."""

from __future__ import annotations

import torch

from mindgap.aten.torch_private.overloads import custom_operators, python_implementation


@torch.library.custom_op("mindgap_private::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_the_implementation_is_called_and_the_operator_is_known() -> None:
    found = python_implementation(torch.ops.mindgap_private.twice.default)
    assert found is not None and found(torch.ones(2)).tolist() == [2, 2]
    assert any(one is twice for one in custom_operators())


def test_a_kernel_in_cpp_is_no_implementation_in_python() -> None:
    assert python_implementation(torch.ops.aten.add.Tensor) is None
