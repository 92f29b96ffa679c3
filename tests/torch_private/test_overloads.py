"""Smoke tests of the types of operator overloads."""

from __future__ import annotations

import torch

from mindgap.torch_private.overloads import DispatchKey, OpOverload


def test_members_of_torch_ops_are_overloads_with_python_kernels_by_key() -> None:
    bicubic = torch.ops.aten.upsample_bicubic2d.default
    assert isinstance(bicubic, OpOverload)
    assert DispatchKey.Autograd in bicubic.py_kernels
