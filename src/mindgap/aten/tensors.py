"""Converts numpy arrays to torch tensors and back, bit for bit, including bfloat16 and float8.

`cotangent` makes the fixed gradient that is passed to an output when a graph is run backward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import torch

from mindgap.graph import DTYPES, Array, Graph, TensorSpec, dtype_name, numpy_dtype

#: Numerators of the cotangent, over 16: odd, so never zero, and five bits, so exact in every float dtype but float8.
_PERIOD = 17
_STEP = 37


def cotangent(output: torch.Tensor) -> torch.Tensor:
    """Returns the fixed gradient fed into an output: element k (row-major) is (2·(37k mod 17) − 17) / 16.

    Ones would test less: against ones, the gradient of a softmax or a normalisation is zero up to rounding.
    """
    return cotangent_of(tuple(output.shape), output.dtype, str(output.device))


@lru_cache(maxsize=64)
def cotangent_of(shape: tuple[int, ...], dtype: torch.dtype, device: str = "cpu") -> torch.Tensor:
    """Returns the cotangent for an output of this shape and dtype."""
    index = torch.arange(math.prod(shape), dtype=torch.int64)
    return ((2 * (index * _STEP % _PERIOD) - _PERIOD).double() / 16).to(dtype).reshape(shape).to(device)


TORCH_DTYPES: Final[dict[str, torch.dtype]] = {name: getattr(torch, name) for name in DTYPES}
_NAMES: Final = {dtype: name for name, dtype in TORCH_DTYPES.items()}
#: dtypes that numpy holds through ml_dtypes only: moved as unsigned integers of the same width.
_CARRIER: Final = {1: (np.dtype(np.uint8), torch.uint8), 2: (np.dtype(np.uint16), torch.uint16)}


def torch_dtype_name(dtype: torch.dtype) -> str:
    """Returns PyTorch's name of a dtype, without the `torch.`. KeyError for one that graphs do not hold."""
    return _NAMES[dtype]


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    """Returns dtype, shape and strides of a strided tensor."""
    return TensorSpec(torch_dtype_name(tensor.dtype), tuple(tensor.shape), tuple(tensor.stride()))


def _needs_carrier(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "V" or dtype_name(dtype).startswith(("bfloat", "float8"))


#: For the dtypes that `_CARRIER` moves: the carrier, and numpy's dtype.
_CARRIED: Final = {
    dtype: (_CARRIER[numpy_dtype(name).itemsize][1], numpy_dtype(name))
    for dtype, name in _NAMES.items()
    if _needs_carrier(numpy_dtype(name))
}


def to_torch(array: Array, spec: TensorSpec | None = None, device: str = "cpu") -> torch.Tensor:
    """Converts an array to a tensor with the strides of `spec` (row-major without one).

    Shares the array's memory where the strides allow and the device is the CPU: clone before writing.
    """
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array).reshape(array.shape)
    if not array.flags.writeable:
        array = array.copy()
    if _needs_carrier(array.dtype):
        carrier, _ = _CARRIER[array.dtype.itemsize]
        tensor = torch.from_numpy(array.view(carrier)).view(TORCH_DTYPES[dtype_name(array.dtype)])  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
    else:
        tensor = torch.from_numpy(array)  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
    if spec is not None and tuple(tensor.stride()) != spec.stride:
        laid_out = torch.empty_strided(spec.shape, spec.stride, dtype=tensor.dtype)
        # An empty array of numpy's may have strides of 0.
        overlaps = spec.overlaps and tensor.numel() > 0
        tensor = _fill_overlapping(laid_out, tensor) if overlaps else laid_out.copy_(tensor)
    return tensor if device == "cpu" else tensor.to(device)


def input_tensors(graph: Graph, arrays: Sequence[Array]) -> list[torch.Tensor]:
    """Converts the arrays of a graph's inputs to tensors with the strides that the graph declares."""
    return [to_torch(array, given.spec) for array, given in zip(arrays, graph.inputs, strict=True)]


def _fill_overlapping(laid_out: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Fills expanded and sliding-window inputs cell by cell; elements that share a cell are equal."""
    cells = torch.as_strided(laid_out, (extent(laid_out),), (1,))
    offsets = torch.arange(cells.numel()).as_strided(tensor.shape, laid_out.stride())
    cells[offsets.flatten()] = tensor.flatten()
    return laid_out


def extent(tensor: torch.Tensor) -> int:
    """Returns how many memory cells lie between a tensor's first and last element, both included."""
    steps = zip(tensor.stride(), tensor.shape, strict=True)
    return 1 + sum(step * (size - 1) for step, size in steps) if tensor.numel() else 0


def to_numpy(tensor: torch.Tensor) -> Array:
    """Converts a tensor to a C-contiguous array of its dtype; shares memory if possible."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_conj():
        tensor = tensor.resolve_conj()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if not tensor.is_cpu:
        tensor = tensor.to("cpu")
    tensor = tensor.contiguous()
    carried = _CARRIED.get(tensor.dtype)
    return tensor.numpy() if carried is None else tensor.view(carried[0]).numpy().view(carried[1])
