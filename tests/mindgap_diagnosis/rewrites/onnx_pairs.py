"""A small ONNX model, and rewrites of it by real tools."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def write_model(path: Path, epsilon: float = 1e-5) -> None:
    """Convolution, batch normalisation, ReLU, a product with a constant that is computed from constants."""
    draw = np.random.default_rng(0)
    weights = {
        "w": draw.normal(size=(4, 3, 3, 3)) * 0.3, "scale": draw.uniform(0.5, 2, 4), "shift": draw.normal(size=4),
        "mean": draw.normal(size=4), "var": draw.uniform(0.01, 0.1, 4), "half": np.array([0.5]), "two": np.array([2.0]),
    }  # fmt: skip
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["c"], "conv"),
        node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["b"], "norm", epsilon=epsilon),
        node("Relu", ["b"], ["r"], "act"),
        node("Mul", ["half", "two"], ["one"], "constant"),
        node("Mul", ["r", "one"], ["y"], "scaled"),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 3, 6, 6]), ("y", [1, 4, 4, 4]))
    )
    tensors = [numpy_helper.from_array(np.asarray(value, "f4"), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def optimise(path: Path, target: Path) -> None:
    """What ONNX Runtime's session saves."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
