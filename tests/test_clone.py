"""A clone named `mindgap`, below a folder with a space and an umlaut in its name, works as one with another name."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_PROGRAMS = """
import ctypes, time, torch
class Crashes(torch.nn.Module):
    def forward(self, x): ctypes.string_at(0)
class Hangs(torch.nn.Module):
    def forward(self, x):
        while True: time.sleep(1)
def crashes(): return Crashes(), (torch.ones(3),)
def hangs(): return Hangs(), (torch.ones(3),)
def right(): return torch.nn.ReLU(), (torch.ones(3),)
def wrong(): return torch.nn.Tanh(), (torch.ones(3),)
"""


_FAULTS = '[[fault]]\nkind = "scaled"\nfactor = 1.5\nwhen = { op = "aten.tanh*" }\n'


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    clone = tmp_path / "ü b" / "mindgap"
    shutil.copytree(_ROOT / "src", clone / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (clone / "übung.py").write_text(_PROGRAMS, encoding="utf-8")
    (clone / "faults.toml").write_text(_FAULTS)
    return clone


def _mindgap(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(clone / "src"), "MINDGAP_HOME": str(clone / "home")}
    command = [sys.executable, "-m", "mindgap", *arguments]
    return subprocess.run(command, cwd=clone, env=variables, capture_output=True, text=True, check=False)


def test_a_crash_and_a_hang_in_a_clone_named_mindgap_have_the_users_line(clone: Path) -> None:
    sources = [f"übung.py:{name}" for name in ("crashes", "hangs", "right")]
    ran = _mindgap(clone, "diff", *sources, "-p", "cpu/jit", "--deadline", "10", "--html", "page.html")
    assert ran.returncode == 2, ran.stderr
    assert "killed by SIGSEGV while capturing it (übung.py:4)" in ran.stderr
    assert "no answer within 10 s, while capturing it (übung.py:7)" in ran.stderr
    assert "übung:right\n  cpu/jit  identical" in ran.stdout
    assert (clone / "page.html").is_file()


@pytest.mark.nightly
def test_what_reduce_writes_in_such_a_clone_finds_the_fault_again_by_the_command_that_it_prints(clone: Path) -> None:
    platform = ("-p", "faulty/eager@faults=faults.toml")
    ran = _mindgap(clone, "reduce", "übung.py:wrong", *platform, "--out", "red uced")
    assert ran.returncode == 1 and "no short script; found again by\n" in ran.stdout, ran.stdout + ran.stderr
    printed = shlex.split(ran.stdout.partition("found again by\n")[2].splitlines()[0])
    assert printed[:2] == ["mindgap", "diff"] and (clone / printed[2]).is_file()
    again = _mindgap(clone, *printed[1:])
    assert again.returncode == 1 and "culprit  aten.tanh.default" in again.stdout, again.stdout + again.stderr
    assert _mindgap(clone, "corpus", "build", "cat alog", "übung.py:wrong", "-j", "1").returncode == 0
    assert "übung.py:wrong" in _mindgap(clone, "corpus", "list", "cat alog").stdout
