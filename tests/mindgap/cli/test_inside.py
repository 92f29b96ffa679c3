"""A refused program names the submodules that can be captured, and the command that it prints works."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from cli.command_line import mindgap

MODEL = """
import torch
from torch import nn

class Loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x):
        while x.sum() < 100:  # line 11
            x = self.step(x) + 1
        return x

def loop():
    torch.manual_seed(0)
    return Loop().eval(), (torch.ones(2, 4),)
"""


@pytest.mark.nightly
def test_the_way_on_of_a_loop_is_a_command_that_works(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(MODEL)
    ran = mindgap("capture", "models.py:loop", "-o", "loop.mindgap", cwd=tmp_path)
    assert ran.status == 2 and ran.err.count("\n") == 1, ran.err
    assert "models.py:11" in ran.err and "step (Sequential, 2 nodes, 100% of the parameters" in ran.err
    command = re.search(r"for example: mindgap (.*)$", ran.err.strip())
    assert command is not None
    ran = mindgap(*shlex.split(command[1].replace("FILE.mindgap", "step.mindgap")), cwd=tmp_path)
    assert ran.status == 0 and ran.out.startswith("step.mindgap: models:loop/step, 2 nodes"), ran.err


@pytest.mark.nightly
def test_diff_compares_a_submodule_alone(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(MODEL)
    ran = mindgap("diff", "models.py:loop", "--inside", "step.0", "-p", "cpu/jit", "--json", cwd=tmp_path)
    assert ran.status == 0, ran.err
    (row,) = json.loads(ran.out)["rows"]
    assert (row["model"], row["verdict"]) == ("models:loop/step.0", "identical")
