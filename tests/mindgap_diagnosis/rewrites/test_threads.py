"""`mindgap against` on rewrites of public threads, written anew or made by the tool: the threads have the answers.

onnxruntime 24711 is in `test_against.py`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from cli.command_line import mindgap
from mindgap.platforms.environments import environments
from rewrites import thread_models

#: What a session of the Python that runs it saves.
_SAVED = """
import onnxruntime as o
s = o.SessionOptions()
s.optimized_model_filepath, s.graph_optimization_level = "new.onnx", o.GraphOptimizationLevel.ORT_ENABLE_BASIC
o.InferenceSession("old.onnx", s, providers=["CPUExecutionProvider"])
"""


def optimised(make: Callable[[Path], None], version: str, old: Path, new: Path) -> None:
    make(old)
    python = sys.executable
    if version:
        wanted = (f"onnxruntime=={version}",)
        python = next((each.python for each in environments() if each.requirements == wanted), "")
    if not python:
        pytest.skip(f"no environment: mindgap env create onnxruntime-{version} {wanted[0]}")
    subprocess.run([python, "-c", _SAVED], cwd=old.parent, check=True)


def in_int8(old: Path, new: Path) -> None:
    from onnxruntime.quantization import quantize_static

    thread_models.joined_head(old)
    draw = {"x": np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype("f4")}
    quantize_static(old, new, SimpleNamespace(get_next=partial(next, iter((draw,)), None)))


RIGHT, WRONG = 0, 1


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("rewrite", "platform", "status", "words"),
    [
        pytest.param(
            partial(optimised, thread_models.padded_maximum, ""), "onnxruntime/cpu", WRONG,
            "pad (Pad) + pool (MaxPool) -> ", id="onnxsim 290",
        ),
        pytest.param(
            partial(optimised, thread_models.padded_mean, "1.20.1"), "onnxruntime/cpu", WRONG,
            "pad (Pad) + pool (AveragePool) -> ", id="onnxruntime 22177",
        ),
        pytest.param(thread_models.in_float16, "onnx/reference", WRONG, "old: square (Mul)", id="onnxruntime 21345"),
        pytest.param(in_int8, "onnxruntime/cpu", WRONG, "join (Concat) -> ", id="onnxruntime 14233"),
        pytest.param(thread_models.folded_norm, "onnxruntime/cpu", RIGHT, "None of 2 values", id="onnx optimizer 255"),
        pytest.param(
            partial(thread_models.folded_norm, right=False), "onnxruntime/cpu", WRONG, "old: norm (BatchNormalization)",
            id="onnx 2677",
        ),
        pytest.param(thread_models.single_concat, "onnxruntime/cpu", RIGHT, "gone: 1 Concat", id="onnx optimizer 252"),
        pytest.param(
            thread_models.part_of_shape, "onnxruntime/cpu", WRONG, "size (Shape) + halve (Div) -> ", id="OnnxSlim 38"
        ),
    ],
)  # fmt: skip
def test_a_rewrite(
    rewrite: Callable[[Path, Path], None], platform: str, status: int, words: str, tmp_path: Path
) -> None:
    rewrite(tmp_path / "old.onnx", tmp_path / "new.onnx")
    ran = mindgap("against", "new.onnx", "old.onnx", "-p", platform, cwd=tmp_path)
    assert ran.status == status, ran.out + ran.err
    assert words in ran.out, ran.out
