"""Converts input arrays to tensors and tensors to output arrays; keeps a tensor while its array comes again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from mindgap.aten.tensors import TORCH_DTYPES, to_numpy, to_torch, torch_dtype_name
from mindgap.graph import Graph, Input, numpy_dtype
from mindgap.platforms.protocol import Array, Fallback
from mindgap.platforms.pytorch.execution.widen import wide


class InputBinder:
    """Turns a graph's input arrays into tensors of the dtype and strides that the inputs' specs ask for.

    The tensor made from an array is kept for as long as the same array object comes again, where it
    shares the array's memory, the array is read-only, or the input's role allows folding it:
    a change to an array of another role is never missed.
    """

    def __init__(self, inputs: Sequence[Input], device: str) -> None:
        self._specs = [given.spec for given in inputs]
        self._fixed = [given.role not in ("input", "random") for given in inputs]
        self._device = device
        self._kept: list[tuple[Array, torch.Tensor] | None] = [None] * len(inputs)
        self._storages: frozenset[int] = frozenset()

    def __call__(self, inputs: Sequence[Array]) -> list[torch.Tensor]:
        """Makes one tensor per array. Raises `ValueError` if their number or a shape is not the graph's."""
        if len(inputs) != len(self._specs):
            raise ValueError(f"the graph takes {len(self._specs)} inputs, {len(inputs)} were given")
        tensors: list[torch.Tensor] = []
        changed = False
        for index, array in enumerate(inputs):
            kept = self._kept[index]
            if kept is not None and kept[0] is array:
                tensors.append(kept[1])
                continue
            changed = True
            tensors.append(self._make(index, array))
        if changed and self._device == "cpu":
            self._storages = frozenset(t.untyped_storage().data_ptr() for t in tensors)
        return tensors

    def owns(self, tensor: torch.Tensor) -> bool:
        """Returns whether the tensor shares memory with an input, so that an output must be a copy."""
        return tensor.device.type == "cpu" and tensor.untyped_storage().data_ptr() in self._storages

    def _make(self, index: int, array: Array) -> torch.Tensor:
        spec = self._specs[index]
        if array.shape != spec.shape:
            raise ValueError(f"input {index} has the shape {array.shape}, the graph declares {spec.shape}")
        wanted = numpy_dtype(spec.dtype)
        held = array if array.dtype == wanted else array.astype(wanted)
        tensor = to_torch(held, spec, self._device)
        shared = self._device == "cpu" and array.size > 0 and tensor.data_ptr() == array.ctypes.data
        lasting = shared or self._fixed[index] or not array.flags.writeable
        self._kept[index] = (array, tensor) if lasting else None
        return tensor


def given_out(tensors: Sequence[torch.Tensor], dtypes: Sequence[str], feeds: InputBinder, cast: bool) -> list[Array]:
    """Converts outputs to arrays that share no memory with the inputs; with `cast`, to the declared dtypes.

    `dtypes`: the declared one for each output.
    """
    arrays: list[Array] = []
    for tensor, dtype in zip(tensors, dtypes, strict=True):
        if cast and torch_dtype_name(tensor.dtype) != dtype and _may_cast(torch_dtype_name(tensor.dtype), dtype):
            tensor = tensor.to(TORCH_DTYPES[dtype])
        array = to_numpy(tensor)
        arrays.append(array.copy() if feeds.owns(tensor) else array)
    return arrays


def _may_cast(dtype: str, declared: str) -> bool:
    """Returns whether to cast: only between precisions. A float in place of an integer must stay visible."""
    return wide(dtype) == wide(declared)


def check_devices(tensors: Sequence[torch.Tensor], device: str, gradients: int = 0) -> None:
    """Raises `Fallback` where an output is not on the device of the platform. The last `gradients` are gradients."""
    for index, tensor in enumerate(tensors):
        if tensor.device.type != device:
            late = index - (len(tensors) - gradients)
            what = f"output {index}" if late < 0 else f"gradient {late}"
            raise Fallback(f"{what} is on {tensor.device.type}, the platform is {device}")


def declared_dtypes(graph: Graph) -> list[str]:
    """Returns the declared dtype of each output, then of each gradient."""
    values = graph.values
    dtypes: list[str] = []
    for index in (*graph.outputs, *graph.grad):
        spec = values[index]
        dtypes.append("" if spec is None else spec.dtype)
    return dtypes


def same_bytes(one: Array, other: Array) -> bool:
    """Returns whether arrays are equal bit for bit, NaNs included."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return one is other or np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()
