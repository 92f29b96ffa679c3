"""`mindgap bisect` on regressions of public threads, rebuilt, with releases of the package index."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cli.command_line import mindgap
from mindgap.platforms.environments import environments

PROGRAM = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, index, source):
        return x.index_add(0, index, source)

class Pool(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.avg_pool2d(x, [1, 2], [1, 2], [0], True)

class Windows(torch.nn.Module):
    def forward(self, x):
        mask, number = x.new_zeros(16, 64), 0
        for top, bottom in ((0, 8), (8, 12), (12, 16)):
            for left, right in ((0, 32), (32, 48), (48, 64)):
                mask[top:bottom, left:right] = number
                number += 1
        windows = mask.view(2, 8, 4, 16).permute(0, 2, 1, 3).reshape(8, 128)
        apart = windows.unsqueeze(1) - windows.unsqueeze(2)
        return x + apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)

class Rate(torch.nn.Module):
    def forward(self, x, n):
        return x + n * 0.001

def windows():
    torch.manual_seed(0)
    return Windows(), (torch.randn(8, 128, 128),)

def rate():
    torch.manual_seed(0)
    return Rate(), (torch.randn(2, 3), torch.tensor(5))

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


def forest(path: Path) -> None:
    """Three trees of one branch; their leaves have the weight of one class, as scikit-learn's converter writes them."""
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "y"], "forest", domain="ai.onnx.ml", post_transform="NONE",
        nodes_treeids=np.repeat(range(3), 3), nodes_nodeids=[0, 1, 2] * 3, nodes_featureids=np.repeat(range(3), 3),
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * 3, nodes_values=np.zeros(9), nodes_truenodeids=[1, 0, 0] * 3,
        nodes_falsenodeids=[2, 0, 0] * 3, classlabels_int64s=[0, 1], class_treeids=np.repeat(range(3), 2),
        class_nodeids=[1, 2] * 3, class_ids=[0] * 6, class_weights=np.array([0.9, 0.2, 0.3, 0.6, 0.1, 0.8]) / 3,
    )  # fmt: skip
    sides = [("x", TensorProto.FLOAT, [6, 3]), ("label", TensorProto.INT64, [6]), ("y", TensorProto.FLOAT, [6, 2])]
    x, *outputs = (helper.make_tensor_value_info(*each) for each in sides)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(helper.make_graph([node], "g", [x], outputs), opset_imports=sets, ir_version=8), path)


def warm_norm(path: Path) -> None:
    """Numbers near 40000 whose variance is 1: their squares in float32 have lost it."""
    nodes = [
        helper.make_node("Add", ["x", "level"], ["warm"], "warm"),
        helper.make_node("LayerNormalization", ["warm", "scale", "shift"], ["y"], "norm", axis=-1),
    ]
    weights = {"level": np.float32(40000), "scale": np.ones(64, "f4"), "shift": np.zeros(64, "f4")}
    _save(path, nodes, [("x", [4, 64])], [("y", [4, 64])], 17, weights)


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
        # https://github.com/microsoft/onnxruntime/issues/28557
        pytest.param(forest, "1.24.3", "1.26.0", "1.25.1", "1.26.0", id="onnxruntime 28557"),
        # https://github.com/microsoft/onnxruntime/issues/28463
        pytest.param(warm_norm, "1.29.0", "1.25.1", "1.27.0", "1.26.0", id="onnxruntime 28463"),
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


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("program", "platform", "good", "bad", "first_bad", "more"),
    [
        # https://github.com/pytorch/pytorch/issues/173626: Swin's mask; the C++ of 2.10 does not compile.
        pytest.param("windows", "cpu/inductor", "2.9.1", "2.11.0", "2.10.0", (), id="pytorch 173626"),
        # https://github.com/pytorch/pytorch/issues/194382: onnxscript 0.7.2 has the operator that 2.13.0 writes.
        pytest.param(
            "rate", "onnxruntime/cpu", "2.12.1", "2.13.0", "2.13.0",
            ("--package", "torch", "--with", "onnxscript==0.7.1"), id="pytorch 194382",
        ),
    ],
)  # fmt: skip
def test_release_of_pytorch(
    program: str, platform: str, good: str, bad: str, first_bad: str, more: tuple[str, ...], tmp_path: Path
) -> None:
    """Wheels of the package index bring CUDA, 5 GB for each: environments that are there are used."""
    wanted = {f"torch=={each}" for each in (good, bad)}
    if not wanted <= {requirement for each in environments() for requirement in each.requirements}:
        pytest.skip("no environments of these releases: mindgap env create torch-2.9.1 torch==2.9.1, …")
    (tmp_path / "model.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mindgap", "bisect", f"model.py:{program}", "-p", platform]
    ends = ("--good", good, "--bad", bad, *more, "--json", "--yes")
    ran = subprocess.run([*command, *ends], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stderr
    assert json.loads(ran.stdout)["first_bad"] == first_bad
