"""The program that `mindgap demo` shows first: its export is wrong, and the answer names the line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.command_line import mindgap
from mindgap_campaign.demo import DEMO_PROGRAM


@pytest.mark.nightly
def test_the_first_finding_of_the_demonstration_is_its_export(tmp_path: Path) -> None:
    asked = ("diff", f"{DEMO_PROGRAM}:make", "-p", "onnxruntime/cpu", "-p", "cpu/jit", "--json")
    ran = mindgap(*asked, cwd=tmp_path, own_path=True)
    assert ran.status == 1, ran.err
    rows = {row["platform"]: row for row in json.loads(ran.out)["rows"]}
    assert rows["cpu/jit"]["verdict"] in ("identical", "rounding")
    assert rows["onnxruntime/cpu"]["verdict"] == "export"
    fault = next(n for n, line in enumerate(DEMO_PROGRAM.read_text().splitlines(), 1) if "is_compiling" in line)
    assert f"attention (text_classifier.py:{fault})" in json.dumps(rows["onnxruntime/cpu"])
