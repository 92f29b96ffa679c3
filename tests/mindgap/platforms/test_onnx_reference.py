"""ONNX's reference evaluator as a platform."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from mindgap.platforms.onnx_reference.backend import BACKEND, TABLE, OnnxReferencePlatform, read
from mindgap.platforms.onnx_reference.run import run_file
from mindgap.platforms.protocol import CompileFailure, RunFailure, Unsupported
from platforms.onnx_graphs import captured, eager, normal

onnx = pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def evaluator() -> OnnxReferencePlatform:
    return OnnxReferencePlatform(20)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.complex64])
def test_it_computes_what_eager_computes(evaluator, dtype):
    x = normal(3, 4).to(dtype)
    graph, inputs = captured(lambda x: (x + x) * x, x)
    (ours,), (theirs,) = evaluator.load(graph, inputs)(inputs), eager(graph, inputs)
    assert ours.dtype == theirs.dtype and ours.flags.c_contiguous
    np.testing.assert_array_equal(ours.astype(np.complex128), theirs.astype(np.complex128))


def test_a_layer_with_weights(evaluator):
    torch.manual_seed(0)
    graph, inputs = captured(torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.GELU()), normal(1, 2, 6, 6))
    (ours,), (theirs,) = evaluator.load(graph, inputs)(inputs), eager(graph, inputs)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_a_missing_translation_is_a_refusal_by_the_aten_operator(evaluator):
    graph, inputs = captured(torch.erfinv, normal(3))
    with pytest.raises(Unsupported) as caught:
        evaluator.load(graph, inputs)
    assert caught.value.op == "aten.erfinv.default"


def test_gradients_are_refused(evaluator):
    graph, inputs = captured(torch.sin, normal(3))
    graph = type(graph)(graph.inputs, graph.nodes, graph.outputs, (0,))
    with pytest.raises(Unsupported, match="backward"):
        evaluator.load(graph, inputs)


def test_an_invalid_model_is_the_exporters_failure(evaluator):
    # ONNX's Div takes operands of one dtype; the translation of `divide` does not convert.
    graph, inputs = captured(lambda x, n: torch.ops.aten.divide.Tensor(x, n), normal(3), torch.tensor(3))
    with pytest.raises(CompileFailure, match="the exported model is not valid ONNX"):
        evaluator.load(graph, inputs)


def test_its_errors_are_read():
    class RuntimeImplementationError(NotImplementedError):
        pass

    assert read(RuntimeImplementationError("No implementation for domain ''")).kind == "refusal"
    assert read(NotImplementedError()).kind == "refusal"
    assert read(ValueError("shapes do not match")).kind == "failure"
    assert len({row.name for row in TABLE}) == len([*TABLE])


def test_description():
    said = BACKEND.open({}).describe()
    assert json.loads(json.dumps(said)) == said and said["inference_only"] is True
    assert said["dtypes"]["float64"]["computes_in"] == "float64"
    assert said["dtypes"]["int8"]["overflow"] == "wraps"


def test_an_error_while_it_runs_is_a_failure_by_the_aten_operator(evaluator, monkeypatch):
    graph, inputs = captured(torch.sin, normal(3))
    executable = evaluator.load(graph, inputs)

    def run(names: object, feeds: object) -> None:
        raise ValueError("axes do not match")

    monkeypatch.setattr(executable._evaluator, "run", run)
    with pytest.raises(RunFailure, match="ValueError: axes do not match") as caught:
        executable(inputs)
    assert caught.value.op == "aten.sin.default"


def test_a_file_with_versions_of_operators_that_the_evaluator_lacks_is_converted(tmp_path, monkeypatch):
    """It has DequantizeLinear from operator set 19 on."""
    helper, floats = onnx.helper, [("s", np.float32([0.5, 2.0])), ("z", np.uint8([1, 3]))]
    node = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], axis=1)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [1, 2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 2])],
        [onnx.numpy_helper.from_array(array, name) for name, array in floats],
    )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "FILE")

    class Given:
        def matched(self, inputs, tensors):
            return zip([name for name, _ in inputs], tensors, strict=True)

    found = run_file(Given(), lambda: [torch.tensor([[5, 9]], dtype=torch.uint8)])
    assert found[0].tolist() == [[2.0, 12.0]]
