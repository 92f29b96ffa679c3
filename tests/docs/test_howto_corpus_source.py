"""Runs the code of docs/corpus.md: the package is put on the path as an installed one would be."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import mindgap
from docs.page_sections import blocks

ROOT = Path(__file__).parents[2]
PAGE, HEADING = "corpus.md", "Add a corpus source"


@pytest.mark.nightly
def test_the_package_of_the_page_passes_its_own_test(tmp_path: Path) -> None:
    module, test = blocks(PAGE, HEADING, "python")
    [project] = [tomllib.loads(text)["project"] for text in blocks(PAGE, HEADING, "toml")]
    (tmp_path / "mlp_source.py").write_text(module)
    (tmp_path / "test_mlp_source.py").write_text(test)
    installed = tmp_path / f"mlp_source-{project['version']}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mlp-source\nVersion: {project['version']}\n")
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
    assert "4 passed" in ran.stdout


def test_an_entry_point_that_cannot_be_loaded_is_left_out_with_a_warning(tmp_path: Path) -> None:
    installed = tmp_path / "broken-0.1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.1\n")
    (installed / "entry_points.txt").write_text("[mindgap.sources]\nbroken = not_there:SCHEME\ntimm = os:getcwd\n")
    code = (
        "import warnings\n"
        "from mindgap.sources import SCHEMES, schemes\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    found = schemes()\n"
        "assert 'broken' not in found and set(SCHEMES) < set(found)\n"
        "assert found['timm'].opener.startswith('mindgap_zoo.')\n"
        "print(*[w.message for w in caught], sep='|')\n"
    )
    path = os.pathsep.join([str(tmp_path), str(Path(mindgap.__file__).parents[1])])
    ran = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert "mindgap.sources broken: not_there:SCHEME cannot be loaded" in ran.stdout
    assert "mindgap.sources timm: os:getcwd is no mindgap.sources.source.Scheme" in ran.stdout
