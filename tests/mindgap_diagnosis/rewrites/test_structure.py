"""What a rewrite did: nodes, constants, attributes; and the first value that parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from mindgap.graph import MindgapError
from mindgap_diagnosis.rewrites.parting import Parting, first_parting
from mindgap_diagnosis.rewrites.structure import check_one_model, read_onnx, structural_changes
from rewrites.onnx_pairs import optimise, write_model
from rewrites.thread_models import in_float16, save

INPUT = {"x": np.random.default_rng(1).normal(size=(1, 3, 6, 6)).astype("f4")}


def test_a_right_rewrite(tmp_path: Path) -> None:
    old, new = tmp_path / "old.onnx", tmp_path / "new.onnx"
    write_model(old)
    optimise(old, new)
    sides = read_onnx(old), read_onnx(new)
    check_one_model(*sides)
    changes = structural_changes(*sides)
    assert changes.nodes[0] == 5 > changes.nodes[1]
    assert changes.folded == ("constant (Mul)",)
    assert ("BatchNormalization", 1) in changes.gone
    fused = [olds for olds, _ in changes.replaced if "norm (BatchNormalization)" in olds]
    assert fused and fused[0][:2] == ("conv (Conv)", "norm (BatchNormalization)")
    found = first_parting(old, new, INPUT)
    assert isinstance(found, str) and "values that both files compute parts" in found


def test_another_epsilon_is_named_in_both_files(tmp_path: Path) -> None:
    old, new = tmp_path / "old.onnx", tmp_path / "new.onnx"
    write_model(old)
    write_model(new, epsilon=0.05)
    changes = structural_changes(read_onnx(old), read_onnx(new))
    assert changes.attributes == (("epsilon of norm (BatchNormalization)", "1e-05", "0.05"),)
    found = first_parting(old, new, INPUT)
    assert isinstance(found, Parting)
    assert (found.old, found.new, found.value, found.by) == (
        "norm (BatchNormalization)", "norm (BatchNormalization)", "b", "name",
    )  # fmt: skip
    assert found.off > 0.01


def test_a_default_that_is_spelled_out_is_no_change(tmp_path: Path) -> None:
    old, new = tmp_path / "old.onnx", tmp_path / "new.onnx"
    for path, spelled in ((old, {}), (new, {"auto_pad": "NOTSET", "ceil_mode": 0, "pads": [1, 1, 1, 1]})):
        pool = onnx.helper.make_node("MaxPool", ["x"], ["y"], "pool", kernel_shape=[3, 3], **spelled)
        save(path, [pool], {"x": [1, 2, 7, 7]})
    changes = structural_changes(read_onnx(old), read_onnx(new))
    assert changes.attributes == (("pads of pool (MaxPool)", "left out", "[1, 1, 1, 1]"),)


def test_a_value_with_another_name_is_matched_by_what_it_computes(tmp_path: Path) -> None:
    old, new = tmp_path / "old.onnx", tmp_path / "new.onnx"
    write_model(old)
    write_model(new)
    model = onnx.load(new)
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [f"{name}_renamed" if name in ("c", "b", "r") else name for name in names]
    weight = next(each for each in model.graph.initializer if each.name == "half")
    weight.CopyFrom(onnx.numpy_helper.from_array(np.array([0.4], "f4"), "half"))
    onnx.save(model, new)
    found = first_parting(old, new, INPUT)
    assert isinstance(found, Parting)
    assert (found.old, found.value, found.compared) == ("constant (Mul)", "one", 5)
    changes = structural_changes(read_onnx(old), read_onnx(new))
    assert changes.changed == (("half", "0.2 of its largest magnitude"),)


def test_files_of_two_models(tmp_path: Path) -> None:
    write_model(tmp_path / "old.onnx")
    old = read_onnx(tmp_path / "old.onnx")
    model = onnx.load(tmp_path / "old.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 5
    onnx.save(model, tmp_path / "new.onnx")
    with pytest.raises(MindgapError, match=r"not two files of one model.*%x.FLOAT, 1x5x6x6"):
        check_one_model(old, read_onnx(tmp_path / "new.onnx"))
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "channels"
    onnx.save(model, tmp_path / "new.onnx")
    check_one_model(old, read_onnx(tmp_path / "new.onnx"))


def test_values_that_overflow_do_not_hide_where_they_do(tmp_path: Path) -> None:
    old, new = tmp_path / "old.onnx", tmp_path / "new.onnx"
    in_float16(old, new)
    found = first_parting(old, new, {"x": np.random.default_rng(0).normal(size=(2, 8)).astype("f4")})
    assert isinstance(found, Parting)
    assert (found.old, found.off) == ("square (Mul)", np.inf)
