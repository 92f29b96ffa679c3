"""Paths, numbers and directories that cannot be used are refused before a run; a terminated command leaves no file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.command_line import MODELS, mindgap
from mindgap.cli import main

PLAN = 'seed = 1\ncatalogue = "cat"\n[variants]\ncount = 1\n[platforms]\n"cpu/jit" = {}\n'
DIFF = ["models.py:calm", "-p", "cpu/jit"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with a model and a plan."""
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))
    return tmp_path


def refused(capfd: pytest.CaptureFixture[str], *command: str) -> str:
    """Runs a command that must be refused with one line on standard error; returns the line."""
    capfd.readouterr()
    assert main(list(command)) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1, said.err
    return said.err


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            ["campaign", "show", "there", "v000001", "-o", "no/case.py"],
            "--output no/case.mindgap: there is no directory",
        ),
        (["campaign", "run", "plan.toml", "--out", "models.py/out"], "--out models.py/out: "),
        (["campaign", "export", "there", "no/cases.bundle"], "BUNDLE no/cases.bundle: there is no directory no"),
        (["campaign", "reduce", "there", "--out", "models.py/out"], "--out models.py/out: "),
        (["corpus", "build", "models.py/cat", "ops:add"], "CATALOGUE models.py/cat: "),
        (["corpus", "show", "there", "ops:add", "-o", "no/add.graph"], "--output no/add.graph: there is no directory"),
        (["synth", "there", "--out", "no/lines.json"], "--out no/lines.json: there is no directory no"),
        (["synth", "there", "--pool", "."], "--pool .: it is a directory; name a file"),
        (["trace", *DIFF, "--html", "no/page.html"], "--html no/page.html: there is no directory no"),
        (["study", "gap", "there", "--csv", "models.py/csv"], "--csv models.py/csv: "),
        (["coverage", "cpu/jit", "--store", "models.py/store"], "--store models.py/store: "),
    ],
)
def test_paths_are_checked_first(
    folder: Path, capfd: pytest.CaptureFixture[str], command: list[str], says: str
) -> None:
    assert says in refused(capfd, *command)
    assert sorted(os.listdir(folder)) == ["models.py", "plan.toml"]


@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize(
    "command",
    [
        ["diff", *DIFF, "--deadline"],
        ["trace", *DIFF, "--deadline"],
        ["reduce", *DIFF, "--deadline"],
        ["reduce", *DIFF, "--seconds"],
        ["metamorphic", *DIFF, "--deadline"],
        ["capture", "models.py:calm", "-o", "calm.graph", "--deadline"],
        ["corpus", "build", "cat", "ops:add", "--cpu"],
        ["corpus", "build", "cat", "ops:add", "--memory"],
        ["synth", "cat", "--mutated"],
        ["synth", "cat", "--large"],
        ["coverage", "cpu/jit", "--budget"],
        ["campaign", "run", "plan.toml", "--coverage-minutes"],
        ["campaign", "reduce", "there", "--out", "out", "--seconds"],
        ["causes", "check", "there", "--seconds"],
        ["diff", *DIFF, "--budget"],
    ],
)
def test_numbers_are_finite(folder: Path, capfd: pytest.CaptureFixture[str], command: list[str], value: str) -> None:
    said = refused(capfd, *command, value)
    assert command[-1] in said, said
    assert sorted(os.listdir(folder)) == ["models.py", "plan.toml"]


def test_a_plan_takes_no_nan(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "plan.toml").write_text(PLAN + "[limits]\ndeadline_s = nan\n")
    assert "deadline_s" in refused(capfd, "campaign", "run", "plan.toml", "--out", "out")


@pytest.mark.parametrize("text", ["0", "-1", "10x", "m", "1h30m"])
def test_a_budget_is_a_time(folder: Path, capfd: pytest.CaptureFixture[str], text: str) -> None:
    assert f"--budget {text}: it takes a time" in refused(capfd, "diff", *DIFF, f"--budget={text}")


@pytest.mark.nightly
@pytest.mark.parametrize("command", [["coverage", "cpu/jit"], ["capture", "models.py:big", "-o", "big.mindgap"]])
def test_a_home_that_cannot_be_written_is_one_line(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "models.py").write_text(MODELS + "\n\ndef big(): return torch.nn.Linear(64, 64), (torch.ones(64),)\n")
    # Nobody makes a directory there, root neither.
    ran = mindgap(*command, cwd=tmp_path, home=Path("/sys/mindgap"))
    assert ran.status == 2, ran.err
    assert "/sys/mindgap" in ran.err and "MINDGAP_HOME" in ran.err and "Traceback" not in ran.err
    assert sum(line.startswith("mindgap: ") for line in ran.err.splitlines()) == 1, ran.err


ENDLESS = """
import pathlib, torch

class Endless(torch.nn.Module):
    def forward(self, x):
        pathlib.Path("started").touch()
        while True:
            pass

def endless(): return Endless(), (torch.ones(3),)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    ["diff", "capture", *(pytest.param(c, marks=pytest.mark.nightly) for c in ("trace", "reduce", "metamorphic"))],
)
def test_a_terminated_command_leaves_no_file(tmp_path: Path, command: str) -> None:
    (tmp_path / "models.py").write_text(ENDLESS)
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "MINDGAP_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "temporary")}
    more = ["-o", "x.graph"] if command == "capture" else ["-p", "cpu/jit"]
    shared = set(os.listdir("/dev/shm"))
    line = [sys.executable, "-m", "mindgap", command, "models.py:endless", *more]
    with subprocess.Popen(line, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as run:
        until = time.monotonic() + 200
        while not (tmp_path / "started").exists() and time.monotonic() < until:
            time.sleep(0.1)
        # CI systems send it more than once.
        run.send_signal(signal.SIGTERM)
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=60)
    assert run.returncode == 128 + signal.SIGTERM, said
    assert "interrupted" in said and "Traceback" not in said
    assert [name for name in os.listdir(tmp_path / "temporary") if "mindgap" in name] == []
    assert {name for name in set(os.listdir("/dev/shm")) - shared if "mindgap" in name or "torch" in name} == set()
    assert sorted(set(os.listdir(tmp_path)) - {"__pycache__"}) == ["home", "models.py", "started", "temporary"]
    assert not list((tmp_path / "home").rglob(".put-*"))
