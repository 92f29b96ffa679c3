"""Backends for the steps between PyTorch and ncnn, to find the stage of a fault.

`TRANSLATED` converts the graph with pnnx and does not load the model; its results are eager PyTorch's. `UNDERSTOOD`
runs the PyTorch program that pnnx writes next to the model, of what it has understood, in eager PyTorch.
"""

from __future__ import annotations

import contextlib
import importlib.util
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from mindgap.graph import Graph
from mindgap.platforms.onnx.step_backend import step_backend
from mindgap.platforms.protocol import Array, CompileFailure, Executable, Options
from mindgap_runtimes.ncnn.backend import MODULES
from mindgap_runtimes.ncnn.conversion import NcnnModel, convert

_CHOICES: Final = {"precision": ("default", "f32")}


def _converted(graph: Graph, inputs: Sequence[Array], options: Options) -> NcnnModel:
    return convert(graph, inputs, fp16=options["precision"] == "default")


def _translated(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    from mindgap_runtimes.step_results import DeclaredResults

    _converted(graph, inputs, options)
    return DeclaredResults(graph)


def _understood(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    from mindgap_runtimes.step_results import TorchResults

    converted = _converted(graph, inputs, options)
    fed = sorted(int(port.name.removeprefix("in")) for port in converted.inputs)
    return TorchResults(graph, _module(converted), [converted.fed[number] for number in fed])


def _module(converted: NcnnModel) -> Any:
    """The model of pnnx's PyTorch script, in eval mode, with its weights."""
    with tempfile.TemporaryDirectory(prefix="mindgap-ncnn-") as name:
        script = Path(name, "model_pnnx.py")
        script.write_text(converted.script)
        Path(name, "model.pnnx.bin").write_bytes(converted.script_weights)
        spec = importlib.util.spec_from_file_location("model_pnnx", script)
        if spec is None or spec.loader is None:
            raise CompileFailure("pnnx's PyTorch script cannot be imported")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
            with contextlib.chdir(name):
                return module.Model().float().eval()
        except Exception as error:
            raise CompileFailure(f"pnnx's PyTorch script fails: {type(error).__name__}: {error}") from error


TRANSLATED: Final = step_backend(MODULES, _translated, _CHOICES)
UNDERSTOOD: Final = step_backend(MODULES, _understood, _CHOICES)
