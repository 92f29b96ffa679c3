"""Writes a quantised ONNX model with its integers as further outputs, so that a run shows each of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from mindgap.onnx_files.file import load_model
from mindgap.onnx_files.model_proto import node_name, unique_name
from mindgap.sources.source import SourceError, one_line
from mindgap.sources.translated_model import ProbedModel

#: The element type uint8 (`onnx.TensorProto`), of which a result is without a zero point.
_UINT8: Final = 2
#: Where operators whose result is quantised have its zero point, of their inputs: those of ONNX, and of `com.microsoft`
#: (ONNX Runtime's `quantization_defs.cc`).
_ZERO_POINTS: Final = {
    "QuantizeLinear": 2, "QLinearConv": 7, "QLinearMatMul": 7, "QLinearAdd": 7, "QLinearMul": 7, "QGemm": 8,
    "QLinearConcat": 1, "QLinearSigmoid": 4, "QLinearLeakyRelu": 4, "QLinearAveragePool": 4,
    "QLinearGlobalAveragePool": 4, "QLinearReduceMean": 4, "QLinearSoftmax": 4,
}  # fmt: skip


def write_probed(path: Path, folder: Path) -> ProbedModel | None:
    """Writes the model of `path` into `folder` with each quantised result, as of `QuantizeLinear`, as an output.

    Its functions are written out. None for a model without such a node. Raises `SourceError` for a file that is
    damaged, and one that cannot be written (a full disk).
    """
    import onnx as library
    from google.protobuf.message import EncodeError
    from onnx import inliner

    onnx: Any = library  # typed in parts
    model = load_model(path)
    if model.functions:
        model = inliner.inline_local_functions(model)
    shown = {value.name: place for place, value in enumerate(model.graph.output)}
    inputs = {value.name for value in model.graph.input} - {each.name for each in model.graph.initializer}
    dependent = _dependent(model.graph.node, inputs)
    types = _types(model.graph)
    places: dict[str, int] = {}
    own = len(shown)
    for name, node in zip(_names(model.graph.node), model.graph.node, strict=True):
        made = node.output[0]
        place = _ZERO_POINTS.get(node.op_type)
        if place is None or made not in dependent or (node.op_type == "QGemm" and len(node.input) <= place):
            continue
        places[name] = shown.setdefault(made, len(shown))
        if places[name] < own:
            continue
        zero = types.get(node.input[place]) if len(node.input) > place else None
        kind = zero or next((each.i for each in node.attribute if each.name == "output_dtype" and each.i), _UINT8)
        model.graph.output.append(onnx.helper.make_tensor_value_info(made, kind, None))
    if not places:
        return None
    target = folder / path.name
    try:
        onnx.save(model, str(target))
        for location in _locations(model.graph):
            (folder / location).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path.resolve().parent / location, folder / location)
    except (OSError, ValueError, EncodeError) as error:
        raise SourceError(f"{path}: it cannot be written with its integers as outputs: {one_line(error)}") from error
    return ProbedModel(target, places, own, len(shown))


def _locations(graph: Any) -> set[str]:
    """The files in which initializers lie."""
    return {each.value for one in graph.initializer for each in one.external_data if each.key == "location"}


def _names(nodes: Iterable[Any]) -> Iterator[str]:
    """Yields the names of a graph's nodes as captured graphs have them."""
    taken = set[str]()
    for index, node in enumerate(nodes):
        yield unique_name(node_name(node, index), taken)


def _dependent(nodes: Iterable[Any], inputs: set[str]) -> set[str]:
    """The values that depend on an input."""
    names = set(inputs)
    for node in nodes:
        if any(name in names for name in node.input):
            names.update(node.output)
    return names


def _types(graph: Any) -> dict[str, int]:
    """The element types of stored tensors, by name."""
    types = {each.name: each.data_type for each in graph.initializer}
    for node in graph.node:
        value = next((each.t for each in node.attribute if each.name == "value"), None)
        if node.op_type == "Constant" and value is not None:
            types[node.output[0]] = value.data_type
    return types
