"""Fake tensors (a shape, a dtype, no data), modes that see each operator call, the memory behind a tensor."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any, Final

import torch
from torch._dispatch.python import (
    enable_pre_dispatch as enable_pre_dispatch,
    enable_python_dispatcher as enable_python_dispatcher,
)
from torch._prims_common import suggest_memory_format as suggest_memory_format
from torch._subclasses.fake_tensor import (
    DataDependentOutputException as DataDependentOutputException,
    DynamicOutputShapeException as DynamicOutputShapeException,
    FakeTensor as FakeTensor,
    FakeTensorMode as FakeTensorMode,
    unset_fake_temporarily as unset_fake_temporarily,
)
from torch._subclasses.functional_tensor import (
    FunctionalTensorMode as FunctionalTensorMode,
    dispatch_functionalize as dispatch_functionalize,
)
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode

# pyright: reportPrivateUsage=false


@contextlib.contextmanager
def fixed_sizes(noted: Callable[[int], None]) -> Generator[None]:
    """Calls `noted` with the number wherever a traced program fixes a symbolic size to one."""
    replaced = ShapeEnv._set_replacement

    def noting(self: ShapeEnv, a: Any, tgt: Any, msg: str) -> None:
        if tgt.is_number:
            noted(int(tgt))
        replaced(self, a, tgt, msg)

    ShapeEnv._set_replacement = noting
    try:
        yield
    finally:
        ShapeEnv._set_replacement = replaced


def storage_id(tensor: torch.Tensor) -> int:
    """Returns the address of the tensor's storage object: equal for tensors that share memory, while they live.

    Raises `RuntimeError` or `NotImplementedError` for layouts without storage.
    """
    return tensor.untyped_storage()._cdata


def lazy_clone(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a copy whose memory is duplicated when either tensor is first written to; at once where PyTorch did not
    allocate it (mapped from a file, of numpy, shared between processes), which it refuses."""
    clone: Callable[[torch.Tensor], torch.Tensor] = vars(torch)["_lazy_clone"]
    try:
        return clone(tensor)
    except RuntimeError:
        return tensor.clone()


#: Loggers that print a traceback for each operator that has no fake implementation.
FAKE_TENSOR_LOGGERS: Final = ("torch._subclasses.fake_tensor", "torch._subclasses.fake_impls")
