"""Keeps the large weights of an ONNX model outside its protobuf message, as PyTorch's exporter does for its users.

Weights that are inputs of the graph stay where they are. Those that the exporter's optimiser made (transposed, folded)
go to a file without a name, and are mapped.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import onnx_ir as ir

from mindgap.aten.torch_private.onnx_exporter import TorchTensor
from mindgap.platforms.protocol import Array

#: Weights that take more together are kept outside the model.
_MODEL_BYTES: Final = 64 << 20
#: A smaller one stays in the model.
_LARGE_WEIGHT: Final = 1 << 20
_ALIGN: Final = 64


@dataclass(frozen=True)
class ExternalData:
    """`arrays`: by name, the initializers that a model declares as external data."""

    arrays: Mapping[str, Array] = field(default_factory=dict[str, Array])
    mapped: mmap.mmap | None = None
    #: Why weights that should be in a file are in memory; empty where they are not.
    unmapped: str = ""

    def forget_pages(self) -> None:
        """Gives back the memory of mapped weights, which is read from the file again where it is needed."""
        if self.mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.mapped.madvise(mmap.MADV_DONTNEED)


def take_out(model: ir.Model) -> ExternalData:
    """Replaces the large initializers of a model with more than 64 MiB of weights by declarations of external data."""
    held = {name: value.const_value for name, value in model.graph.initializers.items()}
    large = {name: tensor for name, tensor in held.items() if tensor is not None and tensor.nbytes >= _LARGE_WEIGHT}
    if sum(tensor.nbytes for tensor in held.values() if tensor is not None) <= _MODEL_BYTES:
        return ExternalData()
    arrays: dict[str, Array] = {}
    made: dict[str, Array] = {}
    for name, tensor in large.items():
        array: Array = tensor.numpy()
        given = isinstance(tensor, TorchTensor) and array.flags.c_contiguous
        (arrays if given else made)[name] = array
        model.graph.initializers[name].const_value = ir.ExternalTensor(
            "weights", 0, array.nbytes, tensor.dtype, shape=ir.Shape(array.shape), name=name
        )
    if not made:
        return ExternalData(arrays)
    try:
        mapped, placed = _mapped_file(made)
    except OSError as error:
        kept = {name: np.ascontiguousarray(array) for name, array in made.items()}
        return ExternalData({**arrays, **kept}, unmapped=f"{error.strerror or error}")
    return ExternalData({**arrays, **placed}, mapped)


def _mapped_file(arrays: Mapping[str, Array]) -> tuple[mmap.mmap, dict[str, Array]]:
    """Writes arrays to a file without a name, and maps it. Raises OSError where there is no room for it."""
    places: list[tuple[str, int]] = []
    # The file ends with the worker, also one that is killed.
    with tempfile.TemporaryFile(dir=os.environ.get("MINDGAP_SHARED")) as file:
        for name, array in arrays.items():
            file.write(b"\0" * (-file.tell() % _ALIGN))
            places.append((name, file.tell()))
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        file.flush()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    placed: dict[str, Array] = {}
    for name, offset in places:
        array = arrays[name]
        placed[name] = np.frombuffer(mapped, array.dtype, array.size, offset).reshape(array.shape)
    return mapped, placed
