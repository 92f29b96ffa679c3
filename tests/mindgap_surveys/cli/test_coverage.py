"""`mindgap coverage`, as a shell sees it."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest

from cli.command_line import mindgap
from mindgap.graph import MindgapError
from mindgap_surveys.cli.coverage import coverage

SAMPLES = """
import torch
def soft(): return torch.nn.Sequential(torch.nn.Softmax(-1), torch.nn.GELU()), (torch.rand(2, 3),)
"""


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coverage")
    (folder / "m.py").write_text(SAMPLES)
    ran = mindgap("corpus", "build", folder / "c", f"{folder / 'm.py'}:soft", "-j", "1", cwd=folder)
    assert ran.status == 0, ran.err
    return folder / "c"


@pytest.mark.nightly
def test_a_platform_that_is_here_and_one_that_is_not(catalogue: Path, tmp_path: Path) -> None:
    argv = ("coverage", "cpu/jit", "mps/eager", "--catalogue", catalogue)
    ran = mindgap(*argv, "--json", cwd=tmp_path)
    assert ran.status == 0, ran.err
    here, absent = json.loads(ran.out)
    assert here["platform"] == "cpu/jit" and here["packets"]["runs"] == sum(here["packets"].values()) >= 2
    assert here["calls"]["runs"] > here["overloads"]["runs"] and here["dtypes"]["float64"]["asked"] >= 2
    assert here["cpu_seconds"] > 0 and here["lacks"] == []
    assert absent["available"] is False and absent["reason"]
    again = mindgap(*argv, "--missing", cwd=tmp_path)
    assert again.status == 0 and "mps/eager is not here" in again.out and "asked for 0.0 processor seconds" in again.out


@pytest.mark.nightly
def test_two_environments_say_what_the_later_gains_and_loses(catalogue: Path, tmp_path: Path) -> None:
    assert mindgap("env", "create", "same", "--python", sys.executable, cwd=tmp_path).status == 0
    argv = ("coverage", "cpu/jit", "cpu/jit@env=same", "--catalogue", catalogue)
    ran = mindgap(*argv, "--json", cwd=tmp_path)
    assert ran.status == 0, ran.err
    here, same = json.loads(ran.out)
    assert "against" not in here
    assert same["against"] == {"platform": "cpu/jit", "gained": [], "lost": []}
    assert here["fingerprint"] != same["fingerprint"] and same["calls"]["runs"] == here["calls"]["runs"]
    told = mindgap(*argv, cwd=tmp_path).out
    assert "what cpu/jit@env=same loses against cpu/jit\nno rows: nothing" in told


@pytest.mark.nightly
def test_nothing_to_ask_is_wrong_use(catalogue: Path, tmp_path: Path) -> None:
    wrong = {
        ("coverage", "mps/eager", "--catalogue", str(catalogue)): "no platform could be asked",
        ("coverage", "cpu/nonsense", "--catalogue", str(catalogue)): "no platform",
        ("coverage", "cpu/jit", "--catalogue", str(tmp_path / "none")): "no store",
    }
    for argv, says in wrong.items():
        ran = mindgap(*argv, cwd=tmp_path)
        assert ran.status == 2 and says in ran.err and len(ran.err.strip().splitlines()) == 1, (argv, ran)


def test_options_that_have_nothing_to_show_are_refused(tmp_path: Path) -> None:
    """Each call ends before anything is imported that takes long."""
    platforms = ["cpu/jit"]
    for wrong, says in (
        (partial(coverage), "name a platform"),
        (partial(coverage, names=True, static=True), "name a platform"),
        (partial(coverage, platforms, names=True, csv=tmp_path / "x.csv"), "leave --names out"),
        (partial(coverage, static=True, html=tmp_path / "x.html"), "takes --html: name platforms"),
        (partial(coverage, static=True, missing=True), "takes --missing: name platforms"),
        (partial(coverage, platforms, names=True, store=tmp_path, budget="1m"), "takes --store, --budget: name"),
        (partial(coverage, platforms, names=True, catalogue=tmp_path, jobs=1), "takes --catalogue, --jobs: name"),
        (partial(coverage, platforms, names=True, judge=False, static=True), "takes --no-judge, --static: name"),
        (partial(coverage, platforms, names=True, missing=True), "takes --missing: .* leave --names out"),
        (partial(coverage, platforms, html=tmp_path / "none" / "x.html"), "there is no directory"),
    ):
        with pytest.raises(MindgapError, match=says):
            wrong()
