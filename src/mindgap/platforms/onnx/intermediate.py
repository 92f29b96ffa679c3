"""The backend of a step between PyTorch and an ONNX runtime, to find the stage of a fault.

`DECOMPOSED` runs the program that the exporter translates, after its decompositions, in eager PyTorch. The step after
it is a platform, `onnx/reference`: it runs the exported model without a runtime's optimisations and kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mindgap.graph import Graph
from mindgap.platforms.onnx.step_backend import step_backend
from mindgap.platforms.protocol import Array, Executable, Options

_MODULES: Final = {"torch": "torch", "onnx": "onnx", "onnxscript": "onnxscript"}


def _decomposed(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    from mindgap.platforms.onnx.decomposed import DecomposedProgram

    return DecomposedProgram(graph)


DECOMPOSED: Final = step_backend(_MODULES, _decomposed)
