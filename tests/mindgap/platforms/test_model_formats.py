"""Formats of model files: those of mindgap, and one that a package registers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mindgap.graph import MindgapError
from mindgap.own_path.runners import is_model_file, probe_writer
from mindgap.platforms import model_formats
from mindgap.platforms.model_formats import formats
from mindgap.platforms.name import parse as platform
from mindgap.sources import parse, schemes

#: A third party's format: its files are ONNX models under another suffix.
TINY = """
from dataclasses import replace
from mindgap.onnx_files.format import FORMAT as ONNX
FORMAT = replace(ONNX, suffix=".tiny", scheme="onnxfile")
"""


def test_each_format_has_a_scheme_a_probe_and_a_referee() -> None:
    assert set(formats()) == {".onnx", ".tflite"}
    for suffix, each in formats().items():
        assert each.suffix == suffix and each.scheme in schemes() and each.referees
        assert callable(probe_writer(f"model{suffix}"))
        assert parse(f"folder/model{suffix}?seed=1").scheme == each.scheme
        assert is_model_file(f"folder/model{suffix}?seed=1")
    assert not is_model_file("model.py:make") and probe_writer("model.py") is None


def test_a_provider_with_the_kernels_of_a_referee_is_not_independent_of_it() -> None:
    reference, runtime, other = formats()[".onnx"].referees
    provider = platform("onnxruntime/openvino")
    assert reference.is_independent(provider) and runtime.is_independent(provider)
    assert not other.is_independent(provider) and not other.is_independent(platform("openvino/gpu"))
    assert not runtime.is_independent(platform("onnxruntime/cpu@threads=2"))


def test_other_kernels_check_the_integers_of_a_file() -> None:
    checks = formats()[".tflite"].checks(platform("litert/cpu"))
    assert [str(each) for each in checks] == ["litert/cpu@delegate=none", "litert/cpu@kernels=reference"]
    assert [str(each) for each in formats()[".onnx"].checks(platform("onnxruntime/cpu"))] == [
        "onnx/reference", "openvino/cpu@precision=f32",
    ]  # fmt: skip


def test_a_package_adds_a_format(tmp_path: Path) -> None:
    (tmp_path / "tiny_format.py").write_text(TINY)
    info = tmp_path / "tiny_format-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-format\nVersion: 1.0\n")
    points = "[mindgap.formats]\ntiny = tiny_format:FORMAT\nbroken = not_there:FORMAT\nwrong = os:getcwd\n"
    (info / "entry_points.txt").write_text(points)
    code = (
        "from mindgap.platforms.model_formats import formats; from mindgap.sources import parse; "
        "print(sorted(formats()), parse('a/b.tiny').scheme)"
    )
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=variables, timeout=100)
    assert ran.stdout == "['.onnx', '.tflite', '.tiny'] onnxfile\n", ran.stderr
    assert "mindgap.formats broken: not_there:FORMAT cannot be loaded (No module named 'not_there')" in ran.stderr
    assert "mindgap.formats wrong: os:getcwd is no mindgap.platforms.model_formats.ModelFormat" in ran.stderr


def test_metadata_without_formats_ask_for_a_new_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_formats, "GROUP", "mindgap.formats_of_another_version")
    formats.cache_clear()
    try:
        with pytest.raises(MindgapError, match=r"no mindgap\.formats_of_another_version"):
            formats()
    finally:
        monkeypatch.undo()
        formats.cache_clear()
