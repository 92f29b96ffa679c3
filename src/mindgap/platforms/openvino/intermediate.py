"""Backends for the steps between PyTorch and OpenVINO's CPU plugin, to find the stage of a fault.

`DECOMPOSED` runs the exported program after the decompositions of OpenVINO's PyTorch front end, in eager PyTorch.
`CONVERTED` runs the model that a front end made, before the plugin compiles it: `openvino.Model.evaluate` calls the
implementations in OpenVINO's core, which exist for some operators only, and may share a fault with the plugin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindgap.graph import Graph
from mindgap.platforms.onnx.arrays import as_declared, as_real
from mindgap.platforms.onnx.step_backend import step_backend
from mindgap.platforms.openvino.backend import MODULES, converted_model, fed, to_array, to_tensor
from mindgap.platforms.protocol import (
    Array,
    CompileFailure,
    Executable,
    Options,
    Unsupported,
)

if TYPE_CHECKING:
    from mindgap.platforms.openvino.pytorch_frontend import OpenVinoModel


class _Evaluated:
    """Runs one model in OpenVINO's core."""

    def __init__(self, graph: Graph, made: OpenVinoModel) -> None:
        """Raises `CompileFailure` where the model has other inputs than the graph."""
        self._model = made.model
        numbers, ports = dict(zip(made.inputs, made.fed, strict=True)), made.model.inputs
        self._fed = [number for port in ports if (number := fed(port, numbers)) is not None]
        if len(self._fed) != len(ports):
            raise CompileFailure(f"the converted model has inputs {[sorted(port.get_names()) for port in ports]}")
        specs = [graph.values[number] for number in graph.outputs]
        self._outputs = list(zip(made.outputs, specs, strict=True))

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the model. Raises `Unsupported` for an operator that is not implemented."""
        results = self._core_results([as_real(inputs[number]) for number in self._fed])
        return [results[place] if spec is None else as_declared(results[place], spec) for place, spec in self._outputs]

    def _core_results(self, given: Sequence[Array]) -> list[Array]:
        import openvino

        results = [
            openvino.Tensor(port.get_element_type(), openvino.Shape([0] * _rank(port))) for port in self._model.outputs
        ]
        try:
            done = self._model.evaluate(results, [to_tensor(array) for array in given])
        except Exception as error:
            raise Unsupported("model", f"OpenVINO's core: {type(error).__name__}: {error}") from error
        if not done:
            raise Unsupported("model", "OpenVINO's core has no reference implementation of an operator of the model")
        return [np.array(to_array(tensor)) for tensor in results]


def _rank(port: Any) -> int:
    rank = port.get_partial_shape().rank
    return int(rank.get_length()) if rank.is_static else 0


def _decomposed(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    from mindgap.platforms.openvino.pytorch_frontend import decomposed

    return decomposed(graph, inputs)


def _converted(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    """Converts the graph. Raises what the front end's conversion raises."""
    return _Evaluated(graph, converted_model(graph, inputs, options["frontend"]))


DECOMPOSED: Final = step_backend(MODULES, _decomposed)
CONVERTED: Final = step_backend(MODULES, _converted, {"frontend": ("pytorch", "onnx")})
