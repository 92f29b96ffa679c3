"""Reads the parts of an ONNX model (`onnx.ModelProto`): types, names, attributes, subgraphs, stored tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.tensors import to_torch
from mindgap.sources.source import one_line
from mindgap.sources.translated_model import Untranslated

#: Names of ONNX's own domain.
_OWN: Final = ("", "ai.onnx")
#: Integers that files pack -> the dtype that holds each of them.
_NARROW: Final = {"int4": np.int8, "int2": np.int8, "uint4": np.uint8, "uint2": np.uint8}


def domain_of(part: Any) -> str:
    """Returns the domain of a node or of an imported operator set; "" for ONNX's own."""
    return "" if part.domain in _OWN else part.domain


def op_of(node: Any) -> str:
    """Returns a node's type, behind its domain where that is not ONNX's own."""
    domain = domain_of(node)
    return f"{domain}.{node.op_type}" if domain else node.op_type


def node_name(node: Any, index: int) -> str:
    """Returns the name of a node; for one without, its type and position."""
    return node.name or f"{node.op_type}_{index}"


def unique_name(name: str, taken: set[str]) -> str:
    """Returns the name, with a number behind it where it is taken, and adds it to the taken ones."""
    count, unique = 1, name
    while unique in taken:
        count, unique = count + 1, f"{name}#{count + 1}"
    taken.add(unique)
    return unique


def subgraphs(node: Any) -> Iterator[Any]:
    for one in node.attribute:
        if one.HasField("g"):
            yield one.g
        yield from one.graphs


def used_names(node: Any) -> Iterator[str]:
    """Yields the names of the values that a node uses, those in the graphs that it holds among them."""
    yield from node.input
    for graph in subgraphs(node):
        yield from (each.name for each in graph.output)
        for inner in graph.node:
            yield from used_names(inner)


def attributes_of(node: Any) -> dict[str, Any]:
    """Returns the attributes by name, tensors as tensors. Raises `Untranslated` for sparse tensors and graphs."""
    import onnx

    attributes: dict[str, Any] = {}
    for one in node.attribute:
        if one.type == onnx.AttributeProto.SPARSE_TENSOR:
            raise Untranslated(f"{node.op_type} holds a sparse tensor")
        if one.ref_attr_name or one.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
            raise Untranslated(f"{node.op_type} holds a graph of its own")
        value: Any = onnx.helper.get_attribute_value(one)
        attributes[one.name] = tensor_of(_array_of(value)) if isinstance(value, onnx.TensorProto) else value
    return attributes


def texts_of(model: Any) -> list[str]:
    """Returns the texts that attributes and initializers of the main graph hold, at most 64."""
    lists = [[*one.strings] for node in model.graph.node for one in node.attribute]
    stored = [one.t for node in model.graph.node for one in node.attribute if one.HasField("t")]
    lists += [[*tensor.string_data] for tensor in (*model.graph.initializer, *stored)]
    unique = dict.fromkeys(text.decode("utf-8", "replace") for each in lists for text in each)
    return [*unique][:64]


def _array_of(tensor: Any, folder: str = "") -> Any:
    """Returns the array of a stored tensor. Raises `Untranslated` for one whose data, type and shape do not fit."""
    from onnx import numpy_helper

    try:
        return numpy_helper.to_array(tensor, folder)
    except MemoryError:
        raise
    except Exception as error:  # any error of a library on a damaged message
        raise Untranslated(f"a stored tensor is damaged ({one_line(error)})") from error


def tensor_of(array: Any) -> torch.Tensor:
    """Returns a new tensor with the array's values. Integers of 4 and 2 bits become integers of 8. Raises
    `Untranslated` for a type that graphs do not hold."""
    array = np.asarray(array)
    narrow = _NARROW.get(array.dtype.name)
    try:
        return to_torch(array if narrow is None else array.astype(narrow)).clone()
    except (KeyError, TypeError, ValueError) as error:
        kind = "string" if array.dtype.kind in "OSU" else array.dtype
        raise Untranslated(f"a value of type {kind}, which graphs do not hold") from error


def initial_values(model: Any, folder: Path | None = None) -> dict[str, torch.Tensor]:
    """Returns the initializers by name. Those that lie in files of `folder` are mapped into memory.

    Raises `Untranslated` for a sparse one, a type that graphs do not hold, or a file that does not hold all of one.
    """
    if model.graph.sparse_initializer:
        raise Untranslated(f"initializer {model.graph.sparse_initializer[0].values.name} is sparse")
    values: dict[str, torch.Tensor] = {}
    for one in model.graph.initializer:
        try:
            values[one.name] = initial_value(one, folder)
        except Untranslated as error:
            raise Untranslated(f"initializer {one.name}: {error}") from error
    return values


def initial_value(tensor: Any, folder: Path | None = None) -> torch.Tensor:
    """Returns a stored tensor. `folder`: where it is mapped from a file, if it lies in one. Raises `Untranslated`."""
    import onnx
    from onnx import external_data_helper

    if folder is None or not external_data_helper.uses_external_data(tensor):
        return tensor_of(_array_of(tensor))
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    fields = {each.key: each.value for each in tensor.external_data}
    if dtype.name in _NARROW or dtype.name.startswith("float4") or dtype.kind not in "biufcV":
        return tensor_of(_array_of(tensor, str(folder)))  # packed
    shape, file, offset = tuple(tensor.dims), folder / fields["location"], int(fields.get("offset", 0))
    needed = math.prod(shape) * dtype.itemsize
    there = int(fields.get("length", 0)) or file.stat().st_size - offset
    if there != needed:
        raise Untranslated(f"{fields['location']} holds {there} bytes of it, and {dtype}{list(shape)} takes {needed}")
    if not needed:
        return to_torch(np.empty(shape, dtype))
    mapped = np.memmap(file, np.uint8, "c", offset, (needed,))  # written to, it is this process's own copy
    aligned = mapped if mapped.ctypes.data % dtype.itemsize == 0 else np.array(mapped)
    return to_torch(aligned.view(dtype).reshape(shape))


def constant_of(node: Any) -> torch.Tensor:
    """Returns the value of a node `Constant`. Raises `Untranslated` for a type that graphs do not hold."""
    values = list(attributes_of(node).values())
    if len(values) != 1:
        raise Untranslated(f"a constant with {len(values)} values")
    (value,) = values
    if isinstance(value, bytes) or (isinstance(value, list) and value and isinstance(value[0], bytes)):
        raise Untranslated("a value of type string, which graphs do not hold")
    return value if isinstance(value, torch.Tensor) else torch.tensor(value)


def repeated_graph(node: Any, inputs: int, outputs: int) -> Any:
    """Returns the graph that a node repeats. Raises `Untranslated` for one without so many inputs, or fewer outputs."""
    graph = next(subgraphs(node), None)
    if graph is None or len(graph.input) != inputs or len(graph.output) < outputs:
        raise Untranslated(f"it has no graph of {inputs} inputs and at least {outputs} outputs")
    return graph


def has_one_condition(graph: Any) -> bool:
    """Whether the graph of a loop computes its condition from constants, and from the condition before it, only: where
    it is true once, it is true each time."""
    made = {name: node for node in graph.node for name in node.output}
    changing = {graph.input[0].name, *(each.name for each in graph.input[2:])}
    left, seen = [graph.output[0].name], set[str]()
    while left:
        name = left.pop()
        if name in changing:
            return False
        if name in made and name not in seen:
            left += used_names(made[name])
        seen.add(name)
    return True
