"""Backends for the steps between PyTorch and an ONNX runtime, to find the stage of a fault.

`DECOMPOSED` runs the program that the exporter translates, after its decompositions, in eager PyTorch.
`REFERENCE_EVALUATOR` runs the exported model in the reference evaluator of the package `onnx`, which implements ONNX's
operators in numpy and optimises nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Graph
from mindgap.platforms.onnx.arrays import as_declared, as_real
from mindgap.platforms.onnx.step_backend import StepBackend
from mindgap.platforms.protocol import (
    Array,
    CompileFailure,
    Executable,
    Options,
    RunFailure,
    Unsupported,
)

if TYPE_CHECKING:
    from mindgap.platforms.onnx.export import Exported

_MODULES: Final = {"torch": "torch", "onnx": "onnx", "onnxscript": "onnxscript"}


class _Evaluated:
    """Runs one model in the reference evaluator."""

    def __init__(self, graph: Graph, exported: Exported) -> None:
        import onnx
        import onnx.reference

        model = onnx.load_from_string(exported.model)
        try:
            checker: Any = onnx.checker  # typed in parts
            checker.check_model(model, full_check=True)
        except Exception as error:
            raise CompileFailure(f"the exported model is not valid ONNX: {type(error).__name__}: {error}") from error
        try:
            self._evaluator: Any = onnx.reference.ReferenceEvaluator(model)
        except Exception as error:
            raise Unsupported("model", f"ONNX's reference evaluator: {type(error).__name__}: {error}") from error
        self._exported = exported
        self._outputs = [graph.values[number] for number in graph.outputs]

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the model. Raises `Unsupported` where the evaluator lacks an operator, else `RunFailure`."""
        import numpy as np

        names, fed = self._exported.inputs, self._exported.fed
        feeds = {name: as_real(inputs[number]) for name, number in zip(names, fed, strict=True)}
        try:
            with np.errstate(all="ignore"):
                found: list[Any] = self._evaluator.run(None, feeds)
        except NotImplementedError as error:
            raise Unsupported("model", f"ONNX's reference evaluator: {error}") from error
        except Exception as error:
            raise RunFailure(f"{type(error).__name__}: {error}") from error
        arrays = [np.asarray(each) for each in found]
        return [
            array if spec is None else as_declared(array, spec)
            for array, spec in zip(arrays, self._outputs, strict=True)
        ]


def _decomposed(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    from mindgap.platforms.onnx.decomposed import DecomposedProgram

    return DecomposedProgram(graph)


def _evaluated(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    """Exports the graph. Raises what `export` does, and `CompileFailure` for a model that is not valid."""
    from mindgap.platforms.onnx.export_cache import shared_export

    return _Evaluated(graph, shared_export(graph, inputs))


DECOMPOSED: Final = StepBackend(_MODULES, _decomposed)
REFERENCE_EVALUATOR: Final = StepBackend(_MODULES, _evaluated)
