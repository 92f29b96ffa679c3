"""Makes tensors from bits, copies them with their strides, computes their checksums."""

# pyright: basic
# (torch is typed in parts only)

from __future__ import annotations

import base64
import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

#: Integers of the same width: how bits are moved without a conversion.
CARRIERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}


def from_bits(text: str, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """Makes a tensor from its row-major, little-endian bytes in hexadecimal."""
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8).view(dtype).reshape(shape)


def unpacked(text: str, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """Makes a tensor from bytes compressed by zlib and written in base 85."""
    data = bytearray(zlib.decompress(base64.b85decode("".join(text.split()))))
    return torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(shape)


def loaded(file: str, name: str, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """Makes a tensor from an array of bytes in an .npz file beside this script."""
    with np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), file)) as arrays:
        return torch.from_numpy(arrays[name]).view(dtype).reshape(shape)


def strided(values: torch.Tensor, stride: Sequence[int]) -> torch.Tensor:
    """Lays values out with these strides (in elements). Elements that share memory must be equal."""
    count = 1 + sum(step * (size - 1) for step, size in zip(stride, values.shape, strict=True)) if values.numel() else 0
    carrier = CARRIERS[values.element_size()]
    memory = torch.zeros(count, dtype=values.dtype)
    places = torch.arange(count).as_strided(values.shape, stride) if count else torch.empty(0, dtype=torch.int64)
    memory.view(carrier)[places.flatten()] = values.clone(memory_format=torch.contiguous_format).view(-1).view(carrier)
    return memory.as_strided(values.shape, stride)


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the memory from a tensor's first to its last element, in one dimension."""
    steps = zip(tensor.stride(), tensor.shape, strict=True)
    count = 1 + sum(step * (size - 1) for step, size in steps) if tensor.numel() else 0
    return tensor.as_strided((count,), (1,), tensor.storage_offset())


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """Copies with the same strides, overlapping ones included."""
    return memory_of(tensor).clone().as_strided(tensor.shape, tensor.stride(), 0)


def recast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Copies to another dtype with the same strides."""
    return memory_of(tensor).to(dtype, copy=True).as_strided(tensor.shape, tensor.stride(), 0)


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """Copies to float64 or complex128 with the same strides; other dtypes stay."""
    return recast(tensor, wide_dtype(tensor.dtype))


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """Returns float64 for a float, complex128 for a complex, else the same dtype."""
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


def epsilon(dtype: torch.dtype) -> float:
    """Returns the gap after 1. torch.finfo gives 0.125 for float8_e5m2fnuz, which has two bits of fraction."""
    return 0.25 if dtype == torch.float8_e5m2fnuz else torch.finfo(dtype).eps


def require_known(options: dict[str, str], known: str, platform: str) -> None:
    """Raises `ValueError` for an unknown option. `known`: names, separated by spaces."""
    unknown = sorted(set(options) - set(known.split()))
    if unknown:
        raise ValueError(f"this script knows no option {', '.join(unknown)} of {platform}")


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Lists the tensors in nested lists, tuples and dicts, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def with_tensors(value: Any, change: Any) -> Any:
    """Applies `change` to each item of a nested value that is no list, tuple or dict."""
    if isinstance(value, (list, tuple)):
        return [with_tensors(item, change) for item in value]
    if isinstance(value, dict):
        return {key: with_tensors(item, change) for key, item in value.items()}
    return change(value)


def checksum(tensors: Sequence[torch.Tensor]) -> str:
    """Computes the SHA-256 of dtype, shape, strides (none of an empty tensor) and row-major bytes of each tensor."""
    found = hashlib.sha256()
    for tensor in tensors:
        name = str(tensor.dtype).removeprefix("torch.")
        stride = list(tensor.stride()) if tensor.numel() else []
        found.update(f"{name}{list(tensor.shape)}{stride}".encode())
        # Cloned: one element with a stride of 0 counts as contiguous, and cannot be viewed in bytes.
        plain = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format).view(-1)
        found.update(plain.view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
