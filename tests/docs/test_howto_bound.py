"""Runs the code of docs/metrics.md in a process of its own, where the rule is registered once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import mindgap
from docs.page_sections import blocks
from mindgap.graph.operators import traits
from mindgap.judge.oracle.bounds import has_rule

HEADING = "Add an operator's traits and error bound"


@pytest.mark.nightly
def test_the_rule_of_the_page_is_calm_and_finds_a_fault(tmp_path: Path) -> None:
    rule, test = blocks("metrics.md", HEADING, "python")
    (tmp_path / "test_cross.py").write_text(f"{rule}\n\n{test}")
    path, home = str(Path(mindgap.__file__).parents[1]), str(tmp_path / "home")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path, "MINDGAP_HOME": home},
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout


def test_the_operator_of_the_page_has_traits_and_no_rule_yet() -> None:
    assert traits("aten.linalg_cross.default").family == "contractions"
    assert not has_rule("linalg_cross")
