"""`mindgap bisect` on regressions of public threads, rebuilt, with releases of the package index."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cli.command_line import mindgap

PROGRAM = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, index, source):
        return x.index_add(0, index, source)

class Pool(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.avg_pool2d(x, [1, 2], [1, 2], [0], True)

def pool():
    return Pool(), (torch.ones(80, 1, 1),)

def index_add():
    return Model(), (torch.zeros(4, 3), torch.tensor([0, 2]), torch.ones(2, 3))
"""


def _save(path: Path, nodes: list, inputs: list, outputs: list, operator_set: int, weights: dict | None = None) -> None:
    sides = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in e] for e in (inputs, outputs)]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in (weights or {}).items()]
    model = helper.make_model(
        helper.make_graph(nodes, "g", *sides, tensors), opset_imports=[helper.make_opsetid("", operator_set)]
    )
    model.ir_version = 10
    onnx.save(model, path)


def quantised_convolution(path: Path) -> None:
    """Input and weights quantised, the bias in float32: ONNX Runtime 1.21.0 quantises the bias too."""
    draw = np.random.default_rng(0)
    weight, bias = (draw.normal(size=(8, 4, 3, 3)) * 0.2).astype("f4"), draw.normal(size=8).astype("f4")
    scale = (np.abs(weight).reshape(8, -1).max(1) / 127).astype("f4")
    weights = {
        "sx": np.float32(0.03), "zx": np.int8(0), "sw": scale, "zw": np.zeros(8, "i1"), "b": bias,
        "wq": np.rint(weight / scale[:, None, None, None]).astype("i1"),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zx"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "sx", "zx"], ["xd"]),
        helper.make_node("DequantizeLinear", ["wq", "sw", "zw"], ["wd"], axis=0),
        helper.make_node("Conv", ["xd", "wd", "b"], ["y"], "conv", pads=[1, 1, 1, 1]),
    ]
    _save(path, nodes, [("x", [1, 4, 8, 8])], [("y", [1, 8, 8, 8])], 17, weights)


def causal_attention(path: Path) -> None:
    """One query, five keys, is_causal=1: the standard masks from the upper left."""
    inputs = [("q", [1, 2, 1, 8]), ("k", [1, 2, 5, 8]), ("v", [1, 2, 5, 8])]
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], "decode_step", is_causal=1)
    _save(path, [node], inputs, [("y", [1, 2, 1, 8])], 23)


def padded_pool(path: Path) -> None:
    """Padding at the end only, count_include_pad=1."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "act"),
        helper.make_node(
            "AveragePool", ["r"], ["y"], "pool", kernel_shape=[2, 2], strides=[1, 1], pads=[0, 0, 1, 1],
            count_include_pad=1,
        ),
    ]  # fmt: skip
    _save(path, nodes, [("x", [1, 3, 6, 6])], [("y", [1, 3, 6, 6])], 22)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("make", "good", "bad", "last_good", "first_bad"),
    [
        # https://github.com/microsoft/onnxruntime/issues/24398: right in 1.20.2, which the index has for GPUs only.
        pytest.param(quantised_convolution, "1.20.1", "1.21.1", "1.20.1", "1.21.0", id="onnxruntime 24398"),
        # https://github.com/microsoft/onnxruntime/issues/29020
        pytest.param(causal_attention, "1.28.0", "1.26.0", "1.28.0", "1.27.0", id="onnxruntime 29020"),
        # https://github.com/microsoft/onnxruntime/pull/27375
        pytest.param(padded_pool, "1.25.1", "1.24.3", "1.25.0", "1.24.4", id="onnxruntime 27375"),
    ],
)
def test_release_of_onnxruntime(
    make: Callable[[Path], None], good: str, bad: str, last_good: str, first_bad: str, tmp_path: Path
) -> None:
    make(tmp_path / "model.onnx")
    ran = mindgap("bisect", "model.onnx", "-p", "onnxruntime/cpu", "--good", good, "--bad", bad, "--json", cwd=tmp_path)
    assert ran.status == (1 if good < bad else 0), ran.err
    named = json.loads(ran.out)
    assert (named["last_good"], named["first_bad"]) == (last_good, first_bad)


@pytest.mark.nightly
def test_release_of_onnxruntime_for_a_program(tmp_path: Path) -> None:
    """docs/upgrades/avg_pool2d_onnxruntime_1_28.py."""
    (tmp_path / "model.py").write_text(PROGRAM)
    ran = mindgap(
        "bisect",
        "model.py:pool",
        "-p",
        "onnxruntime/cpu",
        "--good",
        "1.24.4",
        "--bad",
        "1.25.1",
        "--json",
        cwd=tmp_path,
    )
    assert ran.status == 1, ran.err
    named = json.loads(ran.out)
    assert (named["last_good"], named["first_bad"]) == ("1.24.4", "1.25.0")


@pytest.mark.nightly
def test_release_of_openvino(tmp_path: Path) -> None:
    """docs/upgrades/index_add_openvino_2026.py."""
    (tmp_path / "model.py").write_text(PROGRAM)
    ran = mindgap(
        "bisect", "model.py:index_add", "-p", "openvino/cpu", "--good", "2025.4.1", "--bad", "2026.1.0", "--json",
        cwd=tmp_path,
    )  # fmt: skip
    assert ran.status == 1, ran.err
    named = json.loads(ran.out)
    assert (named["last_good"], named["first_bad"]) == ("2026.0.0", "2026.1.0")
    assert named["tried"][-1]["word"] == "failed"
