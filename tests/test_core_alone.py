"""Compares a model in an environment with PyTorch and the dependencies of `mindgap` alone."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from importlib.metadata import distribution
from pathlib import Path

import pytest

#: Distributions that only extras bring, and what imports them.
ABSENT = ("altair", "duckdb", "fsspec", "pyarrow", "vl-convert-python")
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment whose packages are links to this one's, without those of extras."""
    folder = tmp_path_factory.mktemp("alone") / "venv"
    venv.create(folder)
    left_out = {Path(str(file)).parts[0] for name in ABSENT for file in distribution(name).files or ()}
    (packages,) = folder.glob("lib/python*/site-packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if entry.name not in left_out and not (packages / entry.name).exists():
            (packages / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


def run(python: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "MINDGAP_HOME": str(home), "PYTHONPATH": ""}
    command: Sequence[str] = [str(python), "-m", "mindgap", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=variables, cwd=ROOT, timeout=200)


def test_libraries_of_extras_are_not_there(python: Path) -> None:
    for module in ("altair", "duckdb", "pyarrow", "vl_convert", "fsspec"):
        assert subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode, module
    assert subprocess.run([python, "-c", "import torch, pydantic"], capture_output=True).returncode == 0


def test_a_model_is_compared(python: Path, tmp_path: Path) -> None:
    ran = run(python, tmp_path, "diff", "examples/my_model.py:make", "-p", "cpu/jit")
    assert ran.returncode == 0, ran.stderr
    assert "1 model × 1 platform against cpu/eager: 1 identical; 0 findings" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "needs"),
    [
        (("diff", "examples/my_model.py:make", "-p", "cpu/jit", "--store", "STORE"), "mindgap[store]"),
        (("coverage", "cpu/jit"), "mindgap[store]"),
        (("report", "STORE", "-o", "page.html"), "mindgap["),
        (("study", "gap", "STORE"), "mindgap["),
    ],
)
def test_what_needs_more_names_the_extra(python: Path, tmp_path: Path, arguments: tuple[str, ...], needs: str) -> None:
    given = [str(tmp_path / each.lower()) if each == "STORE" else each for each in arguments]
    ran = run(python, tmp_path, *given)
    (line,) = ran.stderr.strip().splitlines()
    assert ran.returncode == 2 and needs in line and sys.executable not in line
