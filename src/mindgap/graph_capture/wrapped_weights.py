"""Takes apart weights that are tensor subclasses made of plain tensors, as `torchao.quantization.quantize_` makes them,
and weights in the blocks of GGUF files, as diffusers loads them.

The plain tensors become parameters of the program, integers among them. A subclass is made of them when the weight is
read: its own code then shows what each operator computes on them. Blocks become integers and scales, and the weight
that is read is their product.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (PyTorch's parametrizations are partly untyped)

from __future__ import annotations

import copy
from typing import Any, Final

import torch
from torch.nn.utils import parametrize

from mindgap.aten.torch_private.modules import is_traceable_wrapper_subclass
from mindgap.graph_capture.errors import CaptureError

#: Weights in a block, of all layouts below.
_BLOCK: Final = 32
#: By number of the type in GGUF (Q4_0, Q4_1, Q8_0; ggml's `ggml-common.h`): bytes of a block, whether weights have 4
#: bits, whether a minimum stands behind the scale. Both are float16; low halves of the bytes are the first 16 weights.
_LAYOUTS: Final = {2: (18, True, False), 3: (20, True, True), 8: (34, False, False)}


def wrapped_weights(program: Any) -> list[tuple[torch.nn.Module, str]]:
    """Returns the modules of a program that hold a weight of such a subclass, with the weight's name."""
    if not isinstance(program, torch.nn.Module):
        return []
    return [
        (module, name)
        for module in program.modules()
        for name, tensor in module.named_parameters(recurse=False)
        if is_traceable_wrapper_subclass(tensor) or _in_blocks(tensor)
    ]


def _in_blocks(tensor: Any) -> bool:
    """Whether a weight is one of diffusers' `GGUFParameter`."""
    return type(tensor).__name__ == "GGUFParameter" and hasattr(tensor, "quant_type")


def with_plain_weights(program: torch.nn.Module) -> torch.nn.Module:
    """Returns a copy of a program whose wrapped weights are made of plain ones.

    Raises `CaptureError` for blocks of a layout that has no definition here.
    """
    # Python copies such a weight without its type.
    blocks = {id(each): each for module, name in wrapped_weights(program) if _in_blocks(each := getattr(module, name))}
    plain = copy.deepcopy(program, blocks)
    for module, name in wrapped_weights(plain):
        weight = getattr(module, name)
        made = _Blocks(f"{type(module).__name__}.{name}", weight) if _in_blocks(weight) else _Wrapped(weight)
        parametrize.register_parametrization(module, name, made, unsafe=True)
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
        tensors: list[torch.Tensor] = []
        for name, part in zip(self._names, self._parts, strict=True):
            inner = getattr(tensor, name)
            tensors += [inner] if part is None else part.right_inverse(inner)
        return tensors

    def forward(self, *plain: torch.Tensor) -> Any:
        """Returns the subclass."""
        left = list(plain)
        inner: dict[str, Any] = {}
        for name, part in zip(self._names, self._parts, strict=True):
            count = 1 if part is None else len(part._names)
            given, left = left[:count], left[count:]
            inner[name] = given[0] if part is None else part(*given)
        return self._kind.__tensor_unflatten__(inner, self._context, self._shape, self._stride)


class _Blocks(torch.nn.Module):
    """Makes a float16 weight of shape (rows, columns) of integers and scales (rows, blocks, 32 and 1)."""

    def __init__(self, name: str, weight: Any) -> None:
        super().__init__()
        kind = int(weight.quant_type)
        if kind not in _LAYOUTS:
            called = getattr(weight.quant_type, "name", kind)
            raise CaptureError(
                f"{name} is a GGUF weight of type {called}, which has no definition on plain integers here (Q4_0, Q4_1 "
                f"and Q8_0 have): load a file of one of these, or replace it by "
                f"diffusers.quantizers.gguf.utils.dequantize_gguf_tensor(weight)"
            )
        self._bytes, self._halves, self._has_minimum = _LAYOUTS[kind]

    def right_inverse(self, weight: Any) -> list[torch.Tensor]:
        """Returns the integers (int8), the scales (float16), and the minima (float16) where there are any."""
        data = weight.as_tensor().view(torch.uint8)
        blocks = data.reshape(*data.shape[:-1], -1, self._bytes)
        heads = 2 if self._has_minimum else 1
        floats = [blocks[..., 2 * at : 2 * at + 2].contiguous().view(torch.float16) for at in range(heads)]
        values = blocks[..., 2 * heads :]
        if self._halves:
            values = torch.cat([values & 15, values >> 4], -1).to(torch.int8) - (0 if self._has_minimum else 8)
        else:
            values = values.contiguous().view(torch.int8)
        return [values.contiguous(), *floats]

    def forward(self, values: torch.Tensor, scale: torch.Tensor, *minimum: torch.Tensor) -> torch.Tensor:
        """Returns the weight."""
        weight = scale * values
        for each in minimum:
            weight = weight + each
        return weight.reshape(*values.shape[:-2], values.shape[-2] * _BLOCK)
