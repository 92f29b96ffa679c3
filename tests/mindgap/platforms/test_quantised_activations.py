"""Runtimes that quantise what they multiply by integer weights: the option that leaves it out, and what a row says."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from cli.command_line import mindgap
from judge.oracle.bench import build
from mindgap.graph.compare.culprit import DtypePolicy
from mindgap.judge.pipeline.model_files import policy_of_operands, products_with_integers
from mindgap.own_path.runs import OwnRun
from mindgap.platforms.name import parse
from mindgap.platforms.onnxruntime import backend as onnxruntime_backend
from mindgap.platforms.openvino.backend import properties
from mindgap.results.advice import advised
from mindgap.results.rows import Row
from mindgap.run.outcome import Outcome
from platforms.byte_products import ADDS_BYTE_PRODUCTS_EXACTLY

X = np.random.default_rng(1).standard_normal((8, 64)).astype(np.float32)
WEIGHT = np.random.default_rng(0).integers(0, 256, (64, 32)).astype(np.uint8)
EXACT = X.astype(float) @ ((WEIGHT.astype(float) - 128) * float(np.float32(0.013)))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file that multiplies by a dequantised weight."""
    values = {"w": WEIGHT, "scale": np.float32(0.013), "zero": np.uint8(128)}
    graph = helper.make_graph(
        [helper.make_node("DequantizeLinear", [*values], ["wd"]), helper.make_node("MatMul", ["x", "wd"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, EXACT.shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()],
    )
    path = tmp_path_factory.mktemp("file") / "weights.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), str(path))
    return path


def on_openvino(file: Path, options: dict[str, str]) -> Any:
    return openvino.compile_model(str(file), "CPU", properties({"precision": "f32", **options}))([X])[0]


def on_onnxruntime(file: Path, options: dict[str, str]) -> Any:
    settings = onnxruntime.SessionOptions()
    for name, value in onnxruntime_backend._entries(options).items():
        settings.add_session_config_entry(name, value)
    return onnxruntime.InferenceSession(str(file), settings).run(None, {"x": X})[0]


@pytest.mark.parametrize("run", [on_openvino, on_onnxruntime])
def test_with_the_option_the_products_are_exact(run: Any, file: Path) -> None:
    if run is on_openvino and not ADDS_BYTE_PRODUCTS_EXACTLY:
        pytest.skip("OpenVINO quantises operands where the processor multiplies bytes")
    largest = np.abs(EXACT).max()
    assert np.abs(run(file, {}) - EXACT).max() > 1e-3 * largest, "by default the operand is quantised"
    assert np.abs(run(file, {"activations": "float"}) - EXACT).max() < 1e-6 * largest


@pytest.mark.parametrize(("platform", "setting"), [
    ("openvino/cpu", "DYNAMIC_QUANTIZATION_GROUP_SIZE=0"),
    ("onnxruntime/cpu", "session.qdq_matmulnbits_accuracy_level=0"),
])  # fmt: skip
def test_the_policy_comes_with_the_setting_that_leaves_it_out(platform: str, setting: str) -> None:
    policy = DtypePolicy("float32", "int8", products=True)
    advice = advised(Row("m", parse(platform), "ok", "reduced_precision", {}, policy, "platform")).advice
    assert f"compare {platform}@activations=float instead" in advice and setting in advice


def _product(weight: Any) -> Any:
    """A graph that multiplies an input by a weight, converted to float32."""
    calls = [("w", "aten.to.dtype", "i1", torch.float32), ("y", "aten.matmul.default", "i0", "w")]
    graph = build([np.ones((1, 2), np.float32), weight], calls, ["y"])
    return dataclasses.replace(graph, inputs=(graph.inputs[0], dataclasses.replace(graph.inputs[1], role="buffer")))


def test_products_with_integer_weights_are_counted() -> None:
    assert products_with_integers(_product(np.ones((2, 2), np.int8))) == 1
    assert products_with_integers(_product(np.ones((2, 2), np.float64))) == 0
    fed = dataclasses.replace(_product(np.ones((2, 2), np.int8)).inputs[1], role="input")
    graph = _product(np.ones((2, 2), np.int8))
    assert products_with_integers(dataclasses.replace(graph, inputs=(graph.inputs[0], fed))) == 0, "no weight"


@pytest.mark.parametrize(
    ("runtimes", "weight", "floats", "explained"),
    [
        ([[1.0, 1.99]], np.int8, [[1.0, 2.0]], True),
        ([[1.0, 1.99]], np.float64, [[1.0, 2.0]], False),
        ([[1.0, 1.99]], np.int8, [[1.0, 1.99]], False),
        ([[1.0, 2.0]], np.int8, [[1.0, 2.0]], False),
        ([[1.0, 1.5]], np.int8, [[1.0, 2.0]], False),
        ([[1e6, -1e6]], np.int8, [[1.0, 2.0]], False),
        ([[0.0, 0.0]], np.int8, [[1.0, 2.0]], False),
        ([[np.nan, np.nan]], np.int8, [[1.0, 2.0]], False),
        ([[1.0, 2.0, 0.0]], np.int8, [[1.0, 2.0]], False),
    ],
)
def test_a_policy_of_operands_explains_what_eight_bits_do_and_no_more(
    runtimes: Any, weight: Any, floats: Any, explained: bool
) -> None:
    right = np.float32([[1.0, 2.0]])
    comparison: Any = SimpleNamespace(
        graph=_product(np.ones((2, 2), weight)),
        beyond_rounding=lambda platform, outputs: [not np.array_equal(outputs[0], right)],
        whole_reference=lambda: Outcome(parse("cpu/eager"), "", "ok", arrays=(right,)),
        context=SimpleNamespace(dtypes=lambda platform: {}),
    )
    run = OwnRun(parse("onnxruntime/cpu"), "m.onnx", (np.float32(runtimes),), (right,), file=True)
    found = policy_of_operands(comparison, run, lambda other: OwnRun(other, "m.onnx", (np.float32(floats),), file=True))
    assert (found is not None) == explained
    if found is not None:
        assert (found.verdict, found.blame) == ("reduced_precision", "platform")


@pytest.mark.parametrize("narrow", ["bfloat16", ""])
def test_a_measured_dtype_of_products_explains_a_file_that_is_right_without_it(narrow: str) -> None:
    right = np.float32([[1.0, 2.0]])
    comparison: Any = SimpleNamespace(
        graph=_product(np.ones((2, 2), np.float64)),
        beyond_rounding=lambda platform, outputs: [not np.array_equal(outputs[0], right)],
        whole_reference=lambda: Outcome(parse("cpu/eager"), "", "ok", arrays=(right,)),
        context=SimpleNamespace(dtypes=lambda platform: {"float32": {"matmul_in": narrow}}),
    )
    run = OwnRun(parse("openvino/cpu"), "m.onnx", (np.float32([[1.0, 1.99]]),), (right,), file=True)
    answers = {"openvino/cpu@precision=f32": right}
    found = policy_of_operands(comparison, run, lambda other: OwnRun(other, "m.onnx", (answers[other],), file=True))
    assert (found.culprit if found else None) == (DtypePolicy("float32", narrow, True) if narrow else None)


@pytest.mark.nightly
def test_a_file_whose_operands_are_quantised_is_of_reduced_precision(file: Path) -> None:
    platforms = ("-p", "openvino/cpu@precision=f32", "-p", "onnxruntime/cpu")
    ran = mindgap("diff", file.name, *platforms, "--json", cwd=file.parent, own_path=True)
    rows = json.loads(ran.out)["rows"]
    assert [row["verdict"] for row in rows] == ["reduced_precision"] * 2
    assert all("quantises the float operands" in row["detail"] for row in rows)
