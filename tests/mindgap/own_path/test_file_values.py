"""Inputs and outputs of model files that graphs do not hold: texts, sequences, maps, bfloat16, initializers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from cli.command_line import mindgap
from mindgap.onnx_files.cutting import cut_model
from mindgap.own_path.file_values import tensors_of

FLOAT, TEXT, NARROW, WHOLE = TensorProto.FLOAT, TensorProto.STRING, TensorProto.BFLOAT16, TensorProto.INT64
ML = "ai.onnx.ml"


def info(name: str, kind: int, shape: Any) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def saved(path: Path, nodes: Sequence[Any], inputs: Any, outputs: Any, held: Any = (), opset: int = 17) -> Path:
    stored = [
        numpy_helper.from_array(array, name) if array.size else helper.make_tensor(name, FLOAT, array.shape, [])
        for name, array in dict(held).items()
    ]
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(ML, 2)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), str(path))
    return path


def texts(path: Path) -> Path:
    """The labels of a classifier: a text becomes a number, and the text is handed on."""
    label = helper.make_node(
        "LabelEncoder", ["t"], ["n"], domain=ML, keys_strings=["red", "blue"], values_int64s=[4, 7], default_int64=-1
    )
    nodes = [label, helper.make_node("Identity", ["t"], ["same"])]
    return saved(path, nodes, [info("t", TEXT, [None, 2])], [info("n", WHOLE, None), info("same", TEXT, None)])


def maps(path: Path) -> Path:
    """The probabilities as converters of scikit-learn's classifiers write them, with labels out of order."""
    nodes = [helper.make_node("Softmax", ["x"], ["p"]),
             helper.make_node("ZipMap", ["p"], ["y"], domain=ML, classlabels_int64s=[30, 10, 20])]  # fmt: skip
    kind = helper.make_map_type_proto(WHOLE, helper.make_tensor_type_proto(FLOAT, None))
    output = helper.make_value_info("y", helper.make_sequence_type_proto(kind))
    return saved(path, nodes, [info("x", FLOAT, [2, 3])], [output])


def narrow(path: Path) -> Path:
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=FLOAT), helper.make_node("Neg", ["f"], ["g"]),
             helper.make_node("Cast", ["g"], ["y"], to=NARROW)]  # fmt: skip
    return saved(path, nodes, [info("x", NARROW, [2, 3])], [info("y", NARROW, [2, 3])])


def overridable(path: Path) -> Path:
    """Adapters of no rank, which a runtime lists among the inputs."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("MatMul", ["x", "l"], ["b"]),
             helper.make_node("MatMul", ["b", "r"], ["c"]), helper.make_node("Add", ["a", "c"], ["y"])]  # fmt: skip
    held = {"w": np.ones((4, 4), "f4"), "l": np.zeros((4, 0), "f4"), "r": np.zeros((0, 4), "f4")}
    inputs = [info("x", FLOAT, [4, 4]), info("l", FLOAT, [4, "n"]), info("r", FLOAT, ["n", 4])]
    return saved(path, nodes, inputs, [info("y", FLOAT, [4, 4])], held)


def sequence(path: Path) -> Path:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [2, 3]))
    nodes = [helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)]
    return saved(path, nodes, [helper.make_value_info("s", kind)], [info("y", FLOAT, None)])


def resized(path: Path) -> Path:
    """As converters of TensorFlow write it: asymmetric, channels last, cubic with a coefficient of -0.5."""
    held = {"large": np.array([1, 41, 30, 3]), "tall": np.array([1, 41, 37, 5])}
    placed = {"coordinate_transformation_mode": "asymmetric"}
    nodes = [helper.make_node("Resize", ["x", "", "", "large"], ["a"], mode="linear", **placed),
             helper.make_node("Resize", ["a", "", "", "tall"], ["y"], mode="cubic", cubic_coeff_a=-0.5)]  # fmt: skip
    return saved(path, nodes, [info("x", FLOAT, [1, 17, 13, 3])], [info("y", FLOAT, None)], held, opset=13)


def backwards(path: Path) -> Path:
    """The evaluator gives the sums as a view with a negative stride."""
    nodes = [helper.make_node("CumSum", ["x", "axis"], ["y"], reverse=1), helper.make_node("Unique", ["x"], ["u"])]
    return saved(path, nodes, [info("x", FLOAT, [4])], [info(n, FLOAT, None) for n in "yu"], {"axis": np.array(0)})


def chosen(path: Path) -> Path:
    """PyTorch's `nonzero` has no size before it runs; runtimes need none."""
    nodes = [helper.make_node("Greater", ["x", "zero"], ["m"]), helper.make_node("NonZero", ["m"], ["y"])]
    return saved(path, nodes, [info("x", FLOAT, [3, 4])], [info("y", WHOLE, None)], {"zero": np.float32(0)})


def test_what_runtimes_give_becomes_tensors() -> None:
    word, table, empty, first, second = tensors_of(
        [np.array([["é", "ab"]], dtype=object), [{20: 0.25, 3: 0.5}, {20: 1.0, 3: 2.0}], None, [np.ones(2), np.ones(3)]]
    )
    assert word.dtype == torch.uint8 and word.shape == (1, 2, 256)
    assert bytes(word[0, 0].tolist()).rstrip(b"\0").decode() == "é"
    assert table.tolist() == [[0.5, 0.25], [2.0, 1.0]]
    assert empty.numel() == 0 and (first.numel(), second.numel()) == (2, 3)


def test_files_with_values_that_graphs_do_not_hold_are_judged(tmp_path: Path) -> None:
    """Who is right: ONNX's reference evaluator, which each file agrees with bit for bit on ONNX Runtime; `overridable`
    has a sum of products. Of `resized`: float64, from which runtimes are off by their coordinates in float32."""
    builders = {"texts": texts, "maps": maps, "narrow": narrow, "overridable": overridable, "sequence": sequence,
                "resized": resized, "backwards": backwards, "chosen": chosen}  # fmt: skip
    files = {name: build(tmp_path / f"{name}.onnx") for name, build in builders.items()}
    platforms = ["-p", "onnxruntime/cpu", "-p", "openvino/cpu@precision=f32"]
    ran = mindgap("diff", *[str(file) for file in files.values()], *platforms, "--json", cwd=tmp_path, own_path=True)
    rows: dict[str, list[tuple[str, str | None]]] = {name: [] for name in files}
    for row in json.loads(ran.out)["rows"]:
        rows[row["model"]].append((row["status"], row["verdict"]))
    right, calm = ("ok", "identical"), (("ok", "identical"), ("ok", "rounding"))
    assert rows["texts"] == [right, ("unsupported", None)]
    assert rows["maps"][0] in calm and rows["maps"][1] == ("unsupported", None)
    assert rows["narrow"] == [right, right]
    assert rows["overridable"][0] in calm and rows["overridable"][1] in calm
    assert rows["sequence"] == [right, ("unsupported", None)]
    for name in ("resized", "backwards", "chosen"):
        assert rows[name][0] in calm and rows[name][1] in calm, (name, rows[name])
    assert ran.status == 0, ran.err


def test_a_node_that_the_evaluator_lacks_is_computed_on_its_operands(tmp_path: Path) -> None:
    """The evaluator has no DequantizeLinear of operator set 10; a runtime's own operand came before it."""
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])]  # fmt: skip
    held = {"s": np.float32(0.5), "z": np.int8(1)}
    path = saved(tmp_path / "q.onnx", nodes, [info("x", FLOAT, [3])], [info("y", FLOAT, [3])], held, opset=10)
    cut = cut_model(path, {"x": np.array([1, 2, 3], "f4")})
    assert not isinstance(cut, str)
    cut.values["q"] = np.array([5, 7, -1], np.int8)
    assert np.array_equal(cut.evaluated(1)["y"], [2.0, 3.0, -1.0])  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("labels", [["b", "a"], ["a", "b"]])
def test_columns_of_maps_are_in_the_order_of_their_labels(labels: list[str]) -> None:
    from mindgap.onnx_files.machine_learning import zip_map
    from mindgap.onnx_files.node import OnnxNode

    node = OnnxNode("ai.onnx.ml.ZipMap", {"classlabels_strings": [each.encode() for each in labels]}, {}, (True,))
    table = torch.tensor([[1.0, 2.0]])
    (expected,) = tensors_of([[dict(zip(labels, row, strict=True)) for row in table.tolist()]])
    assert torch.equal(zip_map(node, table), expected)


def test_lengths_of_sequences_are_left_out_by_the_evaluator_alone(tmp_path: Path) -> None:
    """Who is right: ONNX's specification of GRU, whose outputs behind the length of a sequence are 0, as ONNX Runtime
    and the translation give them; the evaluator's are not."""
    random = np.random.default_rng(0)
    held = {"w": random.standard_normal((1, 18, 4)), "r": random.standard_normal((1, 18, 6)), "b": np.zeros((1, 36))}
    nodes = [helper.make_node("GRU", ["x", "w", "r", "b", "n"], ["h"], hidden_size=6),
             helper.make_node("Unique", ["h"], ["y"])]  # fmt: skip
    inputs = [info("x", FLOAT, [5, 3, 4]), info("n", TensorProto.INT32, [3])]
    stored = {name: array.astype("f4") for name, array in held.items()}
    path = saved(tmp_path / "g.onnx", nodes, inputs, [info("y", FLOAT, None)], stored)
    cut = cut_model(path, {"x": random.standard_normal((5, 3, 4)).astype("f4"), "n": np.array([5, 2, 3], "i4")})
    assert not isinstance(cut, str)
    states = cut.evaluated(0)
    assert not isinstance(states, str) and not states["h"][2:, 0, 1].any() and states["h"][4, 0, 0].all()
    session = onnxruntime.InferenceSession(cut.part([0], ["h"]).SerializeToString())
    np.testing.assert_allclose(session.run(None, cut.fed([0]))[0], states["h"], 1e-5, 1e-6)


def test_probabilities_of_support_vectors_are_not_the_evaluators(tmp_path: Path) -> None:
    """Who is right: scikit-learn's `SVC.predict_proba`, from which ONNX Runtime is off by 2.5e-7 and the evaluator by
    0.06, for a file of skl2onnx with three classes."""
    machine: dict[str, Any] = {
        "classlabels_ints": [0, 1, 2], "kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0],
        "support_vectors": [0.0, 1.0, 1.0, 0.0, -1.0, -1.0], "vectors_per_class": [1, 1, 1], "rho": [0.1, -0.2, 0.3],
        "coefficients": [1.0, -0.8, 0.6, 0.7, -1.2, -0.9], "prob_a": [-1.5, -1.0, -2.0], "prob_b": [0.1, 0.2, -0.1],
    }  # fmt: skip
    node = helper.make_node("SVMClassifier", ["x"], ["label", "p"], domain=ML, **machine)
    outputs = [info("label", WHOLE, None), info("p", FLOAT, None)]
    path = saved(tmp_path / "svc.onnx", [node], [info("x", FLOAT, [2, 2])], outputs)
    given = {"x": np.array([[0.3, 0.9], [-0.5, 0.2]], "f4")}
    theirs: Any = onnx.reference.ReferenceEvaluator(str(path)).run(["p"], given)[0]
    ours: Any = onnxruntime.InferenceSession(str(path)).run(["p"], given)[0]
    assert abs(ours - theirs).max() > 0.01
    cut = cut_model(path, given)
    assert not isinstance(cut, str) and isinstance(cut.evaluated(0), str)
