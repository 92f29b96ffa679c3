"""`--verbose` and `MINDGAP_LOG` show what the command and its worker processes do, on standard error alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cli.command_line import MODELS, mindgap

LINE = re.compile(r"^\S+ \S+ (\d+) (\w+) (mindgap[\w.]*): (.*)$", re.MULTILINE)


@pytest.mark.nightly
def test_verbose_shows_the_command_and_its_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models.py").write_text(MODELS)
    diff = ("diff", "models.py:calm", "-p", "cpu/eager@threads=1", "--json")
    quiet, loud = mindgap(*diff, cwd=tmp_path), mindgap(*diff, "--verbose", cwd=tmp_path)
    assert quiet.status == loud.status == 0 and not LINE.findall(quiet.err) and not LINE.findall(loud.out)
    lines = LINE.findall(loud.err)
    assert {level for _, level, _, _ in lines} == {"INFO"}
    (command,) = [pid for pid, _, name, _ in lines if name == "mindgap.cli.app"]
    workers = {pid for pid, _, name, _ in lines if name == "mindgap.run.server"}
    assert workers and command not in workers
    monkeypatch.setenv("MINDGAP_LOG", "shout")
    wrong = mindgap("platforms", cwd=tmp_path)
    assert wrong.status == 2 and "MINDGAP_LOG=shout: it takes one of DEBUG, INFO" in wrong.err
