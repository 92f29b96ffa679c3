"""A backend for the step between PyTorch and XLA's code, to find the stage of a fault.

`TRANSLATED` calls the graph's operators on torch_xla's lazy tensors, which makes a program and computes nothing. With
`run=types` its results are eager PyTorch's, in the shapes and dtypes of the lazy tensors; with `run=values` those of
StableHLO's reference interpreter for the program. jaxlib brings that interpreter, so it runs in the environment `jax`.
"""

from __future__ import annotations

import importlib
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.graph import Graph
from mindgap.platforms.environments import made_environment
from mindgap.platforms.onnx.step_backend import step_backend
from mindgap.platforms.protocol import Array, Executable, Options, RunFailure, Unsupported

_MODULES: Final = {"torch": "torch", "torch_xla": "torch_xla"}
_INTERPRETER: Final = "mindgap_runtimes.stablehlo"


class _Traced:
    """Traces the graph at each call. `values`: StableHLO's interpreter computes the results."""

    def __init__(self, graph: Graph, *, values: bool) -> None:
        from mindgap.platforms.pytorch.compilation.fx_module import to_fx

        importlib.import_module("torch_xla")  # it makes the device known to PyTorch
        self._graph, self._values = graph, values
        self._module = to_fx(graph, "xla")

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        import torch

        from mindgap.aten.tensors import input_tensors, torch_dtype_name
        from mindgap_runtimes.step_results import DeclaredResults, DeclaredType

        with torch.no_grad():
            results: Any = self._module(*(tensor.to("xla") for tensor in input_tensors(self._graph, inputs)))
        if self._values:
            return _evaluated(list(results))
        importlib.import_module("torch_xla")._XLAC._get_xla_tensors_hlo(list(results))  # lowers the lazy program
        declared = [DeclaredType(torch_dtype_name(each.dtype), tuple(each.shape)) for each in results]
        return DeclaredResults(self._graph, declared)(inputs)


def _evaluated(tensors: list[Any]) -> list[Array]:
    """The values of lazy tensors, by StableHLO's interpreter. Raises `Unsupported` where it is not there."""
    model: Any = importlib.import_module("torch_xla.core.xla_model")
    compiler: Any = importlib.import_module("torch_xla")._XLAC
    program = str(model.get_stablehlo(tensors))
    _, held = compiler._get_tensors_xla_device_data_node(tensors)
    environment = made_environment("jax")
    if environment is None:
        raise Unsupported("model", "StableHLO's interpreter runs in the environment jax: `mindgap env create jax`")
    with tempfile.TemporaryDirectory(prefix="mindgap-xla-") as name:
        folder = Path(name)
        (folder / "program.mlir").write_text(program)
        np.savez(folder / "arguments.npz", *[each.cpu().numpy() for each in held])
        command = [*environment.command(_INTERPRETER), "--environment", environment.name, name]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            raise Unsupported("model", (done.stderr.strip().splitlines() or ["StableHLO's interpreter failed"])[-1])
        results = np.load(folder / "results.npz")
        arrays = [np.array(results[key], order="C") for key in results.files]
    if len(arrays) != len(tensors):
        raise RunFailure(f"the StableHLO program gives {len(arrays)} results, not {len(tensors)}")
    return arrays


def _translated(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    return _Traced(graph, values=options["run"] == "values")


TRANSLATED: Final = step_backend(_MODULES, _translated, {"run": ("types", "values")}, {"PJRT_DEVICE": "CPU"})
