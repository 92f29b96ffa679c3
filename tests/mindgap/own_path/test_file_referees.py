"""Model files with one operator that a runtime computes wrongly, refuses, or computes in another right order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from cli.command_line import mindgap
from everyday.files import brain_floats
from mindgap.platforms.pytorch.device.availability import processor

Array = Any
MS = "com.microsoft"
ONNX, OPENVINO = "onnxruntime/cpu", "openvino/cpu@precision=f32"


def u8(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).integers(0, 256, shape).astype(np.uint8)


def saved(path: Path, op: str, domain: str, operands: list[Any], kind: int, shape: list[int], **more: Any) -> None:
    """A file of one node; its first operand is the input."""
    names = [f"i{n}" for n in range(len(operands))]
    first = np.asarray(operands[0])
    stored = [
        each if isinstance(each, onnx.TensorProto) else numpy_helper.from_array(np.asarray(each), name)
        for name, each in zip(names[1:], operands[1:], strict=True)
    ]
    given = helper.make_tensor_value_info("i0", helper.np_dtype_to_tensor_dtype(first.dtype), first.shape)
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], domain=domain, **more)], "g", [given],
        [helper.make_tensor_value_info("y", kind, shape)], stored,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)]
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=opsets), path)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    folder, f = tmp_path_factory.mktemp("files"), np.float32
    pair = [u8(16, 16), f(0.02), np.uint8(120), u8(16, 16, seed=1), f(0.03), np.uint8(5)]
    saved(folder / "mul.onnx", "QLinearMul", MS, [*pair, f(0.04), np.uint8(9)], 2, [16, 16])
    sigmoid = [u8(16, 16), f(0.05), np.uint8(120), f(1 / 256), np.uint8(0)]
    saved(folder / "sigmoid.onnx", "QLinearSigmoid", MS, sigmoid, 2, [16, 16])
    gemm = [u8(3, 16), f(0.02), np.uint8(120), u8(16, 5), f(0.01), np.uint8(128)]
    saved(folder / "gemm.onnx", "QGemm", MS, gemm, 1, [3, 5])
    scales = np.abs(np.random.default_rng(0).standard_normal(4)).astype(np.float32) + f(0.1)
    saved(folder / "order.onnx", "DequantizeLinear", "", [u8(4, 64), scales, u8(4, seed=2)], 1, [4, 64], axis=0)
    packed = [np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32), u8(8, 2, 16), scales.repeat(4)]
    sizes = {"K": 64, "N": 8, "bits": 4, "block_size": 32}
    saved(folder / "level.onnx", "MatMulNBits", MS, packed, 1, [3, 8], accuracy_level=4, **sizes)
    brain_floats(folder / "brain_floats.onnx")
    names = [each.name for each in sorted(folder.glob("*.onnx"))]
    ran = mindgap("diff", *names, "-p", ONNX, "-p", OPENVINO, "--json", cwd=folder, own_path=True)
    assert ran.status == 1
    return {(row["model"], row["platform"]): row for row in json.loads(ran.out)["rows"]}


def test_a_wrong_kernel_of_com_microsoft_is_the_runtimes(rows: dict[tuple[str, str], Any]) -> None:
    """OpenVINO's integers wrap where they are to saturate; ONNX Runtime gives those of the exact formula."""
    row = rows["mul", OPENVINO]
    assert (row["verdict"], row["blame"]) == ("discrepant", "platform"), row["detail"]
    assert "onnxruntime/cpu gives the expected ones" in row["detail"] and "QLinearMul_0" in row["detail"]
    row = rows["sigmoid", OPENVINO]
    assert row["verdict"] == "discrepant" and "as if cut off toward zero, not rounded" in row["detail"]
    for name in ("mul", "sigmoid"):
        assert rows[name, ONNX]["verdict"] in ("identical", "rounding")


def test_a_file_that_a_runtime_refuses_is_unsupported(rows: dict[tuple[str, str], Any]) -> None:
    row = rows["gemm", OPENVINO]
    assert (row["status"], row["verdict"], row["finding"]) == ("unsupported", None, False)
    assert "QGemm" in row["message"]
    assert rows["gemm", ONNX]["verdict"] in ("identical", "rounding")


def test_a_dequantisation_in_another_order_is_rounding(rows: dict[tuple[str, str], Any]) -> None:
    """OpenVINO computes `x * s - z * s`."""
    assert {rows["order", each]["verdict"] for each in (ONNX, OPENVINO)} <= {"identical", "rounding"}


def test_a_file_that_is_computed_rightly_is_no_finding_of_its_translation(rows: dict[tuple[str, str], Any]) -> None:
    """OpenVINO's PyTorch front end rounds to bfloat16 otherwise than its reader of ONNX files, which cuts bits off
    where the processor lacks AVX-512."""
    row = rows["brain_floats", OPENVINO]
    verdict = "identical" if "avx512f" in processor().flags else "rounding"
    assert (row["verdict"], row["faults"], row["blame"]) == (verdict, [], None), row["detail"]
    assert "the captured graph has findings of its own here" in row["detail"]


def test_an_accuracy_level_is_a_policy_of_the_dtype(rows: dict[tuple[str, str], Any]) -> None:
    row = rows["level", ONNX]
    assert (row["verdict"], row["blame"]) == ("reduced_precision", "platform"), row["detail"]
    assert "rounding alone with activations=float" in row["detail"]
