"""A backend for the steps between PyTorch and XLA's code, to find the stage of a fault.

`TRANSLATED` traces the graph through torchax and JAX to StableHLO, and compiles nothing. With `run=types` its results
are eager PyTorch's, in the shapes and dtypes that the program declares; with `run=values` those of StableHLO's
reference interpreter.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

from mindgap.graph import Graph
from mindgap.platforms.messages import loading_error
from mindgap.platforms.onnx.step_backend import step_backend
from mindgap.platforms.protocol import Array, Executable, Options, Unsupported
from mindgap_runtimes.jax import messages
from mindgap_runtimes.jax.backend import MODULES
from mindgap_runtimes.stablehlo import StableHloResults


def _translated(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    from mindgap_runtimes.step_results import DeclaredResults

    program = _lowered(graph, inputs, accurate=options["mode"] == "accuracy")
    results = StableHloResults(program, range(len(graph.inputs)), len(graph.outputs))
    return results if options["run"] == "values" else DeclaredResults(graph, results.declared)


def _lowered(graph: Graph, inputs: Sequence[Array], *, accurate: bool) -> str:
    """The graph's program in StableHLO. Raises as the backend does."""
    from mindgap.aten.tensors import input_tensors
    from mindgap_runtimes.jax.import_torchax import import_torchax
    from mindgap_runtimes.jax.replay import Replay

    torchax = import_torchax()
    if accurate:
        torchax.enable_accuracy_mode()
    jax: Any = importlib.import_module("jax")
    environment = torchax.default_env()
    replay = Replay(environment, graph)
    try:
        arrays = [environment.t2j_copy(tensor) for tensor in input_tensors(graph, inputs)]
        return str(jax.jit(replay.run, keep_unused=True).lower(*arrays).as_text("stablehlo"))
    except Exception as error:
        if isinstance(error, (MemoryError, Unsupported)):
            raise
        reading = messages.read(error)
        raise loading_error(reading.kind, f"{type(error).__name__}: {error}", replay.operator) from error


TRANSLATED: Final = step_backend(
    MODULES, _translated, {"run": ("types", "values"), "mode": ("default", "accuracy")}, {"JAX_PLATFORMS": "cpu"}
)
