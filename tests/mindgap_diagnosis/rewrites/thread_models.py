"""ONNX models of public threads about optimisers, simplifiers and converters, written anew from their description."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_PADS = np.array([0, 0, 1, 1, 0, 0, 1, 1])


def save(
    path: Path, nodes: Sequence[onnx.NodeProto], inputs: dict[str, Sequence[int]], weights: dict[str, Any] | None = None
) -> None:
    """Writes a model from `inputs` to `y`, all float32."""
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in (weights or {}).items()]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([*nodes], "g", sides, [y], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def _scaled(path: Path, first: onnx.NodeProto) -> None:
    """A product with a reciprocal, of what a node hands on unchanged."""
    nodes = [
        first,
        helper.make_node("Div", ["one", "d"], ["r"], "reciprocal"),
        helper.make_node("Mul", ["mid", "r"], ["y"], "times"),
    ]
    save(path, nodes, {"x": [4], "d": [4]}, {"one": np.float32(1)})


def same_cast(path: Path) -> None:
    """https://github.com/microsoft/onnxruntime/issues/32416: a cast to the type that it has."""
    _scaled(path, helper.make_node("Cast", ["x"], ["mid"], "cast", to=TensorProto.FLOAT))


def idle_dropout(path: Path) -> None:
    """https://github.com/microsoft/onnxruntime/issues/32414"""
    _scaled(path, helper.make_node("Dropout", ["x"], ["mid"], "drop"))


def wide_scale(path: Path) -> None:
    """https://github.com/onnx/onnx/issues/8203: a norm of one number times a scale of two."""
    nodes = [
        helper.make_node("Pow", ["x", "two"], ["square"], "pow"),
        helper.make_node("ReduceMean", ["square"], ["mean"], "mean", axes=[-1], keepdims=1),
        helper.make_node("Add", ["mean", "eps"], ["sum"], "add"),
        helper.make_node("Sqrt", ["sum"], ["root"], "sqrt"),
        helper.make_node("Div", ["x", "root"], ["normed"], "div"),
        helper.make_node("Mul", ["normed", "scale"], ["y"], "mul"),
    ]
    save(path, nodes, {"x": [1, 1]}, {"two": np.float32(2), "eps": np.float32(1e-5), "scale": np.ones(2, "f4")})


def padded_maximum(path: Path) -> None:
    """https://github.com/onnxsim/onnxsim/issues/290: zeros before a maximum are not its padding, which is never
    largest."""
    pool = helper.make_node("MaxPool", ["a"], ["y"], "pool", kernel_shape=[3, 3], strides=[2, 2])
    save(path, [helper.make_node("Pad", ["x", "p"], ["a"], "pad"), pool], {"x": [1, 2, 7, 7]}, {"p": _PADS})


def padded_mean(path: Path) -> None:
    """https://github.com/microsoft/onnxruntime/issues/22177: zeros before a mean count, its padding does not."""
    pool = helper.make_node("AveragePool", ["a"], ["y"], "pool", kernel_shape=[3, 3], strides=[2, 2])
    save(path, [helper.make_node("Pad", ["x", "p"], ["a"], "pad"), pool], {"x": [1, 2, 7, 7]}, {"p": _PADS})


def idle_transpose(path: Path) -> None:
    """https://github.com/microsoft/onnxruntime/issues/32417: a transposition that changes nothing, before a product."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["same"], "same", perm=[0, 1]),
        helper.make_node("Gemm", ["same", "w", "b"], ["y"], "gemm"),
    ]
    weights = {"w": np.arange(20, dtype="f4").reshape(4, 5) / 8, "b": np.ones(5, "f4")}
    save(path, nodes, {"x": [3, 4]}, weights)


def norm_by_hand(path: Path) -> None:
    """https://github.com/microsoft/onnxruntime/issues/21345: squares leave the range of float16."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "up"),
        helper.make_node("Mul", ["a", "a"], ["b"], "square"),
        helper.make_node("ReduceSum", ["b"], ["c"], "sum"),
        helper.make_node("Sqrt", ["c"], ["d"], "root"),
        helper.make_node("Div", ["a", "d"], ["y"], "divide"),
    ]
    save(path, nodes, {"x": [2, 8]}, {"w": np.eye(8, dtype="f4") * 300})


def joined_head(path: Path) -> None:
    """https://github.com/microsoft/onnxruntime/issues/14233: a detector's head joins scores and pixels."""
    draw = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv"),
        helper.make_node("Sigmoid", ["a"], ["b"], "scores"),
        helper.make_node("Mul", ["b", "pixels"], ["c"], "boxes"),
        helper.make_node("Concat", ["b", "c"], ["y"], "join", axis=1),
    ]
    weights = {"w": (draw.normal(size=(4, 3, 1, 1)) * 0.3).astype("f4"), "pixels": np.float32(640)}
    save(path, nodes, {"x": [1, 3, 8, 8]}, weights)


def folded_norm(old: Path, new: Path, right: bool = True) -> None:
    """A convolution with batch normalisation, and with what it is folded into. https://github.com/onnx/optimizer/issues/255
    reports a difference of 3.8e-6; in https://github.com/onnx/onnx/issues/2677 the folded weights are wrong."""
    draw = np.random.default_rng(0)
    weights = {
        "w": (draw.normal(size=(4, 3, 3, 3)) * 0.3).astype("f4"), "scale": draw.uniform(0.5, 2, 4).astype("f4"),
        "shift": draw.normal(size=4).astype("f4"), "mean": draw.normal(size=4).astype("f4"),
        "variance": draw.uniform(0.05, 0.3, 4).astype("f4"),
    }  # fmt: skip
    norm = helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"], "norm")
    last = helper.make_node("Relu", ["n"], ["y"], "act")
    save(old, [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), norm, last], {"x": [1, 3, 8, 8]}, weights)
    deviation = weights["variance"] + np.float32(1e-5)
    factor = weights["scale"] / (np.sqrt(deviation) if right else deviation)
    bias = weights["shift"] - weights["mean"] * factor
    nodes = [helper.make_node("Conv", ["x", "folded", "bias"], ["n"], "conv"), last]
    save(new, nodes, {"x": [1, 3, 8, 8]}, {"folded": weights["w"] * factor[:, None, None, None], "bias": bias})


def single_concat(old: Path, new: Path) -> None:
    """https://github.com/onnx/optimizer/issues/252: a concatenation of one tensor is left out."""
    for path, name in ((old, "j"), (new, "e")):
        nodes = [
            helper.make_node("Exp", ["x"], ["e"], "exp"),
            helper.make_node("Concat", ["e"], ["j"], "join", axis=0),
            helper.make_node("ReduceSum", [name], ["y"], "sum", keepdims=0),
        ]
        save(path, nodes if name == "j" else [nodes[0], nodes[2]], {"x": [4, 4]})


def part_of_shape(old: Path, new: Path) -> None:
    """https://github.com/tsingmicro-toolchain/OnnxSlim/issues/38: a folded `Shape` without its attributes `start` and
    `end`."""
    shape = helper.make_node("Shape", ["x"], ["size"], "size", start=2, end=4)
    rest = [
        helper.make_node("Div", ["size", "two"], ["half"], "halve"),
        helper.make_node("Slice", ["x", "zero", "half", "axes"], ["y"], "corner"),
    ]
    held = {"two": np.int64(2), "zero": np.array([0, 0]), "axes": np.array([2, 3])}
    save(old, [shape, *rest], {"x": [1, 3, 8, 6]}, held)
    save(new, rest, {"x": [1, 3, 8, 6]}, {**held, "size": np.array([1, 3, 8, 6])})


def in_float16(old: Path, new: Path) -> None:
    """As ONNX Runtime's tool converts it, with the norm in its list: it casts between two nodes of the list too."""
    from onnxruntime.transformers.float16 import convert_float_to_float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    norm_by_hand(old)
    listed = ["square", "sum", "root"]
    model = convert_float_to_float16(onnx.load(old), keep_io_types=True, node_block_list=listed)
    OnnxModel(model).topological_sort()
    onnx.save(model, new)
