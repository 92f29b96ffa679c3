"""Writes small LiteRT model files with the `flatbuffers` package, by the field numbers of TensorFlow Lite's schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import flatbuffers
import numpy as np
import tflite

from mindgap_runtimes.litert_files.model import options_of

_TYPES: Final = {"float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "string": 5, "bool": 6, "int16": 7,
                 "int8": 9, "resource": 13, "int4": 17}  # fmt: skip
_SLOTS: Final = {"b": "Int8", "B": "Uint8", "?": "Bool", "i": "Int32", "I": "Uint32", "f": "Float32"}


@dataclass(frozen=True)
class FileTensor:
    """A tensor of the file. `scale`, `zero`: a number, or one for each index along `axis`. `dtype`: that of `data`, or
    the type as the schema calls it."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    data: Any = None
    scale: Any = None
    zero: Any = 0
    axis: int = 0
    signature: tuple[int, ...] | None = None
    variable: bool = False


@dataclass(frozen=True)
class FileNode:
    """A node. `options`: (kind, value) by the number of the field; `kind` as of the module `struct`."""

    op: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    options: Mapping[int, tuple[str, Any]] = field(default_factory=dict[int, tuple[str, Any]])


def constant(name: str, data: Any, **more: Any) -> FileTensor:
    """Returns a tensor with values."""
    array = np.asarray(data)
    return FileTensor(name, array.shape, array.dtype.name, array, **more)


def model_bytes(
    tensors: Sequence[FileTensor], nodes: Sequence[FileNode], inputs: Sequence[str], outputs: Sequence[str],
    version: int = 3,
) -> bytes:  # fmt: skip
    """Returns the bytes of a file with one graph."""
    numbers = {"": -1, **{each.name: i for i, each in enumerate(tensors)}}
    ops = [*dict.fromkeys(each.op for each in nodes)]
    held = [each for each in tensors if each.data is not None]
    buffers: list[Any] = [{}, *({0: each.data.tobytes()} for each in held)]
    graph = {
        0: [_tensor(each, held.index(each) + 1 if each in held else 0) for each in tensors],
        1: _indices(inputs, numbers), 2: _indices(outputs, numbers),
        3: [
            {0: ("I", ops.index(each.op)), 1: _indices(each.inputs, numbers), 2: _indices(each.outputs, numbers),
             **({3: ("B", _kind(each.op)), 4: dict(each.options)} if each.options else {})}
            for each in nodes
        ],
    }  # fmt: skip
    builder = flatbuffers.Builder(1024)
    root = {0: ("I", version), 1: [_code(op) for op in ops], 2: [graph], 4: buffers}
    builder.Finish(_written(builder, root), b"TFL3")
    return bytes(builder.Output())


def _indices(names: Sequence[str], numbers: Mapping[str, int]) -> Any:
    return np.array([numbers[name] for name in names], np.int32)


def _kind(op: str) -> int:
    return getattr(tflite.BuiltinOptions, options_of(op))


def _code(op: str) -> dict[int, Any]:
    number: int | None = getattr(tflite.BuiltinOperator, op, None)
    if number is None:
        return {0: ("b", 32), 1: op, 3: ("i", 32)}
    return {0: ("b", min(number, 127)), 3: ("i", number)}


def _tensor(each: FileTensor, buffer: int) -> dict[int, Any]:
    found: dict[int, Any] = {
        0: np.array(each.shape, np.int32), 1: ("b", _TYPES[each.dtype]), 2: ("I", buffer), 3: each.name,
        5: ("?", each.variable),
    }  # fmt: skip
    if each.scale is not None:
        scales = np.atleast_1d(np.asarray(each.scale, np.float32))
        zeros = np.broadcast_to(np.asarray(each.zero, np.int64), scales.shape).copy()
        found[4] = {2: scales, 3: zeros, 6: ("i", each.axis)}
    if each.signature is not None:
        found[7] = np.array(each.signature, np.int32)
    return found


def _written(builder: Any, value: Any) -> int:
    """Writes what a field refers to, and returns its place."""
    if isinstance(value, str):
        return builder.CreateString(value)
    if isinstance(value, bytes):  # a tensor's values, aligned as the schema demands
        builder.StartVector(1, len(value), 16)
        builder.head -= len(value)
        builder.Bytes[builder.head : builder.head + len(value)] = value
        return builder.EndVector()
    if isinstance(value, np.ndarray):
        return builder.CreateNumpyVector(value)
    if isinstance(value, list):
        places = [_written(builder, each) for each in value]
        builder.StartVector(4, len(places), 4)
        for place in reversed(places):
            builder.PrependUOffsetTRelative(place)
        return builder.EndVector()
    places = {number: _written(builder, each) for number, each in value.items() if not isinstance(each, tuple)}
    builder.StartObject(max(value, default=-1) + 1)
    for number, each in value.items():
        if isinstance(each, tuple):
            kind, content = each
            getattr(builder, f"Prepend{_SLOTS[kind]}")(content)
            builder.Slot(number)
        else:
            builder.PrependUOffsetTRelativeSlot(number, places[number], 0)
    return builder.EndObject()
