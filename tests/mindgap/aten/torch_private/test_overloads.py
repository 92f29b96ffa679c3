"""Smoke tests of the types of operator overloads."""

from __future__ import annotations

import torch

from mindgap.aten.torch_private.overloads import DispatchKey, OpOverload, has_kernel_for, schema_of


def test_members_of_torch_ops_are_overloads_with_python_kernels_by_key() -> None:
    bicubic = torch.ops.aten.upsample_bicubic2d.default
    assert isinstance(bicubic, OpOverload)
    assert DispatchKey.Autograd in bicubic.py_kernels


def test_the_schema_names_arguments_and_returns() -> None:
    schema = schema_of(torch.ops.aten.add.Tensor)
    assert [argument.name for argument in schema.arguments] == ["self", "other", "alpha"]
    assert [str(result.type) for result in schema.returns] == ["Tensor"]


def test_composite_operators_have_a_kernel_of_that_key() -> None:
    assert has_kernel_for("aten::linear", "CompositeImplicitAutograd")
    assert not has_kernel_for("aten::relu", "CompositeImplicitAutograd")
