"""Reads a LiteRT model file: its tensors with their quantisation, its nodes, its inputs and outputs.

The tables, their fields and the numbers of operators and types are those of TensorFlow Lite's schema, version 3
(`tensorflow/compiler/mlir/lite/schema/schema.fbs`; compared with `ai_edge_litert.schema_py_generated` of 2.3.0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from mindgap.graph import Array, MindgapError
from mindgap.models.corpus.tflite_models.flatbuffer import DamagedFile, Table

#: The mark of the format, behind the first offset; and the version of its schema.
_IDENTIFIER: Final = b"TFL3"
_VERSION: Final = 3
#: Elements of a tensor, at most: an interpreter counts them in 32 bits with a sign.
_ELEMENTS: Final = (1 << 31) - 1
_NAMES: Final = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION
LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH
CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM
ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE
EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR
ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE
RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND
COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE
NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL
PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE
HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE
BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1
UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR
RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE
STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE
STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL
STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER
STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE
STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA
STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE
DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT
STABLEHLO_CASE
"""
#: The operators by number.
OPERATORS: Final[tuple[str, ...]] = tuple(_NAMES.split())
#: The number of an operator's table of options in the schema's union; a runtime reads no other table.
OPTIONS: Final = {
    "CONV_2D": 1, "DEPTHWISE_CONV_2D": 2, "AVERAGE_POOL_2D": 5, "MAX_POOL_2D": 5, "FULLY_CONNECTED": 8, "SOFTMAX": 9,
    "CONCATENATION": 10, "ADD": 11, "L2_NORMALIZATION": 12, "RESIZE_BILINEAR": 15, "RESHAPE": 17, "SPACE_TO_DEPTH": 19,
    "MUL": 21, "GATHER": 23, "MEAN": 27, "SUM": 27, "REDUCE_MAX": 27, "REDUCE_MIN": 27, "REDUCE_PROD": 27,
    "REDUCE_ANY": 27, "REDUCE_ALL": 27, "SUB": 28, "DIV": 29, "SQUEEZE": 30, "STRIDED_SLICE": 32, "SPLIT": 35,
    "TRANSPOSE_CONV": 49, "PACK": 59, "ONE_HOT": 61, "UNPACK": 64, "RESIZE_NEAREST_NEIGHBOR": 74, "LEAKY_RELU": 75,
    "MIRROR_PAD": 77, "DEPTH_TO_SPACE": 94, "BATCH_MATMUL": 101, "CUMSUM": 102, "GELU": 116,
}  # fmt: skip
_CUSTOM: Final = OPERATORS.index("CUSTOM")
#: Element types by number; None for one that graphs do not hold.
_TYPES: Final[tuple[str | None, ...]] = (
    "float32", "float16", "int32", "uint8", "int64", None, "bool", "int16", "complex64", "int8", "float64",
    "complex128", "uint64", None, None, "uint32", "uint16", "int4",
)  # fmt: skip
_TYPE_NAMES: Final = {
    5: "STRING", 13: "RESOURCE", 14: "VARIANT", 18: "BFLOAT16", 19: "INT2", 20: "UINT4", 21: "FLOAT8_E4M3FN",
    22: "FLOAT8_E5M2",
}  # fmt: skip


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
    options, None if it has none or one of another operator."""

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Table | None


@dataclass(frozen=True)
class TfliteModel:
    """The first graph of a file, which an interpreter runs. `graphs`: how many the file has."""

    tensors: tuple[TfliteTensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    graphs: int


def read_tflite(data: bytes) -> TfliteModel:
    """Reads a model file. Raises `NoTfliteModel`."""
    if not data:
        raise NoTfliteModel("the file is empty")
    if data[4:8] != _IDENTIFIER:
        raise NoTfliteModel("no LiteRT model: its bytes 4 to 8 are not TFL3")
    try:
        return _model(data)
    except DamagedFile as error:
        raise NoTfliteModel(f"damaged: {error}") from error


def _model(data: bytes) -> TfliteModel:
    root = Table.root(data)
    if (version := root.number(0, "I")) != _VERSION:
        raise NoTfliteModel(f"version {version} of the format; mindgap reads {_VERSION}")
    graphs = root.tables(2)
    if not graphs:
        raise NoTfliteModel("it has no graph")
    codes = [_operator_name(each) for each in root.tables(1)]
    buffers = root.tables(4)
    tables = graphs[0].tables(0)
    names: dict[str, int] = {}
    tensors = tuple(_tensor(each, number, buffers, data, names) for number, each in enumerate(tables))
    inputs, outputs = _indices(graphs[0].numbers(1)), _indices(graphs[0].numbers(2))
    operators = tuple(_operator(each, codes) for each in graphs[0].tables(3))
    used = {*inputs, *outputs, *(i for each in operators for i in (*each.inputs, *each.outputs))}
    if used and not -1 <= min(used) <= max(used) < len(tensors):
        raise NoTfliteModel(f"damaged: a node refers to tensor {max(used)}, and there are {len(tensors)}")
    if -1 in (*inputs, *outputs, *(i for each in operators for i in each.outputs)):
        raise NoTfliteModel("damaged: an input or output refers to no tensor")
    if not operators or not outputs:
        raise NoTfliteModel("its graph has no nodes" if not operators else "its graph has no outputs")
    return TfliteModel(tensors, operators, inputs, outputs, len(graphs))


def _operator_name(code: Table) -> str:
    """The larger of two fields counts: the first is of files from before there were 127 operators."""
    number: int = max(code.number(0, "b"), code.number(3, "i"))
    if number == _CUSTOM:
        return f"custom operator {code.text(1) or '(no name)'}"
    return OPERATORS[number] if 0 <= number < len(OPERATORS) else f"operator number {number}"


def _operator(table: Table, codes: Sequence[str]) -> Operator:
    code: int = table.number(0, "I")
    if code >= len(codes):
        raise NoTfliteModel(f"damaged: a node is of operator {code} of {len(codes)}")
    options = table.table(4) if table.number(3, "B") == OPTIONS.get(codes[code]) else None
    return Operator(codes[code], _indices(table.numbers(1)), _indices(table.numbers(2)), options)


def _indices(found: Array | None) -> tuple[int, ...]:
    return () if found is None else tuple(int(i) for i in found)


def _tensor(table: Table, number: int, buffers: Sequence[Table], data: bytes, names: dict[str, int]) -> TfliteTensor:
    given = table.text(3) or f"tensor_{number}"
    names[given] = names.get(given, 0) + 1
    name = given if names[given] == 1 else f"{given}#{number}"
    kind: int = table.number(1, "b")
    dtype = _TYPES[kind] if 0 <= kind < len(_TYPES) else None
    shape = _indices(table.numbers(0))
    if unheld := _unheld(table, kind, dtype is not None):
        texts = _TYPE_NAMES.get(kind) == "STRING"
        return TfliteTensor(name, dtype or ("texts" if texts else ""), shape, None, None, (), f"tensor {name} {unheld}")
    assert dtype is not None, "it is unheld otherwise"
    signature = _indices(table.numbers(7))
    if any(size < 0 for size in shape) or math.prod(shape) > _ELEMENTS:
        raise NoTfliteModel(f"damaged: tensor {name} has the shape {list(shape)}")
    buffer: int = table.number(2, "I")
    if buffer >= len(buffers):
        raise NoTfliteModel(f"damaged: tensor {name} lies in buffer {buffer} of {len(buffers)}")
    raw = _bytes(buffers[buffer], data)
    values = None if raw is None else _values(raw, dtype, shape, name)
    plain = "int8" if dtype == "int4" else dtype
    open_axes = tuple(axis for axis, size in enumerate(signature) if size < 0) if len(signature) == len(shape) else ()
    return TfliteTensor(name, plain, shape, _quantisation(table.table(4), shape, name), values, open_axes)


def _unheld(table: Table, kind: int, has_dtype: bool) -> str:
    """Why graphs do not hold a tensor; empty where they do."""
    if not has_dtype:
        return f"is of type {_TYPE_NAMES.get(kind, kind)}, which graphs do not hold"
    if table.number(5, "?", 0):
        return "is a variable: it keeps a state"
    if table.table(6) is not None:
        return "is sparse, which graphs do not hold"
    quantisation = table.table(4)
    return "is quantised in blocks or by a custom scheme" if quantisation and quantisation.number(4, "B") else ""


def _bytes(buffer: Table, data: bytes) -> bytes | None:
    """The bytes of a buffer: in its vector, or behind the tables, in a file of more than 2 GiB."""
    start, size = buffer.number(1, "Q"), buffer.number(2, "Q")
    if start > 1:
        if start + size > len(data):
            raise DamagedFile(f"a buffer ends at byte {start + size}, and the file has {len(data)}")
        return data[start : start + size]
    found = buffer.numbers(0, "B")
    return None if found is None or not found.size else found.tobytes()


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


def _quantisation(table: Table | None, shape: tuple[int, ...], name: str) -> Quantisation | None:
    scales = None if table is None else table.numbers(2, "f")
    if table is None or scales is None or not scales.size:
        return None
    zeros, axis = table.numbers(3, "q"), int(table.number(6, "i"))
    zeros = np.zeros(scales.size, np.int64) if zeros is None or not zeros.size else zeros
    per_axis = scales.size > 1
    fits: bool = not per_axis or (0 <= axis < len(shape) and shape[axis] == scales.size)
    if not fits or zeros.size not in (1, scales.size) or not (np.isfinite(scales) & (scales > 0)).all():
        raise NoTfliteModel(f"damaged: the scales or zero points of tensor {name} do not fit its shape {list(shape)}")
    if abs(int(np.abs(zeros).max())) > 1 << 31:
        raise NoTfliteModel(f"damaged: a zero point of tensor {name} is no integer of 32 bits")
    return Quantisation(scales.astype(np.float32), np.broadcast_to(zeros, scales.shape).astype(np.int32), axis)
