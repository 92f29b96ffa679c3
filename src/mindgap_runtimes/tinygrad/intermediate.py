"""A backend for the steps between an ONNX model and tinygrad's kernels, to find the stage of a fault.

`TRANSLATED` reads the model with tinygrad's ONNX front end, which gives tensors that are not computed yet. Its results
are eager PyTorch's, in the shapes and dtypes of these tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mindgap.graph import Graph
from mindgap.platforms.onnx.step_backend import step_backend
from mindgap.platforms.protocol import Array, Executable, Options
from mindgap_runtimes.tinygrad.backend import MODULES, TinygradExecutable


class _Tensors:
    """Reads a model, and gives eager PyTorch's results in the types of its tensors, without tinygrad's kernels."""

    def __init__(self, graph: Graph, inputs: Sequence[Array]) -> None:
        from mindgap.platforms.onnx.export_cache import shared_export

        self._graph = graph
        self._read = TinygradExecutable(graph, shared_export(graph, inputs))

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        from mindgap_runtimes.step_results import DeclaredResults, DeclaredType

        specs = [self._graph.values[number] for number in self._graph.outputs]
        declared = [
            None if spec is not None and spec.dtype.startswith("complex")
            else DeclaredType(_dtype(each), tuple(int(size) for size in each.shape))
            for each, spec in zip(self._read.tensors(inputs), specs, strict=True)
        ]  # fmt: skip
        return DeclaredResults(self._graph, declared)(inputs)


def _dtype(tensor: Any) -> str:
    """The graph's name of a tensor's dtype, which is `dtypes.long` for int64."""
    kind = tensor.dtype
    return np.dtype(kind.fmt).name if kind.fmt is not None else str(kind).removeprefix("dtypes.")


def _translated(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    return _Tensors(graph, inputs)


TRANSLATED: Final = step_backend(MODULES, _translated, {}, {"DEV": "CPU", "PARALLEL": "0"})
