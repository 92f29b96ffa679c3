"""A clone named `mindgap`, below a folder with a space and an umlaut in its name, works as one with another name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
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
"""


def test_a_crash_and_a_hang_in_a_clone_named_mindgap_have_the_users_line(tmp_path: Path) -> None:
    clone = tmp_path / "ü b" / "mindgap"
    shutil.copytree(_ROOT / "src", clone / "src", ignore=shutil.ignore_patterns("__pycache__"))
    (clone / "übung.py").write_text(_PROGRAMS, encoding="utf-8")
    sources = [f"übung.py:{name}" for name in ("crashes", "hangs", "right")]
    variables = {**os.environ, "PYTHONPATH": str(clone / "src"), "MINDGAP_HOME": str(clone / "home")}
    ran = subprocess.run(
        [sys.executable, "-m", "mindgap", "diff", *sources, "-p", "cpu/jit", "--deadline", "10", "--html", "page.html"],
        cwd=clone, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 2, ran.stderr
    assert "killed by SIGSEGV while capturing it (übung.py:4)" in ran.stderr
    assert "no answer within 10 s, while capturing it (übung.py:7)" in ran.stderr
    assert "übung:right\n  cpu/jit  identical" in ran.stdout
    assert (clone / "page.html").is_file()
