"""Operators of `ai.onnx.ml`, of sequences and of repeated graphs: the translation gives what ONNX Runtime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper

from mindgap.onnx_files.translation import translated
from mindgap.sources.translated_model import MissingTranslation

Array = Any
ML = "ai.onnx.ml"
X = np.random.default_rng(0).standard_normal((12, 4)).astype(np.float32)
HOLES = np.where(X > 1, np.float32(np.nan), X)
#: Two trees: one of three leaves, one of two.
TREES = {
    "nodes_treeids": [0] * 5 + [1] * 3, "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
    "nodes_featureids": [0, 2, 0, 0, 0, 3, 0, 0], "nodes_values": [0.1, -0.2, 0, 0, 0, 0.3, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 2, 0, 0, 0, 1, 0, 0], "nodes_falsenodeids": [4, 3, 0, 0, 0, 2, 0, 0],
}  # fmt: skip
AT = {"treeids": [0, 0, 0, 1, 1], "nodeids": [2, 3, 4, 1, 2], "ids": [0, 1, 2, 2, 0], "weights": [0.5, 1, 2, 0.3, 4]}
TARGETS, CLASSES = ({f"{kind}_{name}": values for name, values in AT.items()} for kind in ("target", "class"))
COEFFICIENTS = [float(each) for each in np.random.default_rng(1).standard_normal(12)]
LINEAR = {"coefficients": COEFFICIENTS, "intercepts": [0.1, 0.2, 0.3]}
CASES: dict[str, tuple[str, dict[str, Any], list[Array], int]] = {
    "trees": ("TreeEnsembleRegressor", {**TREES, **TARGETS, "n_targets": 3}, [X], 1),
    "trees_of_doubles": ("TreeEnsembleRegressor", {**TREES, **TARGETS, "n_targets": 3}, [X.astype(np.float64)], 1),
    "trees_missing": ("TreeEnsembleRegressor", {**TREES, **TARGETS, "n_targets": 3, "aggregate_function": "AVERAGE",
        "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 1, 0, 0]}, [HOLES], 1),
    "tree_classes": ("TreeEnsembleClassifier", {**TREES, **CLASSES, "classlabels_int64s": [5, 1, 2],
        "post_transform": "SOFTMAX"}, [X], 2),
    "linear_classes": ("LinearClassifier", {**LINEAR, "classlabels_ints": [3, 4, 5], "post_transform": "LOGISTIC"},
        [X], 2),
    "linear": ("LinearRegressor", {**LINEAR, "targets": 3}, [X], 1),
    "scaler": ("Scaler", {"offset": [0.1, 0.2, 0.3, 0.4], "scale": [2.0, 1.0, 3.0, 0.5]}, [X], 1),
    **{f"normalizer_{norm}": ("Normalizer", {"norm": norm}, [X * (np.arange(12) > 0)[:, None].astype(np.float32)], 1)
       for norm in ("MAX", "L1", "L2")},
    "binarizer": ("Binarizer", {"threshold": 0.2}, [X], 1),
    "features": ("ArrayFeatureExtractor", {}, [X, np.array([[0, 3, 2]])], 1),
    "imputer": ("Imputer", {"imputed_value_floats": [3.0], "replaced_value_float": float("nan")}, [HOLES], 1),
}  # fmt: skip


def compared(nodes: list[Any], given: dict[str, Array], outputs: list[str], opset: int = 17, **more: Any) -> None:
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, results, **more), ir_version=9,
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(ML, 3)],
    )  # fmt: skip
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, given)
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in given.items()}
    program = translated(model, tensors)
    found = program(*[tensors[name] for name in program.argument_names])
    for ours, theirs in zip(found.values(), expected, strict=True):
        assert (ours.dtype, tuple(ours.shape)) == (torch.from_numpy(theirs).dtype, theirs.shape)
        np.testing.assert_allclose(ours.numpy(), theirs, 1e-5, 1e-6)


@pytest.mark.parametrize("case", CASES)
def test_machine_learning(case: str) -> None:
    op, attributes, operands, count = CASES[case]
    given = {f"i{n}": each for n, each in enumerate(operands)}
    outputs = [f"o{n}" for n in range(count)]
    compared([helper.make_node(op, [*given], outputs, domain=ML, **attributes)], given, outputs)


def test_sequences_are_resolved_before_the_program_runs() -> None:
    def known(name: str, value: int) -> Any:
        return helper.make_node("Constant", [], [name], value_int=value)

    nodes = [
        known("zero", 0), known("last", -1), known("two", 2),
        helper.make_node("SplitToSequence", ["x", "two"], ["pairs"], axis=1),
        helper.make_node("SequenceAt", ["pairs", "last"], ["tail"]),
        helper.make_node("SequenceConstruct", ["tail", "tail"], ["made"]),
        helper.make_node("Neg", ["tail"], ["minus"]),
        helper.make_node("SequenceInsert", ["made", "minus", "zero"], ["longer"]),
        helper.make_node("SequenceErase", ["longer"], ["shorter"]),
        helper.make_node("SequenceEmpty", [], ["none"]),
        helper.make_node("SequenceInsert", ["none", "x"], ["one"]),
        helper.make_node("SequenceLength", ["longer"], ["count"]),
        helper.make_node("ConcatFromSequence", ["shorter"], ["joined"], axis=1),
        helper.make_node("ConcatFromSequence", ["longer"], ["stacked"], axis=0, new_axis=1),
        helper.make_node("SplitToSequence", ["x"], ["rows"], axis=0, keepdims=0),
        helper.make_node("SequenceAt", ["rows", "two"], ["row"]),
        helper.make_node("SequenceAt", ["one", "zero"], ["same"]),
        helper.make_node("Optional", ["same"], ["maybe"]),
        helper.make_node("OptionalGetElement", ["maybe"], ["there"]),
        helper.make_node("Relu", ["there"], ["y"]),
    ]  # fmt: skip
    compared(nodes, {"x": X}, ["joined", "stacked", "row", "count", "y"])
    split = [helper.make_node("SplitToSequence", ["x"], ["s"], axis=0)]
    result = [helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)]
    graph = helper.make_graph(split, "g", [helper.make_tensor_value_info("x", 1, [12, 4])], result)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.raises(MissingTranslation, match="output s is a sequence"):
        translated(model, {"x": torch.from_numpy(X)})


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("backwards", [0, 1])
def test_a_scan_along_any_axis_and_backwards(axis: int, backwards: int) -> None:
    kind = helper.make_tensor_value_info
    size = [4, 12][axis]
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Neg", ["t"], ["r"])], "body",
        [kind("s", 1, [size]), kind("e", 1, [size])], [kind("t", 1, [size]), kind("r", 1, [size])],
    )  # fmt: skip
    scan = helper.make_node(
        "Scan", ["first", "x"], ["last", "all"], body=body, num_scan_inputs=1, scan_input_axes=[axis],
        scan_input_directions=[backwards], scan_output_axes=[1 - axis], scan_output_directions=[1 - backwards],
    )  # fmt: skip
    compared([scan], {"first": np.ones(size, np.float32), "x": X}, ["last", "all"])


def test_nearest_by_half_pixels_of_tensorflow() -> None:
    for size in ([1, 1, 20, 7], [1, 1, 5, 3]):
        sizes = helper.make_tensor("sizes", 7, [4], size)
        empty = helper.make_tensor("empty", 1, [0], [])
        node = helper.make_node(
            "Resize", ["x", "empty", "empty", "sizes"], ["y"], mode="nearest", nearest_mode="floor",
            coordinate_transformation_mode="tf_half_pixel_for_nn",
        )  # fmt: skip
        compared([node], {"x": X.reshape(1, 1, 12, 4)}, ["y"], opset=11, initializer=[sizes, empty])
