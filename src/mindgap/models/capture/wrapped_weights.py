"""Takes apart weights that are tensor subclasses made of plain tensors, as `torchao.quantization.quantize_` makes them.

The plain tensors become parameters of the program, integers among them, and the subclass is made of them when the
weight is read: its own code then says what each operator computes on them.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (PyTorch's parametrizations are partly untyped)

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.nn.utils import parametrize

from mindgap.aten.torch_private.modules import is_traceable_wrapper_subclass


def wrapped_weights(program: Any) -> list[tuple[torch.nn.Module, str]]:
    """Returns the modules of a program that hold a weight of such a subclass, with the weight's name."""
    if not isinstance(program, torch.nn.Module):
        return []
    return [
        (module, name)
        for module in program.modules()
        for name, tensor in module.named_parameters(recurse=False)
        if is_traceable_wrapper_subclass(tensor)
    ]


def with_plain_weights(program: torch.nn.Module) -> torch.nn.Module:
    """Returns a copy of a program whose wrapped weights are made of plain ones."""
    plain = copy.deepcopy(program)
    for module, name in wrapped_weights(plain):
        parametrize.register_parametrization(module, name, _Wrapped(getattr(module, name)), unsafe=True)
    return plain


class _Wrapped(torch.nn.Module):
    """Makes a tensor subclass of plain tensors. A part may be such a subclass itself."""

    def __init__(self, tensor: Any) -> None:
        super().__init__()
        self._kind = type(tensor)
        self._names, self._context = tensor.__tensor_flatten__()
        self._shape, self._stride = tensor.shape, tensor.stride()
        self._parts = [
            _Wrapped(part) if is_traceable_wrapper_subclass(part) else None
            for part in (getattr(tensor, name) for name in self._names)
        ]
        self.parts = torch.nn.ModuleList(part for part in self._parts if part is not None)

    def right_inverse(self, tensor: Any) -> list[torch.Tensor]:
        """Returns the plain tensors."""
        found: list[torch.Tensor] = []
        for name, part in zip(self._names, self._parts, strict=True):
            inner = getattr(tensor, name)
            found += [inner] if part is None else part.right_inverse(inner)
        return found

    def forward(self, *plain: torch.Tensor) -> Any:
        """Returns the subclass."""
        left = list(plain)
        inner: dict[str, Any] = {}
        for name, part in zip(self._names, self._parts, strict=True):
            count = 1 if part is None else len(part._names)
            given, left = left[:count], left[count:]
            inner[name] = given[0] if part is None else part(*given)
        return self._kind.__tensor_unflatten__(inner, self._context, self._shape, self._stride)
