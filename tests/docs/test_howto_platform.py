"""Runs the code of docs/howto/add-a-platform.md: the package is put on the path as an installed one would be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mindgap

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "add-a-platform.md"


TINY = ROOT / "tests" / "mindgap" / "platforms" / "tiny_device"
DEVICE = "## A device of PyTorch's (PrivateUse1)"


def blocks(language: str, device: bool = False) -> list[str]:
    """The code of the page in a language: of the section on a device of PyTorch's, or of what stands before it."""
    text = PAGE.read_text(encoding="utf-8").partition(DEVICE)[2 if device else 0]
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_package_for_a_device_is_the_one_that_the_tests_of_the_platform_run() -> None:
    assert blocks("python", device=True) == [(TINY / "mindgap_tiny.py").read_text()]
    assert blocks("toml", device=True) == [(TINY / "pyproject.toml").read_text()]


@pytest.mark.nightly  # The package of the page for a device runs in CI: tests/mindgap/platforms/test_third_party.py.
def test_the_package_of_the_page_passes_its_own_test(tmp_path: Path) -> None:
    module, test, runtime, run, more, test_more = blocks("python")
    entry, recipe = blocks("toml")
    project = tomllib.loads(entry)["project"]
    files = {
        "tiny_platform.py": module + more, "tiny_runtime.py": runtime, "tiny_run.py": run, "tiny.toml": recipe,
        "test_tiny_platform.py": test, "test_tiny_findings.py": test_more,
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    installed = tmp_path / f"tiny_platform-{project['version']}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tiny-platform\nVersion: {project['version']}\n")
    [(group, points)] = project["entry-points"].items()
    lines = [f"{name} = {value}" for name, value in points.items()]
    (installed / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    path = os.pathsep.join([str(tmp_path), str(Path(mindgap.__file__).parents[1])])
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path, "MINDGAP_HOME": str(tmp_path / "home")},
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "6 passed" in ran.stdout
