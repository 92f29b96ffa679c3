"""Where a flip of an ONNX file begins: operators by the exporter's names, and values after quantisation."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mindgap.graph import Graph, Labels, MindgapError, Node, Ref, TensorSpec
from mindgap.onnx_files.probing import write_probed
from mindgap.platforms.registry import canonical
from mindgap_studies.task_runs.columns import ModelForm
from mindgap_studies.task_runs.file_origin import file_origin
from mindgap_studies.task_runs.origin import _by_call

SPEC = TensorSpec((2, 4), "float32", (4, 1))


def named(*calls: tuple[str, str]) -> ModelForm:
    nodes = tuple(Node(op, (Ref(number),), (), (SPEC,)) for number, (op, _) in enumerate(calls))
    return ModelForm("", "model", Graph((), nodes, (), labels=Labels(nodes=tuple(label for _, label in calls))))


def test_calls_are_named_as_the_exporter_names_them() -> None:
    model = named(("aten.conv2d.default", "layers.0"), ("aten.relu.default", ""), ("aten.conv2d.default", "layers.2"))
    file = named(
        ("aten.conv2d.default", "node_conv2d (Conv)"), ("aten.mul.Tensor", "relu_DequantizeLinear (DequantizeLinear)"),
        ("aten.conv2d.default", "node_conv2d_1 (Conv)"), ("aten.mul.Tensor", "conv2d_1_DequantizeLinear (Dequ)"),
    )  # fmt: skip
    ours = _by_call(model, [(number, np.full(8, number)) for number in range(3)])
    theirs = _by_call(file, [(number, np.full(8, number)) for number in range(4)])
    assert [*ours] == [*theirs] == ["conv2d", "relu", "conv2d_1"]
    assert ours["conv2d_1"][0] == "aten.conv2d.default (layers.2)" and ours["relu"][0] == "aten.relu.default"
    # What is dequantised stands for the value.
    assert theirs["conv2d_1"][1][0] == 3


@pytest.fixture
def quantised(tmp_path: Path) -> Path:
    """x → Q → DQ → Relu → Q → DQ: y, and a weight that is dequantised."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["qx"], "q1"),
        helper.make_node("DequantizeLinear", ["qx", "scale", "zero"], ["dx"], "d1"),
        helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["dw"], "d2"),
        helper.make_node("Add", ["dx", "dw"], ["sum"], "add"),
        helper.make_node("QuantizeLinear", ["sum", "scale", "zero"], ["qs"], "q3"),
        helper.make_node("DequantizeLinear", ["qs", "scale", "zero"], ["y"], "d3"),
    ]
    given, result = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in "xy")
    constants = [
        onnx.numpy_helper.from_array(np.float32(0.5), "scale"), onnx.numpy_helper.from_array(np.uint8(128), "zero"),
        onnx.numpy_helper.from_array(np.full((2, 4), 130, np.uint8), "w"),
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "quantised", [given], [result], constants)
    file = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), file)
    return file


class Runs:
    """Runs the probed file on ONNX Runtime; on the other platform, the integers of node `q3` are off by `off`."""

    def __init__(self, source: str, off: int) -> None:
        self.source, self.off = source, off

    def probe(self, platform: Any, arrays: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        import onnxruntime

        with tempfile.TemporaryDirectory() as folder:
            probed = write_probed(Path(self.source), Path(folder))
            if probed is None:
                return None
            outputs = onnxruntime.InferenceSession(probed.path).run(None, {"x": arrays[0]})
        values = {node: outputs[place] for node, place in probed.nodes.items()}
        if str(platform) != "onnxruntime/cpu":
            values["q3"] = values["q3"] + np.uint8(self.off)
        return tuple(outputs[: probed.own]), values


def test_the_first_value_of_another_step_is_found(quantised: Path) -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    for off, origin, says in (
        (0, "", "no integer inside the file differs from onnxruntime/cpu's"),
        (1, "q3", "8 of 8 elements are another step than onnxruntime/cpu's, by up to 1 steps"),
    ):
        program: Any = Runs(str(quantised), off)
        found, note = file_origin(program, [x], canonical("onnxruntime/cpu@opt=off"))
        assert found == origin and says in note


def test_a_file_that_quantises_nothing_is_refused(tmp_path: Path) -> None:
    given, result = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "plain", [given], [result])
    onnx.save(helper.make_model(graph), tmp_path / "plain.onnx")
    program: Any = Runs(f"{tmp_path}/plain.onnx", 0)
    with pytest.raises(MindgapError, match="has no quantised values that can be made outputs"):
        file_origin(program, [], canonical("onnxruntime/cpu"))
