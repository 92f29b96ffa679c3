"""ONNX Runtime's DFT of lengths that are no power of two computes its twiddle factors too coarsely.

Against numpy's transform in float64 it is off by 3e-5 of the result's root mean square at n = 131 and by 3e-4 at
n = 1,000, where PyTorch is off by 2e-7.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from judge.oracle.bench import build, normal
from mindgap.graph import TensorStore
from mindgap.judge.trace.judge import Judge
from mindgap.run.outcome import Job
from mindgap_campaign.selftest.trial import InProcessExecutor


@pytest.mark.parametrize("length", [131, 1000])
def test_a_coarse_transform_is_a_finding_on_the_platform(length: int, tmp_path: Path) -> None:
    x = normal(2, length)
    graph = build([x], [("y", "aten.fft_fft.default", "i0"), ("z", "aten.view_as_real.default", "y")], ["z"])
    execute = InProcessExecutor(TensorStore(tmp_path))
    outcomes = {
        name: execute(Job(name, graph, want="outputs", inputs={0: x})) for name in ("onnxruntime/cpu", "cpu/eager")
    }
    exact = np.fft.fft(x.astype(np.float64))
    off = {}
    for name, outcome in outcomes.items():
        assert outcome.arrays is not None, outcome.message
        pairs = outcome.arrays[0].astype(np.float64)
        error = np.abs(pairs[..., 0] + 1j * pairs[..., 1] - exact).max()
        off[name] = error / np.sqrt((np.abs(exact) ** 2).mean())
    assert off["onnxruntime/cpu"] > 1e-5 > 1e-6 > off["cpu/eager"]
    found = Judge(graph, [x], execute, "cpu/eager").judge(outcomes["onnxruntime/cpu"], outcomes["cpu/eager"])
    assert found.verdict in ("discrepant", "reduced_precision") and found.blame == "platform"
    assert found.culprit is not None and "fft" in found.culprit.op
