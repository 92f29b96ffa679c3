"""`mindgap against`: rewrites by ONNX Runtime, onnxslim and a quantiser, and one that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from cli.command_line import Ran, mindgap
from passes.test_at_fault import convolution_with_bias
from rewrites.onnx_pairs import optimise, write_model


def against(folder: Path, new: str, *more: str) -> Ran:
    return mindgap("against", new, "old.onnx", "-p", "onnxruntime/cpu", *more, cwd=folder)


def test_a_right_rewrite_is_rounding(tmp_path: Path) -> None:
    write_model(tmp_path / "old.onnx")
    optimise(tmp_path / "old.onnx", tmp_path / "new.onnx")
    ran = against(tmp_path, "new.onnx", "--json")
    assert ran.status == 0, ran.err
    found = json.loads(ran.out)
    (row,) = found["report"]["rows"]
    assert row["verdict"] in ("rounding", "identical") and row["own_path"]["way"] == "new.onnx"
    assert found["structure"]["folded"] == ["constant (Mul)"]
    assert found["first_parting"].startswith("None of")


def test_a_wrong_rewrite(tmp_path: Path) -> None:
    write_model(tmp_path / "old.onnx")
    write_model(tmp_path / "new.onnx", epsilon=0.05)
    ran = against(tmp_path, "new.onnx")
    assert ran.status == 1, ran.err
    assert "new.onnx gives other outputs" in ran.out
    assert "attribute epsilon of norm (BatchNormalization): 1e-05 -> 0.05" in ran.out
    assert "first value that parts: b," in ran.out
    assert "old: norm (BatchNormalization); new: norm (BatchNormalization)" in ran.out


@pytest.mark.parametrize(
    ("new", "told"),
    [("none.onnx", "there is no such file"), ("model.py", "it is no .onnx file"), ("text.onnx", "it is no ONNX model")],
)
def test_mistakes_are_one_line(new: str, told: str, tmp_path: Path) -> None:
    write_model(tmp_path / "old.onnx")
    (tmp_path / "model.py").write_text("")
    (tmp_path / "text.onnx").write_text("hello")
    ran = against(tmp_path, new)
    assert ran.status == 2 and told in ran.err and len(ran.err.splitlines()) == 1


@pytest.mark.nightly
def test_onnxslim_and_a_quantiser(tmp_path: Path) -> None:
    from onnxruntime.quantization import quantize_dynamic
    from onnxslim import slim

    write_model(tmp_path / "old.onnx")
    onnx.save(slim(onnx.load(tmp_path / "old.onnx")), tmp_path / "slim.onnx")
    assert against(tmp_path, "slim.onnx").status == 0
    quantize_dynamic(tmp_path / "old.onnx", tmp_path / "quantised.onnx")
    ran = against(tmp_path, "quantised.onnx")
    assert ran.status == 1 and "DynamicQuantizeLinear" in ran.out and "old: conv (Conv)" in ran.out


@pytest.mark.nightly
def test_what_an_optimiser_of_a_faulty_version_saves(tmp_path: Path) -> None:
    """https://github.com/microsoft/onnxruntime/issues/24711, as the file that ONNX Runtime 1.25.0 writes."""
    convolution_with_bias(tmp_path / "old.onnx")
    ran = mindgap("env", "create", "ort", "onnxruntime==1.25.0", cwd=tmp_path)
    assert ran.status == 0, ran.err
    import subprocess

    python = tmp_path / "home" / "environments" / "ort" / "venv" / "bin" / "python"
    lines = (
        "import onnxruntime as o; s = o.SessionOptions(); s.optimized_model_filepath = 'new.onnx'; "
        "s.graph_optimization_level = o.GraphOptimizationLevel.ORT_ENABLE_EXTENDED; o.InferenceSession('old.onnx', s)"
    )
    subprocess.run([python, "-c", lines], check=True, cwd=tmp_path)
    ran = against(tmp_path, "new.onnx")
    assert ran.status == 1, ran.err
    assert "conv (Conv)" in ran.out and "QLinearConv" in ran.out
