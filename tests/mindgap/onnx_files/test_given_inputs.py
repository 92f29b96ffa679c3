"""A model file is translated for the inputs that are given: their sizes and values decide its graph."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from litert_files.tflite_writer import FileNode, FileTensor, constant, model_bytes
from mindgap.graph_capture.errors import UnprovenCapture
from mindgap.sources import Program, SourceError, capture_program, open_source
from mindgap.sources.translated_model import checked_before
from onnx_files.test_file import INT64, built, saved, value


def drawn(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.fixture
def flattened(tmp_path: Path) -> Path:
    """`x` of [batch, seq, 4] as [batch, seq · 4], by its shape."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "first"], ["b"]),
        helper.make_node("Concat", ["b", "rest"], ["to"], axis=0), helper.make_node("Reshape", ["x", "to"], ["y"]),
    ]  # fmt: skip
    initial = [numpy_helper.from_array(np.array([each]), name) for name, each in (("first", 0), ("rest", -1))]
    return saved(tmp_path / "m.onnx", nodes, [value("x", ["batch", "seq", 4])], [value("y", None)], initial)


def test_sizes_of_a_file_of_inputs_decide_the_graph(flattened: Path) -> None:
    for number, sizes in enumerate([(3, 7, 4), (2, 5, 4)]):
        np.savez(flattened.with_name(f"{number}.npz"), x=drawn(*sizes))
    names = ",".join(str(flattened.with_name(f"{number}.npz")) for number in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnprovenCapture)  # no size is chosen
        graphs = [capture_program(one) for one in open_source(f"{flattened}?inputs={names}")]  # type: ignore[arg-type]
    assert [graph.values[graph.outputs[0]].shape for graph in graphs] == [(3, 28), (2, 20)]  # type: ignore[union-attr]


def test_a_batch_of_so_many_examples_decides_the_graph(flattened: Path) -> None:
    np.savez(flattened.with_name("x.npz"), x=drawn(3, 7, 4))
    one = built(f"{flattened}?inputs={flattened.with_name('x.npz')}&examples=5&tokens=2")
    assert one.program(*one.args)["y"].shape == (5, 8)
    with pytest.warns(UserWarning, match=r"sizes were chosen: seq=8 \("):
        (drawn_alone,) = open_source(f"{flattened}?examples=5")
        assert drawn_alone.make().args[0].shape == (5, 8, 4)  # type: ignore[union-attr]


def test_an_input_that_decides_a_shape_has_the_given_value(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "m.onnx", [helper.make_node("Reshape", ["x", "to"], ["y"]), helper.make_node("Neg", ["y"], ["z"])],
        [value("x", ["n", 4]), value("to", [2], INT64)], [value("z", None)],
    )  # fmt: skip
    feeds = {"x": drawn(3, 4), "to": np.array([2, 6])}
    np.savez(tmp_path / "given.npz", **feeds)
    one = built(f"{path}?inputs={tmp_path / 'given.npz'}")
    found = one.program(*one.args)["z"].numpy()
    np.testing.assert_array_equal(found, ReferenceEvaluator(str(path)).run(None, feeds)[0])
    assert {name: array.tolist() for name, array in one.program.fixed_inputs.items()} == {"to": [2, 6]}


@pytest.mark.parametrize(
    ("options", "sizes", "said"),
    [
        ("", {"x": (3, 7, 5), "y": (3,)}, r"input x is \[3, 7, 5\], and the file declares \[batch, seq, 4\]: give"),
        ("", {"x": (3, 7, 4), "y": (2,)}, "dimension batch is 3 by input x and 2 in input y: it has one size; give"),
        ("batch=2&", {"x": (3, 7, 4), "y": (3,)}, "dimension batch is 2 by --set and 3 in input x"),
    ],
)
def test_inputs_that_the_file_does_not_declare_are_refused(
    tmp_path: Path, options: str, sizes: dict[str, tuple[int, ...]], said: str
) -> None:
    nodes = [helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0), helper.make_node("Add", ["s", "y"], ["z"])]
    path = saved(
        tmp_path / "m.onnx", nodes, [value("x", ["batch", "seq", 4]), value("y", ["batch"])], [value("z", None)]
    )
    np.savez(tmp_path / "given.npz", **{name: drawn(*shape) for name, shape in sizes.items()})
    with pytest.raises(SourceError, match=f"^{path}: {said}"):
        built(f"{path}?{options}inputs={tmp_path / 'given.npz'}")


def test_a_file_without_a_graph_has_the_given_inputs(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "m.onnx", [helper.make_node("Unique", ["x"], ["y"])], [value("x", ["n"])], [value("y", None)]
    )
    np.savez(tmp_path / "given.npz", x=drawn(5))
    (x,) = built(f"{path}?inputs={tmp_path / 'given.npz'}").args
    np.testing.assert_array_equal(x.numpy(), drawn(5))


def test_a_litert_file_takes_the_sizes_that_it_leaves_open(tmp_path: Path) -> None:
    tensors = [
        FileTensor("x", (1, 6), signature=(-1, 6)), FileTensor("s", (2,), "int32"), constant("b", np.int32([0])),
        constant("e", np.int32([1])), constant("one", np.int32([1])), FileTensor("n", (), "int32"),
        constant("half", np.int32(3)), constant("two", np.int32(2)), FileTensor("to", (3,), "int32"),
        FileTensor("y", (1, 2, 3), signature=(-1, 2, 3)),
    ]  # fmt: skip
    nodes = [
        FileNode("SHAPE", ["x"], ["s"]), FileNode("STRIDED_SLICE", ["s", "b", "e", "one"], ["n"], {4: ("i", 1)}),
        FileNode("PACK", ["n", "two", "half"], ["to"], {0: ("i", 3), 1: ("i", 0)}),
        FileNode("RESHAPE", ["x", "to"], ["y"]),
    ]  # fmt: skip
    path = tmp_path / "m.tflite"
    path.write_bytes(model_bytes(tensors, nodes, ["x"], ["y"]))
    np.savez(tmp_path / "five.npz", x=drawn(5, 6))
    np.savez(tmp_path / "wide.npz", x=drawn(5, 7))
    five, wide = open_source(f"{path}?inputs={tmp_path / 'five.npz'},{tmp_path / 'wide.npz'}")
    assert isinstance(five, Program) and isinstance(wide, Program)
    with checked_before(), pytest.warns(UserWarning, match=r"x runs as \[5, 6\]"):
        one = five.make()
    torch.testing.assert_close(one.program(*one.args)["y"], torch.tensor(drawn(5, 6)).reshape(5, 2, 3))
    with pytest.raises(SourceError, match=r"input x is \[5, 7\], and the file declares \[open, 6\]: give inputs"):
        wide.make()


def test_a_drawn_mask_of_padding_leaves_no_place_out(tmp_path: Path) -> None:
    names = ("key_padding_mask", "attention_mask")
    masks = [value(name, [2, 4], TensorProto.BOOL) for name in names]
    nodes = [helper.make_node("Identity", [name], [f"y{number}"]) for number, name in enumerate(names)]
    path = saved(tmp_path / "m.onnx", nodes, masks, [value(f"y{i}", [2, 4], TensorProto.BOOL) for i in range(2)])
    padded, attended = built(str(path)).args
    assert not padded.any() and attended.all()
