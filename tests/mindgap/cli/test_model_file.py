"""`mindgap capture -o FILE.mindgap` writes a file that another machine runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.command_line import mindgap

MODEL = """
import torch

def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()).eval(), (torch.randn(4, 64),)
"""


@pytest.mark.nightly
def test_a_model_travels_to_a_machine_without_its_code(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    (here / "models.py").write_text(MODEL)
    ran = mindgap("capture", "models.py:net", "-o", "net.mindgap", cwd=here)
    assert ran.status == 0, ran.err
    (here / "net.mindgap").rename(there / "net.mindgap")
    ran = mindgap("diff", "net.mindgap", "-p", "cpu/jit", "--store", "results", "--json", cwd=there)
    assert ran.status == 0, ran.err
    (row,) = json.loads(ran.out)["rows"]
    assert (row["model"], row["verdict"]) == ("models:net", "identical")
    # The store that comes back names the model.
    (there / "results").rename(here / "results")
    ran = mindgap("report", "results", "-o", "page.html", cwd=here)
    assert ran.status == 0 and "models:net" in (here / "page.html").read_text()


@pytest.mark.nightly
def test_a_graph_without_weights_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(MODEL)
    ran = mindgap("capture", "models.py:net", "-o", "net.mindgap", "--no-weights", cwd=tmp_path)
    assert ran.status == 0, ran.err
    ran = mindgap("diff", "net.mindgap", "-p", "cpu/jit", cwd=tmp_path, home=tmp_path / "other")
    assert ran.status == 2 and "written without weights" in ran.err
    ran = mindgap("capture", "models.py:net", "-o", "net.graph", "--no-weights", cwd=tmp_path)
    assert ran.status == 2 and "--no-weights is for FILE.mindgap" in ran.err and ran.err.count("\n") == 1
