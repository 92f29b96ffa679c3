"""`mindgap diff --budget`: what no time is left for is not run, and said so."""

from __future__ import annotations

import json
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from cli.command_line import MODELS, mindgap

HANG = '[[fault]]\nkind = "hang"\nseconds = 600\nwhen = { op = "aten.gelu.*" }\n'
ENDLESS = (
    MODELS
    + """

def endless():
    while True:
        pass
"""
)


@pytest.mark.nightly
def test_rows_that_no_time_was_left_for_are_not_run(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "hang.toml").write_text(HANG)
    hangs = f"faulty/eager@faults={tmp_path}/hang.toml"
    started = time.monotonic()
    ran = mindgap(
        "diff", "models.py:calm", "-p", "cpu/jit", "-p", hangs, "--budget", "35s", "--json", "--junit", "junit.xml",
        "--store", "store", "--html", "page.html", cwd=tmp_path,
    )  # fmt: skip
    # The deadline of a job is 300 s and the operator hangs for 600 s: what ends it is the budget.
    assert time.monotonic() - started < 250
    report = json.loads(ran.out)
    rows = {row["platform"].partition("@")[0]: row for row in report["rows"]}
    assert rows["cpu/jit"]["verdict"] == "identical"
    late = rows["faulty/eager"]
    assert (late["verdict"], late["word"], late["status"]) == (None, "not_run", "not_run")
    assert report["totals"]["words"] == {"identical": 1, "not_run": 1}
    assert ran.status == 2
    assert "1 of 2 rows were not run, or differ and were not judged: see their reasons" in ran.err
    assert ET.parse(tmp_path / "junit.xml").getroot().get("errors") == "1"
    assert "not run" in (tmp_path / "page.html").read_text()
    # The store has it as a run that was cut short.
    study = mindgap("study", "gap", "store", cwd=tmp_path)
    assert "has not come to its end" in study.err


@pytest.mark.nightly
def test_a_source_that_takes_all_the_time_is_refused(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(ENDLESS)
    ran = mindgap("diff", "models.py:endless", "models.py:calm", "-p", "cpu/jit", "--budget", "20s", cwd=tmp_path)
    assert ran.status == 2
    assert "refused: models.py:endless: not run: the time budget was used up while opening it" in ran.err
    assert "refused: models.py:calm: not run: the time budget was used up" in ran.err
    assert "NOTHING WAS COMPARED" in ran.err or "refused" in ran.err
