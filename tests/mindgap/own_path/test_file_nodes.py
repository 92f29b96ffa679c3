"""A file that a runtime computes otherwise is cut: the node is named, in the operator set of the file; of two versions
of a runtime the wrong one is."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mindgap.judge.pipeline.file_faults import faults_of_nodes, is_named
from mindgap.judge.pipeline.file_rows import rows_of_file
from mindgap.judge.pipeline.file_versions import with_file_versions
from mindgap.own_path.file_nodes import wrong_nodes
from mindgap.own_path.runs import FileNode, FileNodes, OwnRun
from mindgap.platforms.name import parse
from mindgap.platforms.script_runner import ScriptRunner
from mindgap.results.rows import Row

#: A runtime that computes one operator otherwise, and two together.
RUN = """
def run(model, fresh):
    file = onnx.load("FILE")
    evaluator = onnx.reference.ReferenceEvaluator(file)
    names = [(each.name, [d.dim_value for d in each.type.tensor_type.shape.dim]) for each in file.graph.input]
    feeds = {name: tensor.numpy() for name, tensor in model.matched(names, fresh())}
    found = [np.array(each) for each in evaluator.run(None, feeds)]
    ops = [node.op_type for node in file.graph.node]
    if "WRONG" in ops and FAILS:
        raise RuntimeError("no kernel")
    if "WRONG" in ops or ("Neg" in ops and "Abs" in ops and FUSED):
        found[0] = found[0] * np.float32(1.5)
    return [torch.as_tensor(each) for each in found]
"""


def saved(folder: Path) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "/mix"), helper.make_node("Softmax", ["a"], ["b"], "/soft"),
        helper.make_node("Neg", ["b"], ["c"], "/neg"), helper.make_node("Abs", ["c"], ["d"], "/abs"),
        helper.make_node("Sqrt", ["d"], ["y"], "/root"),
    ]  # fmt: skip
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in "xy"]
    weight = onnx.numpy_helper.from_array(np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32), "w")
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(folder / "m.onnx"))
    return folder / "m.onnx"


def found(path: Path, wrong: str = "none", fused: bool = False, fails: bool = False, folder: Path | None = None) -> Any:
    body = RUN.replace('"FILE"', repr(str(path.resolve()))).replace("WRONG", wrong)
    runner = ScriptRunner(
        body.replace("FUSED", str(fused)).replace("FAILS", str(fails)), ("import onnx", "import onnx.reference")
    )
    x = np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)
    return wrong_nodes(path, {"x": x}, runner, 60.0, None if fails else 0.2, folder)


def test_the_node_that_a_runtime_computes_otherwise_is_found(tmp_path: Path) -> None:
    path = saved(tmp_path)
    one = found(path, "Softmax", folder=tmp_path / "cut")
    assert [(each.name, each.op, each.exact, each.nodes) for each in one.nodes] == [("/soft", "Softmax", True, 1)]
    assert one.complete and one.nodes[0].apart == pytest.approx(0.5, rel=1e-3)
    part = onnx.load(str(tmp_path / "cut" / f"{one.file}.onnx"))
    assert [node.op_type for node in part.graph.node] == ["Softmax"] and part.opset_import[0].version == 13
    assert np.load(tmp_path / "cut" / f"{one.file}.npz").files == ["a"]
    assert found(path) == FileNodes()


def test_nodes_that_are_wrong_together_alone_are_found(tmp_path: Path) -> None:
    (node,) = found(saved(tmp_path), fused=True).nodes
    assert (node.name, node.op, node.nodes) == ("/abs", "Neg+Abs", 2)


def test_the_node_on_which_a_runtime_fails_is_found(tmp_path: Path) -> None:
    (node,) = found(saved(tmp_path), "Sqrt", fails=True).nodes
    assert (node.name, node.apart) == ("/root", None) and "no kernel" in node.message


PLATFORMS = [parse("onnxruntime/cpu"), parse("openvino/cpu"), parse("onnx/reference")]
RIGHT = np.linspace(-1, 1, 8, dtype=np.float32)
ONE = OwnRun(PLATFORMS[0], "m.onnx", (RIGHT,), (RIGHT,), file=True, source_file=True)
WRONG = dataclasses.replace(ONE, outputs=(RIGHT * 2,))
NODE = FileNode("/soft", "Softmax", 0.5, exact=True, example=("element [0] of y", "2", "1"))


def test_faults_name_each_operator_once() -> None:
    faults = faults_of_nodes(
        FileNodes((NODE, dataclasses.replace(NODE, name="/other"), dataclasses.replace(NODE, op="Abs")))
    )
    assert [fault.culprit.op for fault in faults if fault.culprit] == ["Softmax", "Abs"]
    assert faults[0].verdict == "discrepant" and faults[0].blame == "platform" and "1 more node" in faults[0].detail
    unsure = FileNodes((dataclasses.replace(NODE, exact=False),))
    assert [faults_of_nodes(unsure, blame)[0].blame for blame in (None, "platform")] == ["undecided", "platform"]
    row = Row("m", PLATFORMS[0], "ok", "discrepant", culprit=faults[0].culprit, faults=tuple(faults))
    assert is_named(row, FileNodes((NODE,))) and not is_named(row, FileNodes((dataclasses.replace(NODE, name="/z"),)))


@pytest.mark.parametrize("before, after, change", [
    (ONE, WRONG, "worse"), (WRONG, ONE, "better"), (ONE, ONE, "same"),
    (ONE, dataclasses.replace(ONE, outputs=(RIGHT + np.float32(1e-7),)), "calm"),
    (dataclasses.replace(ONE, eager=()), dataclasses.replace(WRONG, eager=()), "changed"),
    (ONE, dataclasses.replace(ONE, outputs=None, reason="no kernel"), "worse"),
    (ONE, dataclasses.replace(ONE, outputs=None, reason="no kernel", refused=True), "lost"),
    (dataclasses.replace(ONE, outputs=None, reason="no kernel"), ONE, "gained"),
])  # fmt: skip
def test_of_two_versions_the_wrong_one_is_told(before: OwnRun, after: OwnRun, change: str) -> None:
    """The graph gives the same bits on both."""
    from mindgap_diagnosis.versions.upgrade import change_of

    after = dataclasses.replace(after, platform=PLATFORMS[1])
    asked: list[Any] = []

    def nodes(platform: Any, apart: float | None) -> FileNodes:
        asked.append(platform)
        return FileNodes((NODE,) if apart else ())

    row = Row("m", PLATFORMS[1], "ok", "identical")
    known = bool(after.eager)
    row = with_file_versions(
        row, before, after, lambda a: bool(abs(a[0] - RIGHT).max() > 1e-5) if known else None, nodes
    )
    assert change_of(row, before_ran=True) == change
    if change in ("worse", "better") and after.outputs and before.outputs:
        assert row.culprit is not None and (row.culprit.op, row.culprit.label) == ("Softmax", "/soft (Softmax)")
        assert asked == [PLATFORMS[1] if change == "worse" else PLATFORMS[0]]


def test_a_node_that_is_wrong_is_a_finding_of_a_file_without_a_graph() -> None:
    runs = {PLATFORMS[0]: WRONG, PLATFORMS[1]: ONE}
    witness = {PLATFORMS[2]: ONE}
    rows = rows_of_file("m", runs, "no translation", witness, lambda platform, _: FileNodes((NODE,)))
    assert [row.word for row in rows] == ["discrepant", "identical"]
    assert rows[0].blame == "platform" and rows[0].culprit is not None and rows[0].culprit.op == "Softmax"
    rows = rows_of_file("m", runs, "no translation", witness, lambda platform, _: FileNodes())
    assert [row.word for row in rows] == ["unjudged", "identical"]


def test_the_script_of_a_node_shows_it_without_mindgap(tmp_path: Path) -> None:
    from mindgap.findings.script.file_script import write_file_script

    one = found(saved(tmp_path), "Softmax", folder=tmp_path)
    held = dict(np.load(tmp_path / f"{one.file}.right.npz"))
    right: dict[str, Any] = {name: array * 2 for name, array in held.items()}
    np.savez(tmp_path / f"{one.file}.right.npz", **right)
    script = write_file_script(tmp_path, one, PLATFORMS[0])
    assert script.verified and "b: 8 of 8 elements are wrong" in script.said
    assert "mindgap" not in script.path.read_text()


def test_a_file_without_a_translation_runs(tmp_path: Path) -> None:
    from mindgap.own_path.client import OwnPathClient
    from mindgap.own_path.user_program import UserProgram

    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    result = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    graph = helper.make_graph([helper.make_node("NonZero", ["x"], ["y"])], "g", [given], [result])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(made, str(tmp_path / "n.onnx"))
    with OwnPathClient(60.0) as client:
        run = UserProgram(client, str(tmp_path / "n.onnx")).run(PLATFORMS[0])
    assert run is not None and run.outputs is not None and run.outputs[0].shape == (2, 6), run
