"""The time of each kind of node inside a program's run, by the profilers of three runtimes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mindgap.own_path.program_run import FlatProgram
from mindgap_surveys.support.node_times import PROFILED, NodeTime, node_times, nodes_of

PROGRAM = """import torch


def make():
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Softmax(-1)), (torch.ones(4, 64),)
"""


def test_the_operators_of_eager_mode_are_timed_without_those_that_they_call() -> None:
    program = FlatProgram(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()), (torch.ones(2, 8),), {})
    with torch.no_grad():
        runs = PROFILED["cpu/eager"](program, 2)
    assert len(runs) == 2
    found = {each.kind: each for each in nodes_of(runs)}
    assert found["aten::addmm"].nodes == found["aten::relu"].nodes == 1 and found["aten::addmm"].seconds > 0


def test_nodes_of_a_kind_are_added_and_a_slow_run_moves_no_median() -> None:
    quick, slow = [("Add", 1, 1.0), ("Add", 1, 2.0), ("Mul", 1, 9.0)], [("Add", 2, 300.0), ("Mul", 1, 900.0)]
    assert nodes_of([quick, slow, quick]) == [NodeTime("Mul", 1, 9.0), NodeTime("Add", 2, 3.0)]


@pytest.mark.nightly
def test_three_runtimes_tell_their_nodes_apart_and_a_failure_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PROGRAM)
    found = node_times(f"{tmp_path / 'model.py'}:make", ["cpu/jit", *PROFILED], 3, 120.0)
    kinds = {
        platform: [] if isinstance(each, str) else [node.kind for node in each] for platform, each in found.items()
    }
    assert "aten::_softmax" in kinds["cpu/eager"] and set(kinds) == set(PROFILED)
    assert {"Gemm", "Softmax"} <= set(kinds["onnxruntime/cpu"])
    assert {"FullyConnected", "Softmax"} <= set(kinds["openvino/cpu"])
    broken = node_times(f"{tmp_path / 'none.py'}:make", ["cpu/eager"], 3, 120.0)["cpu/eager"]
    assert isinstance(broken, str) and "none.py" in broken
