"""Measuring of PyTorch's functions: which calls count, without workers."""

from collections import Counter
from importlib.metadata import version
from typing import Any

import pytest

from mindgap.graph import Graph, default_tensor_store
from mindgap.platforms.registry import canonical
from mindgap.results.ported_functions import FunctionCell, PortingSettings, SampleResult
from mindgap.run.outcome import Job, Outcome
from mindgap.workflows.porting.pytorch_functions import PyTorchFunctions


class CachingPool:
    """Runs nothing: a first job on a platform loads for 100 s, a later one for none, and each runs for 1 s."""

    def __init__(self) -> None:
        self.jobs: Counter[str] = Counter()

    def run(self, job: Job) -> Outcome:
        self.jobs[str(job.platform)] += 1
        loaded = {"load": 100.0} if self.jobs[str(job.platform)] == 1 else {}
        return Outcome(job.platform, "", timings={"run": 1.0, **loaded}, status="ok")


def test_the_first_call_of_the_source_is_a_cold_one_for_every_target(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph.__new__(Graph)
    monkeypatch.setattr(PyTorchFunctions, "_captured", lambda self, source, function: graph)
    functions = PyTorchFunctions(["cpu/jit", "onnxruntime/cpu"], PortingSettings(rounds=2), default_tensor_store())
    pool: Any = CachingPool()
    source_first: dict[tuple[str, str], float] = {}
    for target in ("cpu/jit", "onnxruntime/cpu"):
        cell = FunctionCell("pytorch", "torch.add", target, (SampleResult("ops:add#0"),))
        found = functions._measured(pool, cell, "ops:add#0", source_first)  # pyright: ignore[reportPrivateUsage]
        assert found == (101.0, 101.0, [1.0, 1.0], [1.0, 1.0])
    # One cold call on the source, and two in turn with each target.
    assert pool.jobs[str(canonical("cpu/eager"))] == 5


def test_versions_of_the_runtimes_are_recorded() -> None:
    functions = PyTorchFunctions(["cpu/jit", "onnxruntime/cpu"], PortingSettings(), default_tensor_store())
    assert functions.versions()["onnxruntime"] == version("onnxruntime")
