"""Executables of a step between PyTorch and a runtime, to find the stage of a fault.

A step that only translates a program computes nothing. `DeclaredResults` shows whether it can translate a graph, and
which shapes and dtypes its program declares. `TorchResults` runs a program that eager PyTorch can call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.tensors import input_tensors, to_numpy
from mindgap.graph import DTYPES, Graph, numpy_dtype
from mindgap.platforms.protocol import Array, RunFailure
from mindgap.platforms.pytorch.device.devices import DEVICES
from mindgap.platforms.pytorch.execution.eager_executable import EagerExecutable

#: A runtime's short name of a dtype -> the graph's, where they differ.
_SHORT: Final = {
    "bool": "bool", "i1": "bool", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "ui8": "uint8", "ui16": "uint16", "ui32": "uint32", "ui64": "uint64",
    "complex<f32>": "complex64", "complex<f64>": "complex128",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """The type of a result as a program declares it. `shape`: None where it is not static."""

    dtype: str
    shape: tuple[int, ...] | None


def graph_dtype(name: str) -> str:
    """The graph's name of a dtype that a runtime calls `f32`, `ui8` or `float32`. Raises `RunFailure`."""
    known = _SHORT.get(name, name)
    if known not in DTYPES:
        raise RunFailure(f"the program declares the dtype {name}, which graphs do not hold")
    return known


class DeclaredResults:
    """Runs the graph in eager PyTorch, and gives its results the types that a program declares.

    A result whose declared shape or dtype differs from eager's is zeros of the declared type.
    """

    def __init__(self, graph: Graph, declared: Sequence[DeclaredType | None] = ()) -> None:
        """`declared`: for each output of the graph; None where it is not known, empty where none is."""
        self._eager = EagerExecutable(graph, {}, DEVICES["cpu"])
        self._declared = declared or [None] * len(graph.outputs)
        if len(self._declared) != len(graph.outputs):
            raise RunFailure(f"the program has {len(self._declared)} results, not {len(graph.outputs)}")

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        results = self._eager(inputs)
        return [_typed(array, each) for array, each in zip(results, self._declared, strict=True)]


def _typed(array: Array, declared: DeclaredType | None) -> Array:
    if declared is None:
        return array
    dtype = numpy_dtype(graph_dtype(declared.dtype))
    shape = array.shape if declared.shape is None else declared.shape
    return array if (array.shape, array.dtype) == (shape, dtype) else np.zeros(shape, dtype)


class TorchResults:
    """Calls a program in eager PyTorch."""

    def __init__(self, graph: Graph, program: Callable[..., Any], fed: Sequence[int]) -> None:
        """`program`: takes tensors, returns one or several. `fed`: the graph's input behind each that it takes."""
        self._graph, self._program, self._fed = graph, program, fed

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the program. Raises `RunFailure` for another number of results than the graph's."""
        tensors = input_tensors(self._graph, inputs)
        with torch.no_grad():
            outputs: Any = self._program(*(tensors[number] for number in self._fed))
        results: list[Any] = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)
        if len(results) != len(self._graph.outputs):
            raise RunFailure(f"the program gives {len(results)} results, not {len(self._graph.outputs)}")
        return [np.array(to_numpy(each), order="C") for each in results]
