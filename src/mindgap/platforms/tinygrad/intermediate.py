"""A backend for the steps between an ONNX model and tinygrad's kernels, to find the stage of a fault.

`TRANSLATED` reads the model with tinygrad's ONNX front end, which gives tensors that are not computed yet. With
`run=types` its results are eager PyTorch's, in the shapes and dtypes of these tensors; with `run=values` numpy
evaluates the operations of the tensors one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mindgap.graph import Graph
from mindgap.platforms.onnx.arrays import as_declared
from mindgap.platforms.onnx.step_backend import step_backend
from mindgap.platforms.protocol import Array, Executable, Options
from mindgap.platforms.tinygrad.backend import MODULES, TinygradExecutable
from mindgap.platforms.tinygrad.tensor_operations import evaluate


class _Tensors:
    """Reads a model, and gives its results without tinygrad's kernels. `values`: numpy evaluates the operations."""

    def __init__(self, graph: Graph, inputs: Sequence[Array], *, values: bool) -> None:
        from mindgap.platforms.onnx.export_cache import shared_export

        self._graph = graph
        self._read = TinygradExecutable(graph, shared_export(graph, inputs))
        self._values = values

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        from mindgap.platforms.pytorch.execution.step_results import DeclaredResults, DeclaredType

        tensors = self._read.tensors(inputs)
        if not self._values:
            complex_ = [spec is not None and spec.dtype.startswith("complex") for spec in self._specs]
            declared = [
                None if skipped else DeclaredType(_dtype(each), tuple(int(size) for size in each.shape))
                for each, skipped in zip(tensors, complex_, strict=True)
            ]
            return DeclaredResults(self._graph, declared)(inputs)
        with np.errstate(all="ignore"):
            found = [evaluate(each.uop) for each in tensors]
        return [
            array if spec is None else as_declared(array, spec) for array, spec in zip(found, self._specs, strict=True)
        ]

    @property
    def _specs(self) -> list[Any]:
        return [self._graph.values[number] for number in self._graph.outputs]


def _dtype(tensor: Any) -> str:
    """The graph's name of a tensor's dtype, which is `dtypes.long` for int64."""
    kind = tensor.dtype
    return np.dtype(kind.fmt).name if kind.fmt is not None else str(kind).removeprefix("dtypes.")


def _translated(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    return _Tensors(graph, inputs, values=options["run"] == "values")


TRANSLATED: Final = step_backend(MODULES, _translated, {"run": ("types", "values")}, {"DEV": "CPU", "PARALLEL": "0"})
