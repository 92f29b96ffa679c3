"""An operator that is asked for float64 and computes in the float32 of its operand.

`torch.softmax(x, -1, dtype=torch.float64)` converts x first. PyTorch's ONNX exporter writes a float32 Softmax and a
cast after it: in ONNX Runtime `torch.onnx.export` of the module below is off by 1e-8 where float64 is off by 1e-16.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import torch

from judge.oracle.bench import build, normal
from mindgap.graph import DType, TensorStore
from mindgap.judge.trace.judge import Judge
from mindgap.run.outcome import Job
from mindgap_campaign.selftest.trial import InProcessExecutor


class Softmax(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1, dtype=torch.float64)


def test_the_official_exporter_computes_it_in_float32(tmp_path: Path) -> None:
    x = normal(5, 5)
    file = tmp_path / "softmax.onnx"
    torch.onnx.export(Softmax(), (torch.from_numpy(x),), file, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    wide = np.exp(x.astype(np.float64))
    assert 1e-9 < np.abs(found - wide / wide.sum(-1, keepdims=True)).max() < 1e-6


def test_it_is_a_finding(tmp_path: Path) -> None:
    x = normal(5, 5)
    graph = build([x], [("y", "aten.softmax.int", "i0", -1, DType("float64"))], ["y"])
    execute = InProcessExecutor(TensorStore(tmp_path))
    platform, reference = (
        execute(Job(name, graph, want="outputs", inputs={0: x})) for name in ("onnxruntime/cpu", "cpu/eager")
    )
    found = Judge(graph, [x], execute, "cpu/eager").judge(platform, reference)
    assert (found.verdict, found.blame) == ("reduced_precision", "platform")
    assert found.culprit is not None and found.culprit.op == "aten.softmax.int"
