"""Makes small model files of runtimes' formats, damages them, and opens them as sources: formats `onnx` and `tflite` of
`tests/fuzz/damaged_files.py`.
"""

from __future__ import annotations

import contextlib
import functools
import random
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

_NUMBERS = (0, 1, -1, 2, 3, 7, 13, 14, 127, 1 << 20, (1 << 31) - 1, -(1 << 31), 1 << 40, (1 << 63) - 1)
_FLOATS = (0.0, -1.0, 1e-30, 1e30, float("nan"), float("inf"))
_STRINGS = ("", "\0", "x", "Relu", "If", "Loop", "NoSuchOperator", "com.microsoft", "é" * 300, "../../outside", "axis")


def make_tflite(_: Path) -> bytes:
    """Integers through a convolution, a reshape, a product, a softmax and a mean."""
    from litert_files.tflite_writer import FileNode, FileTensor, constant, model_bytes

    tensors = [
        FileTensor("x", (1, 4, 4, 2), "int8", scale=0.05, zero=-3),
        constant("w", np.ones((3, 3, 3, 2), np.int8), scale=0.1),
        FileTensor("y", (1, 2, 2, 3), "int8", scale=0.4, zero=7), constant("to", np.int32([1, 12])),
        FileTensor("f", (1, 12), "int8", scale=0.4, zero=7), FileTensor("d", (1, 12)),
        constant("m", np.ones((5, 12), np.float32)), FileTensor("z", (1, 5)), FileTensor("p", (1, 5)),
        constant("axis", np.int32([1])), FileTensor("mean", (1,)),
    ]  # fmt: skip
    nodes = [
        FileNode("CONV_2D", ["x", "w"], ["y"], {0: ("b", 0), 1: ("i", 2), 2: ("i", 2), 3: ("b", 1)}),
        FileNode("RESHAPE", ["y", "to"], ["f"]), FileNode("DEQUANTIZE", ["f"], ["d"]),
        FileNode("FULLY_CONNECTED", ["d", "m"], ["z"], {0: ("b", 0)}),
        FileNode("SOFTMAX", ["z"], ["p"], {0: ("f", 1.0)}),
        FileNode("MEAN", ["p", "axis"], ["mean"], {0: ("?", False)}),
    ]  # fmt: skip
    return model_bytes(tensors, nodes, ["x"], ["p", "mean"])


def damaged_numbers(data: bytes, random_: random.Random) -> bytes:
    """Numbers of 32 bits replaced: by small ones, by others of the file, by the limits of their type."""
    found = bytearray(data)
    for _ in range(random_.randint(1, 3)):
        at, other = (4 * random_.randrange(len(found) // 4) for _ in range(2))
        limits = (0, 1, -1, 2, 7, 33, 127, 1 << 20, (1 << 31) - 1, -(1 << 31), len(found))
        near = int.from_bytes(found[at : at + 4], "little", signed=True) + random_.choice((-4, -1, 1, 4))
        number = random_.choice((random_.choice(limits), near)) & 0xFFFFFFFF
        found[at : at + 4] = found[other : other + 4] if random_.random() < 0.3 else number.to_bytes(4, "little")
    return bytes(found)


def make_onnx(_: Path) -> bytes:
    """Integers dequantised, a convolution, a branch, a loop, a scan, a reshape, a product, a softmax and a mean; the
    size of the batch is a symbol."""
    import onnx
    from onnx import TensorProto as Type, helper, numpy_helper

    def weight(name: str, array: Any) -> Any:
        return numpy_helper.from_array(np.asarray(array), name)

    def value(name: str, kind: Any, shape: Any = None) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    def branch(op: str) -> Any:
        return helper.make_graph([helper.make_node(op, ["y"], [op])], op, [], [value(op, Type.FLOAT)])

    again = helper.make_graph(
        [helper.make_node("Identity", ["going"], ["still"]), helper.make_node("Neg", ["state"], ["next"])], "again",
        [value("turn", Type.INT64, []), value("going", Type.BOOL, []), value("state", Type.FLOAT)],
        [value("still", Type.BOOL, []), value("next", Type.FLOAT)],
    )  # fmt: skip
    each = helper.make_graph(
        [helper.make_node("Add", ["sum", "row"], ["more"]), helper.make_node("Abs", ["row"], ["one"])], "each",
        [value("sum", Type.FLOAT), value("row", Type.FLOAT)], [value("more", Type.FLOAT), value("one", Type.FLOAT)],
    )  # fmt: skip

    weights = [
        weight("scale", np.float32(0.05)), weight("zero", np.int8(-3)), weight("w", np.ones((3, 2, 3, 3), np.float32)),
        weight("yes", np.bool_(True)), weight("to", np.int64([0, -1])), weight("m", np.ones((12, 5), np.float32)),
        weight("c", np.zeros(5, np.float32)), weight("axes", np.int64([1])), weight("turns", np.int64(2)),
        weight("zeros", np.zeros(2, np.float32)), weight("none", np.zeros((2, 2), np.float32)),
    ]  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["d"]),
        helper.make_node("Conv", ["d", "w"], ["y"], strides=[2, 2], pads=[1, 1, 1, 1], auto_pad="NOTSET"),
        helper.make_node("If", ["yes"], ["i"], then_branch=branch("Relu"), else_branch=branch("Tanh")),
        helper.make_node("Loop", ["turns", "yes", "i"], ["l"], body=again),
        helper.make_node("Scan", ["zeros", "none"], ["unused", "rows"], body=each, num_scan_inputs=1),
        helper.make_node("Reshape", ["l", "to"], ["f"]),
        helper.make_node("Gemm", ["f", "m", "c"], ["z"], alpha=0.5),
        helper.make_node("Softmax", ["z"], ["p"], axis=-1),
        helper.make_node("ReduceMean", ["p", "axes"], ["mean"], keepdims=0),
    ]
    inputs = [value("x", Type.INT8, ["batch", 2, 4, 4])]
    outputs = [value("p", Type.FLOAT, ["batch", 5]), value("mean", Type.FLOAT, ["batch"])]
    graph = helper.make_graph(nodes, "small", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def damaged_message(data: bytes, random_: random.Random) -> bytes:
    """Fields of the message replaced, removed, doubled, or given another's value."""
    import onnx

    model = onnx.load_from_string(data)
    for _ in range(random_.randint(1, 3)):
        places = list(_fields(model))
        holder, field = random_.choice(places)
        alike = [getattr(other, each.name) for other, each in places if each.full_name == field.full_name]
        match random_.randrange(3):
            case 0:
                holder.ClearField(field.name)
            case 1 if field.is_repeated and len(there := getattr(holder, field.name)):
                _change_repeated(there, field, random_)
            case _ if field.is_repeated or field.message_type is not None:
                _copy_from(holder, field, random_.choice(alike))
            case _:
                _set(functools.partial(setattr, holder, field.name), field, random_)
    return bytes(model.SerializeToString())


def _fields(message: Any) -> Iterator[tuple[Any, Any]]:
    """Yields each set field of a message and of those inside, with the message that holds it."""
    for field, value in message.ListFields():
        yield message, field
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from _fields(inner)


def _set(put: Callable[[Any], None], field: Any, random_: random.Random) -> None:
    kinds = {field.CPPTYPE_STRING: _STRINGS, field.CPPTYPE_FLOAT: _FLOATS, field.CPPTYPE_DOUBLE: _FLOATS}
    value = random_.choice(kinds.get(field.cpp_type, _NUMBERS))
    if field.type == field.TYPE_BYTES:
        value = random_.randbytes(random_.choice((0, 1, 4, 7, 48)))
    with contextlib.suppress(ValueError):  # the field has no such number
        put(value)


def _change_repeated(there: Any, field: Any, random_: random.Random) -> None:
    at = random_.randrange(len(there))
    match random_.randrange(3):
        case 0:
            del there[at]
        case 1:
            there.extend([there[at]])
        case _ if field.message_type is None:
            _set(lambda value: there.__setitem__(at, value), field, random_)
        case _:
            kept = [type(each).FromString(each.SerializeToString()) for each in there]
            random_.shuffle(kept)
            del there[:]
            there.extend(kept)


def _copy_from(holder: Any, field: Any, other: Any) -> None:
    if field.is_repeated:
        values = list(other)
        if field.message_type is not None:
            values = [type(each).FromString(each.SerializeToString()) for each in values]
        holder.ClearField(field.name)
        getattr(holder, field.name).extend(values)
    else:
        data = other.SerializeToString()
        getattr(holder, field.name).ParseFromString(data)


def open_model(suffix: str) -> Callable[[Path], object]:
    """Returns what opens a file as a source and builds its program; a translation is not compared with another
    implementation."""

    def read(folder: Path) -> object:
        from mindgap.sources import open_source
        from mindgap.sources.translated_model import checked_before

        path = folder / f"file{suffix}"
        shutil.move(folder / "file", path)
        with checked_before(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return open_source(str(path))[0].make()

    return read
