"""Gradients are compared: through the API, with both kinds of graph, and through the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import mindgap
from mindgap.graph import MindgapError
from mindgap.graph.tensors import TensorStore

MODEL = """
import torch

def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8)), (torch.randn(4, 8),)
"""
CALM = {"identical", "rounding"}


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5), nn.LogSoftmax(-1))


@pytest.mark.nightly
def test_gradients_of_calls_and_of_kernels_are_judged(store: TensorStore) -> None:
    x = torch.randn(16, 8)
    asked = mindgap.capture(model(), (x,), tensors=store, grad=True)
    below = mindgap.capture(model(), (x,), tensors=store, backward=True)
    for graph, count in ((asked, 1 + 7), (below, 2 + 7)):
        report = mindgap.diff(graph, platforms=["cpu/eager@isa=default"], tensors=store)
        (row,) = report.rows
        assert row.status == "ok" and row.verdict in CALM, row
        assert row.metrics["outputs"] == count


def test_a_captured_graph_has_no_program_to_go_back_through(store: TensorStore) -> None:
    graph = mindgap.capture(model(), (torch.randn(16, 8),), tensors=store)
    with pytest.raises(MindgapError, match="backward: not for a graph"):
        mindgap.diff(graph, platforms=["cpu/eager"], backward=True)


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MINDGAP_HOME": str(cwd / "home")}
    return subprocess.run(
        [sys.executable, "-m", "mindgap", *arguments],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip


@pytest.mark.nightly
def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    done = run("capture", "model.py:make", "--optimizer", "adamw", "-o", "step.graph", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"aten.addcdiv_.default": 4' in done.stdout and '"aten.gelu_backward.default": 1' in done.stdout
    done = run("diff", "model.py:make", "--backward", "-p", "cpu/eager@isa=default", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"verdict": "rounding"' in done.stdout or '"verdict": "identical"' in done.stdout
    done = run("diff", "graph:step.graph", "--backward", "-p", "cpu/eager", cwd=tmp_path)
    assert "it is a graph already" in done.stderr
    done = run("capture", "model.py:make", "--optimizer", "lion", "-o", "x.graph", cwd=tmp_path)
    assert done.returncode == 2 and "--optimizer lion: sgd or adamw" in done.stderr
