"""Defines a tensor's spec: dtype, shape, strides."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, Final, Literal

import ml_dtypes
import numpy as np

Kind = Literal["float", "complex", "int", "bool"]
#: An array of any shape and dtype.
Array = np.ndarray[Any, np.dtype[Any]]

#: Every dtype a graph may name: PyTorch's spelling -> (kind, numpy dtype).
DTYPES: Final[dict[str, tuple[Kind, np.dtype]]] = {
    "bool": ("bool", np.dtype(np.bool_)),
    "uint8": ("int", np.dtype(np.uint8)),
    "uint16": ("int", np.dtype(np.uint16)),
    "uint32": ("int", np.dtype(np.uint32)),
    "uint64": ("int", np.dtype(np.uint64)),
    "int8": ("int", np.dtype(np.int8)),
    "int16": ("int", np.dtype(np.int16)),
    "int32": ("int", np.dtype(np.int32)),
    "int64": ("int", np.dtype(np.int64)),
    "float8_e4m3fn": ("float", np.dtype(ml_dtypes.float8_e4m3fn)),
    "float8_e5m2": ("float", np.dtype(ml_dtypes.float8_e5m2)),
    "float8_e4m3fnuz": ("float", np.dtype(ml_dtypes.float8_e4m3fnuz)),
    "float8_e5m2fnuz": ("float", np.dtype(ml_dtypes.float8_e5m2fnuz)),
    "bfloat16": ("float", np.dtype(ml_dtypes.bfloat16)),
    "float16": ("float", np.dtype(np.float16)),
    "float32": ("float", np.dtype(np.float32)),
    "float64": ("float", np.dtype(np.float64)),
    "complex64": ("complex", np.dtype(np.complex64)),
    "complex128": ("complex", np.dtype(np.complex128)),
}


def kind_of(dtype: str) -> Kind:
    """Returns the number kind of a dtype name."""
    return DTYPES[dtype][0]


def numpy_dtype(dtype: str) -> np.dtype:
    """Returns the numpy dtype (from ml_dtypes where numpy has none) that holds `dtype` bit for bit."""
    return DTYPES[dtype][1]


def dtype_name(dtype: np.dtype) -> str:
    """Returns the dtype's name; inverts `numpy_dtype`."""
    return _NAMES[dtype]


def is_little_endian(dtype: np.dtype) -> bool:
    """Returns whether numbers of a dtype have their least significant byte first; those of one byte have."""
    return dtype.byteorder in "<|" or (dtype.byteorder == "=" and sys.byteorder == "little")


def with_bytes_reversed(array: Array) -> Array:
    """Returns a C-contiguous copy with the bytes of each number in reverse order, those of both parts of a complex one;
    dtype and shape stay."""
    own = array.dtype
    part = own.itemsize // (2 if own.kind == "c" else 1)
    return np.ascontiguousarray(array).view(f"u{part}").byteswap().view(own).reshape(array.shape)


_NAMES: Final = {numpy: name for name, (_, numpy) in DTYPES.items()}


def contiguous_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns row-major strides in elements; dimensions of size 0 count as 1, as PyTorch counts them."""
    stride: list[int] = []
    step = 1
    for size in reversed(shape):
        stride.append(step)
        step *= max(size, 1)
    return tuple(reversed(stride))


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """dtype (PyTorch's name), shape, and strides in elements."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    @staticmethod
    def contiguous(dtype: str, shape: tuple[int, ...]) -> TensorSpec:
        return TensorSpec(dtype, shape, contiguous_stride(shape))

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * numpy_dtype(self.dtype).itemsize

    @property
    def overlaps(self) -> bool:
        """Whether elements may share memory: by rising stride, a dimension does not clear those before."""
        reach = 0
        for step, size in sorted(zip(self.stride, self.shape, strict=True)):
            if size > 1:
                if step <= reach:
                    return True
                reach += step * (size - 1)
        return False

    @property
    def kind(self) -> Kind:
        return kind_of(self.dtype)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"
