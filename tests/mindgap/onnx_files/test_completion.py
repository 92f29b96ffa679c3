"""What runtimes load is loaded: files that ONNX's checker refuses and ONNX Runtime runs are completed and translated;
drawn operands have values that their operator takes, in sizes of a bounded product."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper

from mindgap.onnx_files.completion import complaint, complete, shapes_fit
from mindgap.sources.translated_model import UntranslatedModel
from onnx_files.test_file import INT64, built, value, weight


def model(nodes: Any, inputs: Any, outputs: Any, initial: Any = (), opset: int = 13, **more: Any) -> Any:
    imports = [
        helper.make_opsetid("", opset),
        *(helper.make_opsetid(*each) for each in more.pop("domains", {}).items()),
    ]
    known = more.pop("value_info", ())
    graph = helper.make_graph(
        list(nodes), more.pop("name", "g"), list(inputs), list(outputs), list(initial), value_info=known
    )
    return helper.make_model(graph, opset_imports=more.pop("imports", imports), ir_version=more.pop("ir_version", 8))


X, Y = value("x", [2, 8]), value("y", [2, 8])
RELU = helper.make_node("Relu", ["x"], ["y"])
UNSORTED = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Add", ["x", "b"], ["a"])]
BRANCH = helper.make_graph([helper.make_node("Neg", ["late"], ["r"])], "b", [], [value("r", None)])
LOADED: dict[str, Any] = {
    "unsorted": lambda: model(UNSORTED, [X], [Y], [weight("b", 8)]),
    "unsorted by a subgraph": lambda: model(
        [
            helper.make_node("If", ["yes"], ["y"], then_branch=BRANCH, else_branch=BRANCH),
            helper.make_node("Abs", ["x"], ["late"]),
        ],
        [X], [value("y", None)], [numpy_helper.from_array(np.array(True), "yes")],
    ),
    "no import": lambda: model(
        [helper.make_node("BiasGelu", ["x", "b"], ["y"], domain="com.microsoft")], [X], [Y], [weight("b", 8)]
    ),
    "no name": lambda: model([RELU], [X], [Y], name=""),
    "untyped value": lambda: model(
        [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])], [X], [Y],
        value_info=[onnx.ValueInfoProto(name="a")],
    ),
    "untyped output": lambda: model([RELU], [X], [onnx.ValueInfoProto(name="y")]),
    "a size of -1": lambda: model([RELU], [value("x", [-1, 8])], [value("y", [-1, 8])]),
    "initializers that are no inputs": lambda: model(UNSORTED[::-1], [X], [Y], [weight("b", 8)], ir_version=3),
    "initializers that are inputs": lambda: model(UNSORTED[::-1], [X, value("b", [8])], [Y], [weight("b", 8)]),
    "two initializers of one name": lambda: model(UNSORTED[::-1], [X], [Y],
        [numpy_helper.from_array(np.zeros(8, np.float32), "b"), weight("b", 8)],
    ),
    "a scalar declared": lambda: model([RELU], [X], [value("y", [])]),
    "the domain's long name": lambda: model(
        [helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx")], [X], [Y],
        imports=[helper.make_opsetid("ai.onnx", 13)],
    ),
    "a function with a weight": lambda: model(
        [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("RMSNormalization", ["a", "b"], ["y"])], [X], [Y],
        [weight("b", 8)], opset=23, ir_version=10,
    ),
    "no inputs": lambda: model([helper.make_node("Relu", ["b"], ["y"])], [], [value("y", [8])], [weight("b", 8)]),
    "operator set 6": lambda: model([RELU], [X], [Y], opset=6),
}  # fmt: skip


@pytest.mark.parametrize("name", LOADED)
def test_what_a_session_loads_is_translated(tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(LOADED[name]().SerializeToString())
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    one = built(str(path))
    assert not isinstance(one.program, UntranslatedModel), one.program.reason
    found = one.program(*one.args)["y"].detach().numpy()
    feeds = {each.name: array.numpy() for each, array in zip(session.get_inputs(), one.args, strict=True)}
    np.testing.assert_allclose(found, session.run(None, feeds)[0], 1e-5, 1e-6)


def test_the_last_complaint_of_the_checker_is_read() -> None:
    """An output without a shape, which runtimes take, does not hide two inputs of one name."""
    for shape in (None, [2, 8]):
        invalid = model([helper.make_node("Add", ["x", "x"], ["y"])], [X, X], [value("y", shape)])
        complete(invalid)
        assert "'x' has been used as graph input names multiple times" in complaint(invalid)
    cycle = model(
        [helper.make_node("Relu", ["b"], ["a"]), helper.make_node("Neg", ["a"], ["b"])], [X], [value("b", None)]
    )
    complete(cycle)
    assert "topologically sorted" in complaint(cycle)
    large = model(UNSORTED[::-1], [X], [Y], [weight("b", 8)])
    large.graph.initializer[0].raw_data = bytes(3 << 20)
    complete(large)
    assert not complaint(large) and len(large.graph.initializer[0].raw_data) == 3 << 20


def test_an_input_without_a_shape_takes_that_of_the_tensors_given(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    nodes = [helper.make_node("MatMul", ["x", "z"], ["y"])]
    made = model(nodes, [value("x", None), value("z", None)], [value("y", None)])
    path.write_bytes(made.SerializeToString())
    x, z = np.random.default_rng(0).standard_normal((2, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "given.npz", x=x[:, :3], z=z[:3])
    one = built(f"{path}?inputs={tmp_path / 'given.npz'}")
    np.testing.assert_allclose(one.program(*one.args)["y"].numpy(), x[:, :3] @ z[:3], 1e-5)
    with pytest.raises(Exception, match=r"input x declares no shape: give inputs that have one \(--inputs FILE.npz\)"):
        built(str(path))


def test_free_sizes_have_a_bounded_product(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model([RELU], [value("x", list("abcdefghi"))], [value("y", None)]).SerializeToString())
    (x,) = built(str(path)).args
    assert math.prod(x.shape) <= 1 << 22


def single(op: str, inputs: Any, opset: int = 18, **attributes: Any) -> Any:
    names = [each.name for each in inputs]
    return model([helper.make_node(op, names, ["y"], **attributes)], inputs, [value("y", None)], opset=opset)


TAKEN = {
    "Log": lambda: single("Log", [value("x", [4, 4])]),
    "Acosh": lambda: single("Acosh", [value("x", [4, 4])]),
    "RoiAlign": lambda: single(
        "RoiAlign", [value("x", [2, 3, 16, 16]), value("rois", [5, 4]), value("batch", [5], INT64)],
        output_height=2, output_width=2, sampling_ratio=2,
    ),
    "Slice": lambda: single(
        "Slice", [value("x", [4, 6]), *(value(each, [2], INT64) for each in ("starts", "ends", "axes", "steps"))]
    ),
    "GatherND": lambda: single("GatherND", [value("x", [3, 9]), value("i", [4, 2], INT64)]),
    "ScatterElements": lambda: single(
        "ScatterElements", [value("x", [4, 4]), value("i", [2, 4], INT64), value("u", [2, 4])]
    ),
    "Unsqueeze": lambda: single("Unsqueeze", [value("x", [4, 6]), value("axes", [2], INT64)]),
    "Reshape": lambda: model(
        [helper.make_node("Reshape", ["x", "s"], ["y"])], [value("x", [2, 6]), value("s", [2], INT64)],
        [value("y", [3, 4])],
    ),
    "ReduceSum": lambda: single("ReduceSum", [value("x", [4, 6]), value("axes", [1], INT64)]),
    "Split": lambda: model(
        [helper.make_node("Split", ["x", "s"], ["y", "z"])], [value("x", [6, 2]), value("s", [2], INT64)],
        [value("y", None), value("z", None)],
    ),
    "Resize": lambda: single(
        "Resize", [value("x", [1, 2, 4, 4]), value("", None), value("scales", [4])], mode="nearest"
    ),
}  # fmt: skip


@pytest.mark.parametrize("op", TAKEN)
def test_operands_have_values_that_their_operator_takes(tmp_path: Path, op: str) -> None:
    path, made = tmp_path / "m.onnx", TAKEN[op]()
    inputs = [each for each in made.graph.input if each.name]
    del made.graph.input[:]
    made.graph.input.extend(inputs)
    path.write_bytes(made.SerializeToString())
    one = built(str(path))
    assert not isinstance(one.program, UntranslatedModel), one.program.reason
    found = one.program(*one.args)["y"].numpy()
    fixed = one.program.fixed_inputs
    given = {**fixed, **{n: t.numpy() for n, t in zip(one.program.argument_names, one.args, strict=True)}}
    expected = onnxruntime.InferenceSession(str(path)).run(None, given)[0]
    assert found.size and np.isfinite(found).all()
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


def test_sizes_of_a_file_without_a_translation_fit_by_its_shapes() -> None:
    made = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        [value("x", ["n", "k"])],
        [value("y", None)],
        [weight("w", 16, 4)],
    )

    assert [shapes_fit(made, {"x": torch.ones(2, size)}) for size in (8, 16)] == [False, True]
