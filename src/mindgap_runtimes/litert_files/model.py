"""Reads a LiteRT model file: its tensors with their quantisation, its nodes, its inputs and outputs.

The schema, version 3, is that of the package `tflite`, and `flatbuffers` reads the tables (`mindgap[litert]`). What a
later schema adds (operators behind STABLEHLO_CBRT, types behind BFLOAT16) is refused by its number.
"""

from __future__ import annotations

import importlib
import math
import struct
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

import numpy as np

from mindgap.graph import Array, MindgapError

#: The mark of the format, behind the first offset; and the version of its schema.
_IDENTIFIER: Final = b"TFL3"
_VERSION: Final = 3
#: Elements of a tensor, at most: an interpreter counts them in 32 bits with a sign.
_ELEMENTS: Final = (1 << 31) - 1
#: Tables of options that several operators share, or that are not named after their operator.
_OPTIONS: Final = {
    "AVERAGE_POOL_2D": "Pool2DOptions", "MAX_POOL_2D": "Pool2DOptions", "L2_NORMALIZATION": "L2NormOptions",
    **dict.fromkeys(
        ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"), "ReducerOptions"
    ),
}  # fmt: skip
#: Element types that graphs do not hold.
_UNHELD_TYPES: Final = frozenset({"STRING", "RESOURCE", "VARIANT", "BFLOAT16"})


class NoTfliteModel(MindgapError):
    """A file is none of the format, is damaged, or holds what mindgap does not read. The message is one line."""


@dataclass(frozen=True)
class Quantisation:
    """An integer q stands for (q - zero point) * scale. One scale, or one for each index along `axis`."""

    scales: Array
    zeros: Array
    axis: int


@dataclass(frozen=True)
class TfliteTensor:
    """One tensor of the graph.

    name: in the file, made unique.
    dtype: of its elements in a graph: integers of 4 bits are int8.
    data: its values, if it is a constant.
    open_axes: dimensions whose size the file leaves open; `shape` has the size that it runs with unless resized.
    unheld: why graphs do not hold it, a clause; empty for a tensor that they do. One of texts has the dtype `texts`.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    quantisation: Quantisation | None
    data: Array | None
    open_axes: tuple[int, ...] = ()
    unheld: str = ""


@dataclass(frozen=True)
class Operator:
    """One node. `inputs`: numbers of tensors, -1 for an operand that is left out. `options`: its table of
    options, of a class of the package `tflite`; None if it has none or one of another operator."""

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any


@dataclass(frozen=True)
class TfliteModel:
    """The first graph of a file, which an interpreter runs. `graphs`: how many the file has."""

    tensors: tuple[TfliteTensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    graphs: int


def schema() -> Any:
    """Returns the package `tflite`. Raises `NoTfliteModel` where it is not installed."""
    try:
        return importlib.import_module("tflite")
    except ImportError as error:
        raise NoTfliteModel(f"needs the package tflite ({error}); pip install 'mindgap[litert]'") from error


@cache
def _names(enumeration: str) -> dict[int, str]:
    """The names of an enumeration of the schema, by number."""
    members = cast("dict[str, Any]", vars(getattr(schema(), enumeration)))
    return {number: name for name, number in members.items() if not name.startswith("_")}


def options_of(op: str) -> str:
    """Returns the class of an operator's table of options, "" for one that has none; a runtime reads no other table."""
    wanted = _OPTIONS.get(op, f"{op.replace('_', '')}Options").upper()
    return next((name for name in _names("BuiltinOptions").values() if name.upper() == wanted), "")


def numbers(table: Any, field: str) -> Array | None:
    """Returns the numbers of a vector, or None if it is left out or empty. `field`: as the schema's classes call it."""
    values: Array | int = getattr(table, f"{field}AsNumpy")()  # 0 where it is left out
    return None if isinstance(values, int) or not values.size else values


@contextmanager
def refusing_damage() -> Generator[None]:
    """Raises `NoTfliteModel` where an offset or a length leads out of the file: `flatbuffers` checks neither, and what
    reads there (`struct`, NumPy, its checks of numbers) raises these errors."""
    try:
        yield
    except (struct.error, TypeError, ValueError) as error:
        raise NoTfliteModel(f"damaged: {error}") from error


def read_tflite(data: bytes) -> TfliteModel:
    """Reads a model file. Raises `NoTfliteModel`."""
    if not data:
        raise NoTfliteModel("the file is empty")
    if data[4:8] != _IDENTIFIER:
        raise NoTfliteModel("no LiteRT model: its bytes 4 to 8 are not TFL3")
    root = schema().Model
    with refusing_damage():
        return _model(root.GetRootAs(data, 0), data)


def _model(root: Any, data: bytes) -> TfliteModel:
    if (version := root.Version()) != _VERSION:
        raise NoTfliteModel(f"version {version} of the format; mindgap reads {_VERSION}")
    if not root.SubgraphsLength():
        raise NoTfliteModel("it has no graph")
    graph = root.Subgraphs(0)
    codes = [_operator_name(root.OperatorCodes(i)) for i in range(root.OperatorCodesLength())]
    names: dict[str, int] = {}
    tensors = tuple(_tensor(graph.Tensors(i), i, root, data, names) for i in range(graph.TensorsLength()))
    inputs, outputs = _indices(graph, "Inputs"), _indices(graph, "Outputs")
    operators = tuple(_operator(graph.Operators(i), codes) for i in range(graph.OperatorsLength()))
    used = {*inputs, *outputs, *(i for each in operators for i in (*each.inputs, *each.outputs))}
    if used and not -1 <= min(used) <= max(used) < len(tensors):
        raise NoTfliteModel(f"damaged: a node refers to tensor {max(used)}, and there are {len(tensors)}")
    if -1 in (*inputs, *outputs, *(i for each in operators for i in each.outputs)):
        raise NoTfliteModel("damaged: an input or output refers to no tensor")
    if not operators or not outputs:
        raise NoTfliteModel("its graph has no nodes" if not operators else "its graph has no outputs")
    return TfliteModel(tensors, operators, inputs, outputs, root.SubgraphsLength())


def _operator_name(code: Any) -> str:
    """The larger of two fields counts: the first is of files from before there were 127 operators."""
    number: int = max(code.DeprecatedBuiltinCode(), code.BuiltinCode())
    name = _names("BuiltinOperator").get(number, f"operator number {number}")
    return f"custom operator {_text(code.CustomCode()) or '(no name)'}" if name == "CUSTOM" else name


def _text(given: bytes | None) -> str:
    """A text; what is no UTF-8 in it is replaced."""
    return (given or b"").decode("utf-8", "replace")


def _operator(table: Any, codes: Sequence[str]) -> Operator:
    code: int = table.OpcodeIndex()
    if code >= len(codes):
        raise NoTfliteModel(f"damaged: a node is of operator {code} of {len(codes)}")
    kind, given, options = options_of(codes[code]), table.BuiltinOptions(), None
    if kind and given is not None and _names("BuiltinOptions").get(table.BuiltinOptionsType()) == kind:
        options = getattr(schema(), kind)()
        options.Init(given.Bytes, given.Pos)
    return Operator(codes[code], _indices(table, "Inputs"), _indices(table, "Outputs"), options)


def _indices(table: Any, field: str) -> tuple[int, ...]:
    values = numbers(table, field)
    return () if values is None else tuple(int(i) for i in values)


def _tensor(table: Any, number: int, root: Any, data: bytes, names: dict[str, int]) -> TfliteTensor:
    given = _text(table.Name()) or f"tensor_{number}"
    names[given] = names.get(given, 0) + 1
    name = given if names[given] == 1 else f"{given}#{number}"
    kind: int = table.Type()
    type_name = _names("TensorType").get(kind)
    dtype = "" if type_name is None or type_name in _UNHELD_TYPES else type_name.lower()
    shape = _indices(table, "Shape")
    if unheld := _unheld(table, "" if dtype else type_name or str(kind)):
        texts = "texts" if type_name == "STRING" else ""
        return TfliteTensor(name, dtype or texts, shape, None, None, (), f"tensor {name} {unheld}")
    signature = _indices(table, "ShapeSignature")
    if any(size < 0 for size in shape) or math.prod(shape) > _ELEMENTS:
        raise NoTfliteModel(f"damaged: tensor {name} has the shape {list(shape)}")
    buffer: int = table.Buffer()
    if buffer >= root.BuffersLength():
        raise NoTfliteModel(f"damaged: tensor {name} lies in buffer {buffer} of {root.BuffersLength()}")
    raw = _bytes(root.Buffers(buffer), data)
    values = None if raw is None else _values(raw, dtype, shape, name)
    plain = "int8" if dtype == "int4" else dtype
    open_axes = tuple(axis for axis, size in enumerate(signature) if size < 0) if len(signature) == len(shape) else ()
    return TfliteTensor(name, plain, shape, _quantisation(table.Quantization(), shape, name), values, open_axes)


def _unheld(table: Any, type_name: str) -> str:
    """Why graphs do not hold a tensor; empty where they do. `type_name`: of a type that they do not."""
    if type_name:
        return f"is of type {type_name}, which graphs do not hold"
    if table.IsVariable():
        return "is a variable: it keeps a state"
    if table.Sparsity() is not None:
        return "is sparse, which graphs do not hold"
    quantisation = table.Quantization()
    return "is quantised in blocks or by a custom scheme" if quantisation and quantisation.DetailsType() else ""


def _bytes(buffer: Any, data: bytes) -> bytes | None:
    """The bytes of a buffer: in its vector, or behind the tables, in a file of more than 2 GiB."""
    start, size = buffer.Offset(), buffer.Size()
    if start > 1:
        if start + size > len(data):
            raise NoTfliteModel(f"damaged: a buffer ends at byte {start + size}, and the file has {len(data)}")
        return data[start : start + size]
    values = numbers(buffer, "Data")
    return None if values is None else values.tobytes()


def _values(raw: bytes, dtype: str, shape: tuple[int, ...], name: str) -> Array:
    count = math.prod(shape)
    wanted = (count + 1) // 2 if dtype == "int4" else count * np.dtype(dtype).itemsize
    if len(raw) != wanted:
        raise NoTfliteModel(f"damaged: tensor {name} of {dtype}{list(shape)} has {len(raw)} bytes of {wanted}")
    if dtype != "int4":
        return np.frombuffer(raw, dtype).reshape(shape)
    # The low half of a byte comes first; shifting sets the sign.
    halves = np.frombuffer(raw, np.int8)
    return np.stack([(halves << 4) >> 4, halves >> 4], -1).reshape(-1)[:count].reshape(shape)


def _quantisation(table: Any, shape: tuple[int, ...], name: str) -> Quantisation | None:
    if table is None or (scales := numbers(table, "Scale")) is None:
        return None
    zeros, axis = numbers(table, "ZeroPoint"), int(table.QuantizedDimension())
    zeros = np.zeros(scales.size, np.int64) if zeros is None else zeros
    per_axis = scales.size > 1
    fits: bool = not per_axis or (0 <= axis < len(shape) and shape[axis] == scales.size)
    if not fits or zeros.size not in (1, scales.size) or not (np.isfinite(scales) & (scales > 0)).all():
        raise NoTfliteModel(f"damaged: the scales or zero points of tensor {name} do not fit its shape {list(shape)}")
    if abs(int(np.abs(zeros).max())) > 1 << 31:
        raise NoTfliteModel(f"damaged: a zero point of tensor {name} is no integer of 32 bits")
    return Quantisation(scales.astype(np.float32), np.broadcast_to(zeros, scales.shape).astype(np.int32), axis)
