"""Converts arrays for ONNX runtimes: bfloat16, float8 and complex numbers, which numpy or ONNX lack.

ONNX has no complex arithmetic: the exporter carries a complex tensor as a real one with a last
dimension of 2, and so do these arrays. No value is converted: a wrong dtype or shape in a
platform's output must stay visible.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mindgap.graph import TensorSpec, dtype_name, numpy_dtype
from mindgap.platforms.protocol import Array

#: ONNX element type (`TensorProto.DataType`) of the dtypes that numpy holds through ml_dtypes only.
ONNX_ELEMENT: Final = {
    "bfloat16": 16,
    "float8_e4m3fn": 17,
    "float8_e4m3fnuz": 18,
    "float8_e5m2": 19,
    "float8_e5m2fnuz": 20,
}
_REAL_OF: Final = {np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64)}


def carrier(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the unsigned integer dtype of the same width for a dtype that numpy lacks, else the dtype."""
    if dtype in _REAL_OF or dtype_name(dtype) not in ONNX_ELEMENT:
        return dtype
    return np.dtype(np.uint8 if dtype.itemsize == 1 else np.uint16)


def as_real(array: Array) -> Array:
    """Converts complex numbers to pairs of reals, contiguous; other dtypes stay."""
    array = array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(array.shape)
    if array.dtype not in _REAL_OF:
        return array
    return array[..., None].view(_REAL_OF[array.dtype])


def as_declared(array: Array, spec: TensorSpec) -> Array:
    """Inverts `as_real` for an output that the graph declares complex; anything else is unchanged."""
    declared = numpy_dtype(spec.dtype)
    if declared in _REAL_OF and array.dtype == _REAL_OF[declared] and array.shape[-1:] == (2,):
        return np.ascontiguousarray(array).view(declared)[..., 0]
    return array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(array.shape)
