"""An operator in place on the operand itself: tracing and exporting may run it, and the runtime gets a new operand.

Each platform runs such a graph through its own backend, and through the short script of its users' path. Platforms in
environments that do not exist are skipped.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from mindgap.findings.script.culprit_script import script_platform_of
from mindgap.findings.script.form import NO_FAULT, ScriptForm, script_source
from mindgap.platforms.name import parse
from mindgap.run.outcome import Job
from platforms.elsewhere import workers
from platforms.onnx_graphs import captured

#: A runtime that gets the operand of a trace multiplies by 9.
CASES = """
class Model(torch.nn.Module):
    def forward(self, x0):
        return x0.mul_(3.0) + 1.0


CASES = {"ordinary size": (Model, lambda: (torch.linspace(-0.7, 0.7, 8).reshape(2, 4),))}
"""
HERE = ("cpu/eager", "onnxruntime/cpu", "openvino/cpu@precision=f32")
ALIKE = ("cpu/jit", "onnx/reference", "openvino/cpu@frontend=onnx,precision=f32")
COMPILED = ("cpu/inductor", "cpu/aotinductor")
ELSEWHERE = (
    "jax/cpu@mode=accuracy", "tinygrad/cpu", "iree/cpu", "tvm/cpu", "executorch/cpu", "litert/cpu",
    "ncnn/cpu@precision=f32", "onnxruntime/openvino@precision=f32",
)  # fmt: skip
PLATFORMS = [*HERE, *(pytest.param(name, marks=pytest.mark.nightly) for name in (*ALIKE, *COMPILED, *ELSEWHERE))]


@pytest.mark.nightly
@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_platform_gets_the_operand_that_no_trace_has_changed(platform: str, tmp_path: Path) -> None:
    with workers(platform) as pool:
        values = torch.linspace(-0.7, 0.7, 8).reshape(2, 4)
        graph, inputs = captured(lambda x: x.mul_(3.0) + 1.0, values)
        assert graph.nodes[0].op == "aten.mul_.Scalar" or graph.nodes[0].op == "aten.mul_.Tensor"
        outcome = pool.run(Job(platform, graph, want="outputs"))
        assert outcome.arrays is not None, outcome.message
        right = torch.from_numpy(inputs[0]) * 3.0 + 1.0
        np.testing.assert_allclose(outcome.arrays[0], right.numpy(), atol=1e-3)
    target = script_platform_of(parse(platform))
    text = script_source(ScriptForm("a title", target, CASES))
    file = tmp_path / "script.py"
    file.write_text(text)
    command = [target.python or sys.executable, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, [NO_FAULT]), done.stdout + done.stderr[-3000:]
