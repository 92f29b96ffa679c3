"""Operator overloads: the type of the members of `torch.ops`, their schemas, their kernels, and dispatch keys."""

from typing import Any, Final

import torch
from torch import FunctionSchema
from torch._C import DispatchKey as DispatchKey
from torch._ops import OpOverload as OpOverload

_C: Final[Any] = torch._C  # pyright: ignore[reportPrivateUsage] # PyTorch's dispatcher, which has no types


def schema_of(overload: OpOverload) -> FunctionSchema:
    """Returns the schema of an overload: its arguments and returns."""
    return overload._schema  # pyright: ignore[reportPrivateUsage] # there is no public way to a schema


def has_kernel_for(name: str, key: str) -> bool:
    """Returns whether an operator (`aten::add.Tensor`) has a kernel of its own for a dispatch key, given by name."""
    return _C._dispatch_has_kernel_for_dispatch_key(name, key)
