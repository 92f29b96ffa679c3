"""Modules and nested containers: base classes of layers, the frame of a call, the program inside a compiled one."""
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false
# (these names have no public counterpart)

from __future__ import annotations

from types import CodeType
from typing import Any, Final

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass as is_traceable_wrapper_subclass
from torch.utils._pytree import (
    keystr as keystr,
    tree_flatten as tree_flatten,
    tree_leaves as tree_leaves,
    tree_map as tree_map,
    tree_map_only as tree_map_only,
    tree_map_with_path as tree_map_with_path,
    tree_unflatten as tree_unflatten,
)

__all__ = [
    "MODULE_CALL",
    "BatchNorm",
    "Convolution",
    "TransposedConvolution",
    "put_buffer",
    "put_module",
    "put_parameter",
    "unwrap_compiled",
]

#: The base classes of all batch norms, all convolutions and all transposed convolutions.
BatchNorm = torch.nn.modules.batchnorm._BatchNorm
Convolution = torch.nn.modules.conv._ConvNd
TransposedConvolution = torch.nn.modules.conv._ConvTransposeNd

#: The code of the frame whose local variable `self` is the module that is being called.
MODULE_CALL: Final[CodeType] = torch.nn.Module._call_impl.__code__


def unwrap_compiled(program: Any) -> Any:
    """Returns the program that `torch.compile` was given, or `program` itself if it is not compiled."""
    for name in ("_orig_mod", "_torchdynamo_orig_callable"):
        program = getattr(program, name, program)
    return program


def put_parameter(module: torch.nn.Module, name: str, parameter: torch.nn.Parameter) -> None:
    """Registers a parameter under any name, such as `layer1.0.weight`: the public method refuses a dot."""
    module._parameters[name] = parameter


def put_buffer(module: torch.nn.Module, name: str, tensor: torch.Tensor) -> None:
    """Registers a buffer under any name."""
    module._buffers[name] = tensor


def put_module(module: torch.nn.Module, name: str, inner: torch.nn.Module) -> None:
    """Registers a submodule under any name."""
    module._modules[name] = inner
