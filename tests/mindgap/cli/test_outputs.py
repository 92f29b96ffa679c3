"""Paths of results are checked before a run; each result is written although another cannot be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from cli.command_line import MODELS, mindgap
from mindgap.cli import main
from mindgap.cli.outputs import check_local
from mindgap.graph import MindgapError

HANGS = """

def hangs():
    class Hangs(torch.nn.Module):
        def forward(self, x):
            while True:
                pass

    return Hangs(), (torch.ones(3),)
"""


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--html", "nowhere/page.html"], "there is no directory nowhere"),
        (["--junit", "."], "it is a directory"),
        (["--store", "models.py"], "models.py"),
        (["--store", "new", "-p", "cpu/nonsense"], "cpu/nonsense"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], more: list[str], says: str
) -> None:
    (tmp_path / "models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    assert main(["diff", "models.py:calm", "-p", "cpu/jit", *more]) == 2
    said = capfd.readouterr().err
    assert says in said and len(said.splitlines()) == 1, said
    assert os.listdir(tmp_path) == ["models.py"]


@pytest.mark.nightly
def test_a_page_that_cannot_be_written_costs_only_itself(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(MODELS)
    wanted = ("--html", "/dev/full", "--junit", "junit.xml", "--json")
    ran = mindgap("diff", "models.py:calm", "-p", "cpu/jit", *wanted, cwd=tmp_path)
    assert ran.status == 2
    assert "mindgap: /dev/full cannot be written: No space left on device" in ran.err.splitlines()
    assert len(json.loads(ran.out)["rows"]) == 1
    assert ET.parse(tmp_path / "junit.xml").getroot().get("tests") == "1"


@pytest.mark.nightly
def test_a_home_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(MODELS + "\n\ndef big(): return torch.nn.Linear(64, 64), (torch.ones(64),)\n")
    (tmp_path / "home").write_text("a file")
    ran = mindgap("diff", "models.py:big", "-p", "cpu/jit", cwd=tmp_path)
    assert ran.status == 2 and "MINDGAP_HOME" in ran.err and "Traceback" not in ran.err


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_an_interrupted_run_prints_what_is_known_and_leaves_nothing(tmp_path: Path, how: signal.Signals) -> None:
    (tmp_path / "models.py").write_text(MODELS + HANGS)
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "MINDGAP_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "temporary")}
    # --jobs 1: captures wait for each other, and with two threads the one that never ends may be first.
    command = [sys.executable, "-m", "mindgap", "diff", "models.py:calm", "models.py:hangs", "-p", "cpu/jit",
               "--no-own-path", "--json", "--deadline", "250", "--jobs", "1"]  # fmt: skip
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # A shell starts what runs in the background with SIGINT ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as run:  # fmt: skip
        assert run.stderr is not None and run.stdout is not None
        # A log that is no terminal gets a line every 15 s.
        assert any("1/2" in line for line in run.stderr)
        run.send_signal(how)
        out, said = run.communicate()
    assert run.returncode == 128 + how, said
    assert "interrupted: what follows is what was known" in said
    assert [row["model"] for row in json.loads(out)["rows"]] == ["models:calm"]
    # PyTorch makes a cache directory of its own there.
    assert [name for name in os.listdir(tmp_path / "temporary") if "mindgap" in name] == []


def test_an_output_that_cannot_be_written_is_one_line_and_status_2() -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "mindgap", "--version"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ran.returncode == 2
    assert ran.stderr.startswith("mindgap: a file cannot be used: No space left on device")


def test_a_command_without_standard_output_ends_as_with_one() -> None:
    command = f"{sys.executable} -m mindgap --version >&-"
    ran = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_url_where_a_directory_is_needed_is_refused_by_its_name() -> None:
    with pytest.raises(
        MindgapError, match=r"--out s3://bucket/name: a directory of this machine is needed; use --store"
    ):
        check_local("--out", Path("s3://bucket/name"), "use --store")
    check_local("--out", Path("out/s3"), "use --store")
