"""Tensors in files beside an ONNX model: read, mapped, larger than a protobuf message."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from mindgap.onnx_files.model_proto import initial_values
from mindgap.onnx_files.probing import write_probed
from mindgap.sources.opening import capture_built
from mindgap.sources.translated_model import NoTranslation
from onnx_files.test_file import INT64, built, saved, value, weight


def test_external_data_beside_the_model_is_read(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    path = saved(
        tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", [2, 4])], [value("y", None)],
        [weight("w", 4, 5)], save_as_external_data=True, size_threshold=0, location="data/w.bin",
    )  # fmt: skip
    found = built(str(path)).program.get_parameter("w").detach()
    np.testing.assert_array_equal(found.numpy(), numpy_helper.to_array(weight("w", 4, 5)))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_weights_of_more_than_2_gib_stay_in_their_file(tmp_path: Path) -> None:
    """In the message they would be more than it can hold: for the checker, and for the inliner of functions."""
    path = saved(
        tmp_path / "m.onnx",
        [helper.make_node("Gather", ["w", "ids"], ["e"]), helper.make_node("Twice", ["e"], ["y"], domain="own")],
        [value("ids", [3], INT64)], [value("y", [3, 1 << 12])], [weight("w", 2, 2)], domains={"own": 1},
        save_as_external_data=True, size_threshold=0, location="w.bin",
    )  # fmt: skip
    model = onnx.load(str(path), load_external_data=False)
    twice = [helper.make_node("Add", ["a", "a"], ["b"])]
    model.functions.append(helper.make_function("own", "Twice", ["a"], ["b"], twice, [helper.make_opsetid("", 18)]))
    (table,) = model.graph.initializer
    rows = 135_000
    table.dims[:] = [rows, 1 << 12]
    held = {each.key: each for each in table.external_data}
    held["length"].value = str(rows << 14)
    path.write_bytes(model.SerializeToString())
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(rows << 14)
        for row in range(8):
            file.seek((rows - 1 - row) << 14)
            file.write(np.full(1 << 12, row, np.float32).tobytes())
    before = resident_bytes()
    one = built(str(path))
    found = one.program(torch.tensor([rows - 1, rows - 3, 0]))["y"]
    assert found[:, 7].tolist() == [0, 4, 0] and rows << 14 > 2 << 30
    assert resident_bytes() - before < 200 << 20


def test_a_tensor_that_its_file_does_not_hold_is_refused(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", [2, 4])], [value("y", None)],
        [weight("w", 4, 5)], save_as_external_data=True, size_threshold=0, location="w.bin",
    )  # fmt: skip
    model = onnx.load(str(path), load_external_data=False)
    model.graph.initializer[0].dims[:] = [4, 4]
    path.write_bytes(model.SerializeToString())
    with pytest.raises(
        NoTranslation, match=r"initializer w: w\.bin holds 80 bytes of it, and float32\[4, 4\] takes 64"
    ):
        capture_built(built(str(path)))


@pytest.mark.parametrize("kind", [TensorProto.BFLOAT16, TensorProto.FLOAT16, TensorProto.INT4, TensorProto.BOOL])
def test_mapped_tensors_are_those_of_the_file(tmp_path: Path, kind: int) -> None:
    """Behind 3 bytes, so that none is aligned."""
    values = np.arange(6).reshape(2, 3) % 2 if kind == TensorProto.BOOL else np.arange(6).reshape(2, 3)
    tensor = helper.make_tensor("w", kind, [2, 3], values.ravel().tolist())
    data = numpy_helper.to_array(tensor)
    raw = numpy_helper.from_array(data, "w").raw_data
    (tmp_path / "w.bin").write_bytes(b"abc" + raw)
    model = onnx.ModelProto()
    lying = model.graph.initializer.add(name="w", data_type=kind, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, text in (("location", "w.bin"), ("offset", "3"), ("length", str(len(raw)))):
        lying.external_data.add(key=key, value=text)
    found = initial_values(model, tmp_path)["w"]
    assert torch.equal(found.float(), torch.tensor(values).float()) and found.shape == (2, 3)


def test_the_integers_of_a_model_with_external_data_are_outputs(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("QuantizeLinear", ["m", "s", "z"], ["q"], "/q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]  # fmt: skip
    held = [
        weight("w", 4, 5), numpy_helper.from_array(np.float32(0.1), "s"), numpy_helper.from_array(np.int8(3), "z"),
    ]  # fmt: skip
    (tmp_path / "data").mkdir()
    (tmp_path / "probed").mkdir()
    path = saved(
        tmp_path / "m.onnx", nodes, [value("x", [2, 4])], [value("y", [2, 5])], held, save_as_external_data=True,
        size_threshold=0, location="data/w.bin",
    )  # fmt: skip
    probed = write_probed(path, tmp_path / "probed")
    assert probed is not None and probed.nodes == {"/q": 1}
    x = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    y, q = onnxruntime.InferenceSession(str(probed.path)).run(None, {"x": x})
    np.testing.assert_allclose(y, (q.astype(np.float32) - 3) * np.float32(0.1), 1e-6)
    np.testing.assert_allclose(y, x @ numpy_helper.to_array(weight("w", 4, 5)), 0, 0.0501)
