"""Converts a graph to a model of ncnn's, as ncnn's users of PyTorch do: `torch.jit.trace`, then the program pnnx."""

from __future__ import annotations

import importlib
import re
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.aten.tape import clone_strided
from mindgap.aten.tensors import input_tensors
from mindgap.graph import Graph, kind_of
from mindgap.platforms.messages import loading_error
from mindgap.platforms.protocol import Array, CompileFailure, Unsupported
from mindgap.platforms.pytorch.compilation.fx_module import foldable, to_fx
from mindgap.platforms.pytorch.compilation.torchscript_calls import without_boolean_lists
from mindgap_runtimes.ncnn import messages

#: Lines of the script that pnnx writes next to the model: how its inputs and outputs are given. Before pnnx 20261020 a
#: script removes the batch of an input by `squeeze`, and adds that of an output by `unsqueeze`.
_INPUT: Final = re.compile(
    r'ex\.input\("in(\d+)", ncnn\.Mat\(in\1(?:\.squeeze\((\d+)\))?\.numpy\(\)(?:, batch_index=(\d+))?\)\.clone\(\)\)'
)
_OUTPUT: Final = re.compile(
    r"out\.append\(torch\.from_numpy\((?:out(\d+)\.numpy\(batch_index=(\d+)\)|np\.array\(out(\d+)\))\)(?:\.unsqueeze\((\d+)\))?\)"
)
#: A line of what pnnx prints when it ends: the error of its libtorch, whose other lines are places in the source.
_ERROR: Final = re.compile(r"^\w*Error: .*", re.MULTILINE)


@dataclass(frozen=True)
class ModelPort:
    """An input or output of a model. `batch`: the tensor's dimension that is the batch; None or, as pnnx has it, 233:
    none. `indexed`: ncnn takes it by its index; versions that do not get the tensor without it."""

    name: str
    batch: int | None
    indexed: bool


@dataclass(frozen=True)
class NcnnModel:
    """A model. `param`, `weights`: the two files that pnnx writes. `fed`: the graph's input behind each of `inputs`.

    `script`, `script_weights`: the PyTorch program of what pnnx has understood, and its file of weights.
    """

    param: str
    weights: bytes
    fed: tuple[int, ...]
    inputs: tuple[ModelPort, ...]
    outputs: tuple[ModelPort, ...]
    script: str
    script_weights: bytes


def convert(graph: Graph, inputs: Sequence[Array], *, fp16: bool) -> NcnnModel:
    """Converts the graph. `fp16`: store weights in float16. Raises `Unsupported` or `CompileFailure`."""
    held = foldable(graph)
    fed = tuple(number for number in range(len(graph.inputs)) if number not in held)
    _require_matrices(graph, fed)
    with tempfile.TemporaryDirectory(prefix="mindgap-ncnn-") as name:
        folder = Path(name)
        _trace(graph, inputs, fed, folder / "model.pt")
        printed = _pnnx(graph, folder, fp16)
        refusals = messages.refusals(printed)
        if refusals:
            named = [word for word in refusals[0].split() if not word.isdecimal()]
            raise Unsupported(messages.aten_operator(graph, named), f"pnnx: {refusals[0]}")
        script = (folder / "model_ncnn.py").read_text()
        param, weights = (folder / "model.ncnn.param").read_text(), (folder / "model.ncnn.bin").read_bytes()
        understood = (folder / "model_pnnx.py").read_text(), (folder / "model.pnnx.bin").read_bytes()
    _require_layers(graph, param)
    ports, outputs = ports_of(script)
    if script.count("ex.input(") != len(ports) or len(outputs) != len(graph.outputs):
        raise CompileFailure(f"pnnx's script gives {len(outputs)} of {len(graph.outputs)} outputs, or is unknown")
    for port in ports:
        shape = graph.inputs[fed[int(port.name.removeprefix("in"))]].spec.shape
        if not port.indexed and port.batch is not None and shape[port.batch] != 1:
            raise Unsupported("model", "this version of ncnn runs batches of size 1")
    return NcnnModel(param, weights, fed, tuple(ports), tuple(outputs), *understood)


def ports_of(script: str) -> tuple[list[ModelPort], list[ModelPort]]:
    """Returns the inputs and the outputs that the script of pnnx gives, those in a form that is not known left out."""
    inputs = [_port("in", number, index, removed) for number, removed, index in _INPUT.findall(script)]
    return inputs, [_port("out", a or b, index, added) for a, index, b, added in _OUTPUT.findall(script)]


def _port(kind: str, number: str, index: str, removed: str) -> ModelPort:
    batch = index or removed
    return ModelPort(f"{kind}{number}", int(batch) if batch else None, bool(index))


def _require_matrices(graph: Graph, fed: Sequence[int]) -> None:
    """Raises `Unsupported` for what ncnn's matrices cannot hold: they have at least one dimension and element, and no
    dtypes.

    Integers and Booleans may occur within the program: pnnx folds them, or leaves the operator.
    """
    for number in fed:
        if not graph.inputs[number].spec.shape:
            raise Unsupported("model", "an ncnn matrix has a dimension at least; an input has none")
    ends = {*fed, *graph.outputs}
    made_by = {number: node.op for node, numbers in _results(graph) for number in numbers}
    for number, spec in enumerate(graph.values):
        if spec is not None and number in ends and 0 in spec.shape:
            why = f"an ncnn matrix cannot have the shape {list(spec.shape)}"
            raise Unsupported(made_by.get(number, "model"), why)
        if spec is None or spec.dtype == "float32" or (number not in ends and kind_of(spec.dtype) in ("int", "bool")):
            continue
        where = "an input" if number in ends and number < len(graph.inputs) else "a value"
        raise Unsupported(made_by.get(number, "model"), f"ncnn computes float32; {where} is {spec.dtype}")


def _results(graph: Graph) -> list[tuple[Any, range]]:
    results: list[tuple[Any, range]] = []
    first = len(graph.inputs)
    for node in graph.nodes:
        results.append((node, range(first, first + len(node.outputs))))
        first += len(node.outputs)
    return results


def _trace(graph: Graph, inputs: Sequence[Array], fed: Sequence[int], path: Path) -> None:
    jit: Any = torch.jit  # untyped in PyTorch
    tensors = input_tensors(graph, inputs)
    sample = tuple(clone_strided(tensors[number]) for number in fed)
    module = to_fx(graph, "cpu", {number: tensors[number] for number in range(len(tensors)) if number not in fed})
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jit.trace(without_boolean_lists(module).eval(), sample, check_trace=False).save(str(path))
    except Exception as error:
        raise CompileFailure(f"torch.jit.trace failed: {type(error).__name__}: {error}") from error


def _pnnx(graph: Graph, folder: Path, fp16: bool) -> str:
    """Runs pnnx on `model.pt`. Returns what it prints on standard error. It dies with the worker's process group."""
    program: str = importlib.import_module("pnnx").EXEC_PATH
    command = [program, "model.pt", f"fp16={int(fp16)}"]
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    printed = done.stderr + done.stdout
    if done.returncode == 0 and (folder / "model_ncnn.py").exists():
        return printed
    end = f"signal {signal.Signals(-done.returncode).name}" if done.returncode < 0 else f"status {done.returncode}"
    lines = _ERROR.findall(printed) or [line.strip() for line in printed.splitlines() if line.strip()] or ["no message"]
    message = f"pnnx ended with {end}: {lines[-1]}"
    raise loading_error(messages.kind_of(message), message, messages.aten_operator(graph, ()))


def _require_layers(graph: Graph, param: str) -> None:
    """Raises `Unsupported` for layers that pnnx wrote in PyTorch's names or pnnx's, and ncnn has not."""
    ncnn: Any = importlib.import_module("ncnn")
    # A magic number, the counts of layers and blobs, then one layer in each line.
    for line in param.splitlines()[2:]:
        layer, *rest = line.split()
        if ncnn.layer_to_index(layer) >= 0:
            continue
        named = messages.functions(" ".join(rest)) if layer == "pnnx.Expression" else [layer]
        detail = f" {rest[-1]}" if layer == "pnnx.Expression" else ""
        raise Unsupported(messages.aten_operator(graph, named or [layer]), f"ncnn has no layer {layer}{detail}")
