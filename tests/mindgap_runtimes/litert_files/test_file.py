"""`FILE.tflite` as a source: translated, compared with LiteRT's reference kernels, refused in one line where it is
bad."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from litert_files.tflite_writer import FileNode, FileTensor, constant, model_bytes
from mindgap.sources import SourceError, capture_program, open_source
from mindgap.sources.translated_model import NoTranslation, checked_before
from mindgap_runtimes.litert_files import reference_check
from mindgap_runtimes.litert_files.model import NoTfliteModel, read_tflite
from mindgap_runtimes.litert_files.reference_kernels import KernelValues, NotRun, values_of
from mindgap_runtimes.litert_files.translation import translated

SAME, RELU = (("b", 0), ("b", 1))


def drawn(*shape: int, low: int = -100, high: int = 100, dtype: str = "int8") -> Any:
    return np.random.default_rng(1).integers(low, high, shape).astype(dtype)


def floats(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def run(tensors: list[FileTensor], nodes: list[FileNode], feeds: dict[str, Any], outputs: list[str]) -> list[Any]:
    model = read_tflite(model_bytes(tensors, nodes, [*feeds], outputs))
    given = {name: torch.tensor(array) for name, array in feeds.items()}
    program = translated(model, given)
    with torch.no_grad():
        return [each.numpy() for each in program(*given.values()).values()]


def integer_net() -> tuple[list[FileTensor], list[FileNode]]:
    """A convolution with a scale for each output, in int8, with even and uneven padding; a product; a softmax."""
    tensors = [
        FileTensor("x", (1, 5, 4, 3), "int8", scale=0.05, zero=-3),
        constant("w", drawn(6, 3, 2, 3), scale=np.linspace(0.01, 0.02, 6), axis=0),
        constant("b", drawn(6, dtype="int32"), scale=np.linspace(0.01, 0.02, 6) * 0.05, axis=0),
        FileTensor("y", (1, 3, 2, 6), "int8", scale=0.4, zero=7),
        constant("shape", np.int32([1, -1])),
        FileTensor("flat", (1, 36), "int8", scale=0.4, zero=7),
        constant("fc", drawn(4, 36), scale=0.01),
        FileTensor("z", (1, 4), "int8", scale=1.5, zero=2),
        FileTensor("p", (1, 4), "int8", scale=1 / 256, zero=-128),
    ]
    nodes = [
        FileNode("CONV_2D", ["x", "w", "b"], ["y"], {0: SAME, 1: ("i", 2), 2: ("i", 2), 3: RELU}),
        FileNode("RESHAPE", ["y", "shape"], ["flat"]),
        FileNode("FULLY_CONNECTED", ["flat", "fc"], ["z"], {0: ("b", 0)}),
        FileNode("SOFTMAX", ["z"], ["p"], {0: ("f", 1.0)}),
    ]
    return tensors, nodes


def net_file(path: Path) -> Path:
    tensors, nodes = integer_net()
    path.write_bytes(model_bytes(tensors, nodes, ["x"], ["p"]))
    return path


def test_integers_are_convolved_by_the_definition_of_the_quantisation() -> None:
    tensors, nodes = integer_net()
    x = drawn(1, 5, 4, 3)
    (found,) = run(tensors[:4], nodes[:1], {"x": x}, ["y"])
    scales = np.float32(np.linspace(0.01, 0.02, 6))
    # Two strides over 5 and 4 need one more row before, one behind, and no column: the result is 3 by 2.
    real = np.pad((x.astype(np.float64) + 3) * 0.05, [(0, 0), (1, 1), (0, 0), (0, 0)])
    weight = tensors[1].data * scales[:, None, None, None].astype(np.float64)
    bias = tensors[2].data * (scales * np.float32(0.05)).astype(np.float64)
    for row, column, channel in np.ndindex(3, 2, 6):
        window = real[0, 2 * row : 2 * row + 3, 2 * column : 2 * column + 2]
        exact = (window * weight[channel]).sum() + bias[channel]
        expected = np.clip(round(max(exact, 0.0) / 0.4) + 7, -128, 127)
        assert found[0, row, column, channel] == expected


def test_floats_with_integer_weights_are_quantised_by_row() -> None:
    weight, x = drawn(4, 8), floats(3, 8)
    tensors = [FileTensor("x", (3, 8)), constant("w", weight, scale=0.02), FileTensor("y", (3, 4))]
    (found,) = run(tensors, [FileNode("FULLY_CONNECTED", ["x", "w"], ["y"])], {"x": x}, ["y"])
    scale = np.abs(x).max(1, keepdims=True) / np.float32(127)
    expected = (np.round(x / scale) @ weight.T.astype(np.float64)) * scale * 0.02
    assert np.allclose(found, expected, rtol=1e-5)
    assert not np.allclose(found, x @ (weight.T * 0.02), rtol=1e-5), "rounding to 8 bits is seen"


@pytest.mark.parametrize("scales", [0.02, [0.02, 0.02]])
def test_a_convolution_of_floats_has_a_zero_point_where_channels_have_scales(scales: Any) -> None:
    """As LiteRT 2.3.0's kernels give it, measured with files of 6 by 6 pixels."""
    weight, x = drawn(2, 1, 1, 3), np.abs(floats(1, 4, 4, 3))
    zeros = 0 if isinstance(scales, float) else [0, 0]
    tensors = [
        FileTensor("x", (1, 4, 4, 3)),
        constant("w", weight, scale=scales, zero=zeros),
        FileTensor("y", (1, 4, 4, 2)),
    ]
    options = {0: ("b", 1), 1: ("i", 1), 2: ("i", 1)}
    (found,) = run(tensors, [FileNode("CONV_2D", ["x", "w"], ["y"], options)], {"x": x}, ["y"])
    steps = 127 if isinstance(scales, float) else 255
    scale = x.max() / np.float32(steps)
    expected = (np.round(x / scale) @ weight.reshape(2, 3).T.astype(np.float64)) * scale * 0.02
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_four_bits_are_unpacked_low_half_first() -> None:
    packed = np.array([0x2F, 0x08], np.int8)
    tensors = [FileTensor("x", (3,)), FileTensor("w", (3,), "int4", packed, scale=0.5), FileTensor("r", (3,)),
               FileTensor("y", (3,))]  # fmt: skip
    nodes = [FileNode("DEQUANTIZE", ["w"], ["r"]), FileNode("ADD", ["x", "r"], ["y"])]
    (found,) = run(tensors, nodes, {"x": np.zeros(3, np.float32)}, ["y"])
    assert found.tolist() == [-0.5, 1.0, -4.0]


def test_shapes_that_constants_decide_are_computed_once() -> None:
    tensors = [
        FileTensor("x", (2, 6)), FileTensor("s", (2,), "int32"), constant("b", np.int32([0])),
        constant("e", np.int32([1])), constant("one", np.int32([1])), FileTensor("n", (), "int32"),
        constant("rest", np.int32(-1)), FileTensor("to", (2,), "int32"), FileTensor("y", (2, 6)),
        FileTensor("z", (2, 6)),
    ]  # fmt: skip
    nodes = [
        FileNode("SHAPE", ["x"], ["s"]), FileNode("STRIDED_SLICE", ["s", "b", "e", "one"], ["n"], {4: ("i", 1)}),
        FileNode("PACK", ["n", "rest"], ["to"], {0: ("i", 2), 1: ("i", 0)}), FileNode("RESHAPE", ["x", "to"], ["y"]),
        FileNode("TANH", ["y"], ["z"]),
    ]  # fmt: skip
    x = torch.tensor(floats(2, 6))
    program = translated(read_tflite(model_bytes(tensors, nodes, ["x"], ["z"])), {"x": x})
    assert [step.source_line for step in program.steps] == ["RESHAPE", "TANH"]
    assert torch.equal(program(x)["z"], torch.tanh(x))


def test_the_program_has_the_names_of_the_file(tmp_path: Path) -> None:
    path = net_file(tmp_path / "net.tflite")
    with checked_before():
        (program,) = open_source(f"{path}?seed=3")
        graph = capture_program(program)
    assert program.name == "net" and [each.role for each in graph.inputs].count("input") == 1
    assert {"y (CONV_2D)", "p (SOFTMAX)"} <= set(graph.labels.nodes)
    assert graph.labels.outputs == ("p",)


def test_the_translation_is_compared_with_the_reference_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = net_file(tmp_path / "net.tflite")
    model = read_tflite(path.read_bytes())
    x = torch.tensor(drawn(1, 5, 4, 3))
    program = translated(model, {"x": x})
    right: dict[int, Any] = {0: x.numpy()}
    values: dict[str, torch.Tensor] = {"x": x, **dict(program.named_buffers(recurse=False))}
    numbers = {each.name: i for i, each in enumerate(model.tensors)}
    for step in program.steps:
        values[step.outputs[0]] = step(*[values.get(name) for name in step.operands])[0]
        right[numbers[step.outputs[0]]] = values[step.outputs[0]].numpy()

    def checked(other: dict[int, Any], reference: bool = True) -> str:
        monkeypatch.setattr(reference_check, "values_of", lambda *given: KernelValues({**right, **other}, reference))
        return reference_check.check(path, model, program, {"x": x}, 1.0)

    y = numbers["y"]
    assert checked({}) == "" and checked({y: np.clip(right[y], -127, 126) + np.int8(1)}) == ""
    assert checked({}, reference=False) == reference_check.OPTIMISED
    with pytest.raises(reference_check.Untranslated, match=r"node y \(CONV_2D\): .*other values in 36 of 36"):
        checked({y: right[y] // 2 + np.int8(50)})
    with pytest.raises(reference_check.Untranslated, match=r"int8\[1, 3, 2, 6\], and LiteRT's .* int8\[36\]"):
        checked({y: right[y].reshape(-1)})
    monkeypatch.setattr(reference_check, "values_of", lambda *given: KernelValues({numbers["x"]: right[0]}, True))
    assert "not known or wrong: CONV_2D, RESHAPE, FULLY_CONNECTED, SOFTMAX" in reference_check.check(
        path, model, program, {"x": x}, 1.0
    )


def refuse(*_: Any) -> Any:
    raise NotRun("there is no environment litert (mindgap env create litert)")


def test_what_was_not_compared_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = net_file(tmp_path / "net.tflite")
    monkeypatch.setattr(reference_check, "values_of", refuse)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        open_source(str(path))[0].make()
    said = [str(each.message) for each in caught]
    assert any("not compared with LiteRT's reference kernels: there is no environment litert" in each for each in said)


def test_the_reference_kernels_of_the_environment_give_what_the_translation_gives(tmp_path: Path) -> None:
    path = net_file(tmp_path / "net.tflite")
    model, x = read_tflite(path.read_bytes()), drawn(1, 5, 4, 3)
    try:
        values_of(path, [x], 60.0)
    except NotRun as reason:
        pytest.skip(str(reason))
    given = {"x": torch.tensor(x)}
    assert reference_check.check(path, model, translated(model, given), given, 60.0) == ""


def changed(**more: Any) -> bytes:
    tensors, nodes = integer_net()
    tensors = more.pop("tensors", lambda found: found)(tensors)
    nodes = more.pop("nodes", lambda found: found)(nodes)
    return model_bytes(tensors, nodes, ["x"], ["p"], **more)


def replaced(index: int, tensor: FileTensor) -> Callable[[list[FileTensor]], list[FileTensor]]:
    return lambda found: [*found[:index], tensor, *found[index + 1 :]]


def with_node(op: str) -> Callable[[list[FileNode]], list[FileNode]]:
    return lambda found: [*found[:-1], FileNode(op, ["z"], ["p"])]


WEIGHT = constant("w", drawn(6, 3, 2, 3), scale=np.linspace(0.01, 0.02, 5), axis=0)
BAD = {
    "empty": (b"", "the file is empty"),
    "text": (b"this is no model at all", "no LiteRT model: its bytes 4 to 8 are not TFL3"),
    "cut": (changed()[:400], "damaged: "),
    "version": (changed(version=4), "version 4 of the format; mindgap reads 3"),
    "unknown": (changed(nodes=with_node("LSTM")), r"no translation of operator LSTM \(node p\)"),
    "custom": (changed(nodes=with_node("my_fft")), r"no translation of custom operator my_fft \(node p\)"),
    "string": (changed(tensors=replaced(8, FileTensor("p", (1, 4), "string"))), "p is of type STRING, which graphs do"),
    "state": (changed(tensors=replaced(8, FileTensor("p", (1, 4), variable=True))), "p is a variable: it keeps"),
    "scales": (changed(tensors=replaced(1, WEIGHT)), "the scales or zero points of tensor w do not fit its shape"),
    "bytes": (
        changed(tensors=replaced(1, FileTensor("w", (6, 3, 2, 4), "int8", drawn(6, 3, 2, 3), scale=0.1))),
        r"tensor w of int8\[6, 3, 2, 4\] has 108 bytes of 144",
    ),
    "shape": (
        changed(tensors=replaced(3, FileTensor("y", (1, 3, 3, 6), "int8", scale=0.4, zero=7))),
        r"node y \(CONV_2D\): y is declared int8\[1, 3, 3, 6\], and its node gives int8\[1, 3, 2, 6\]",
    ),
    "nodes": (changed(nodes=lambda _: []), "its graph has no nodes"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    data, words = BAD[case]
    path = tmp_path / "bad.tflite"
    path.write_bytes(data)
    kind = NoTranslation if case in ("unknown", "custom", "string", "state", "shape") else SourceError
    with checked_before(), pytest.raises(kind, match=words) as caught:
        capture_program(open_source(str(path))[0])
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


def test_an_input_of_a_type_that_graphs_do_not_hold_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.tflite"
    tensors = [FileTensor("x", (4,), "resource"), FileTensor("y", (4,))]
    path.write_bytes(model_bytes(tensors, [FileNode("RESHAPE", ["x"], ["y"])], ["x"], ["y"]))
    with pytest.raises(SourceError, match="tensor x is of type RESOURCE, which graphs do not hold, and it is an input"):
        open_source(str(path))[0].make()


def test_without_the_schema_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = net_file(tmp_path / "net.tflite")
    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(SourceError, match=r"net.tflite: needs the package tflite .*pip install 'mindgap\[litert\]'"):
        open_source(str(path))[0].make()


def test_a_file_that_is_not_there_is_told_of() -> None:
    with pytest.raises(SourceError, match=r"gone.tflite: no such file"):
        open_source("gone.tflite")


def test_every_offset_of_a_table_is_checked() -> None:
    whole = changed()
    for length in range(8, len(whole), 29):
        with pytest.raises(NoTfliteModel):
            read_tflite(whole[:length])
    with pytest.raises(NoTfliteModel, match="damaged: "):
        read_tflite(b"\xff\xff\xff\x7f" + whole[4:])


def test_a_file_with_texts_stands_for_itself_with_texts_as_input(tmp_path: Path) -> None:
    path = tmp_path / "texts.tflite"
    tensors = [FileTensor("x", (4,), "string"), FileTensor("y", (4,), "string")]
    path.write_bytes(model_bytes(tensors, [FileNode("RESHAPE", ["x"], ["y"])], ["x"], ["y"]))
    built = open_source(str(path))[0].make()
    assert built.args == () and built.program.reason.endswith("tensor x is of type STRING, which graphs do not hold")
    assert [*built.program.fixed_inputs["x"]] == [b"a", b"two words", b"3", b"a"]
