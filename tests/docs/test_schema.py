"""The published JSON schema: made from the dataclasses, and what real outputs keep."""

from __future__ import annotations

import copy
import json
import math
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mindgap.cli import main
from report.report_sample import sample, with_three_faults

ROOT = Path(__file__).parents[2]
PUBLISHED: dict[str, Any] = json.loads((ROOT / "docs" / "schema" / "report-1.json").read_text(encoding="utf-8"))
MODEL = """
import torch

class Broken(torch.nn.Module):
    def forward(self, x):
        raise ValueError("broken")

def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()).eval(), (torch.randn(4, 8),)

def broken():
    return Broken(), (torch.randn(4),)
"""
WRONG = '[[fault]]\nkind = "scaled"\nfactor = 2.0\nwhen = { op = "aten.tanh.*" }\n'


def closed(schema: Any) -> Any:
    """Returns a schema that allows no field that it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(each) for key, each in schema.items()}
    return {"additionalProperties": False, **inner} if "properties" in schema and "type" in schema else inner


CLOSED = jsonschema.Draft202012Validator(closed(PUBLISHED))


def problems(text: str) -> list[str]:
    return [f"{'.'.join(map(str, each.path))}: {each.message[:200]}" for each in CLOSED.iter_errors(json.loads(text))]


def test_it_is_what_the_dataclasses_give() -> None:
    made = runpy.run_path(str(ROOT / "tools" / "json_schema.py"))["schema"]()
    assert made == PUBLISHED, "run tools/json_schema.py"
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)


def test_reports_with_every_word_keep_it() -> None:
    for report in (sample(), with_three_faults()):
        assert problems(report.to_json()) == []


def test_what_is_not_finite_keeps_it() -> None:
    report = sample()
    row = replace(
        report.rows[3], metrics={"max_abs": math.inf, "relative_error": math.nan}, timings={"judge": math.inf}
    )
    assert problems(replace(report, rows=(row,)).to_json()) == []


def test_real_outputs_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))
    Path("model.py").write_text(MODEL)
    Path("wrong.toml").write_text(WRONG)
    platforms = ["-p", "faulty/eager@faults=wrong.toml", "-p", "cpu/jit", "-p", "onnxruntime/cpu"]
    assert main(["diff", "model.py:make", "model.py:broken", *platforms, "--json"]) == 1
    text = capfd.readouterr().out
    assert problems(text) == []
    report = json.loads(text)
    assert report["refused"] and report["totals"]["findings"] == 1
    (finding,) = [row for row in report["rows"] if row["finding"]]
    assert finding["culprit"]["op"] == "aten.tanh.default" and finding["around"] and finding["faults"]


def test_what_does_not_keep_it_is_named() -> None:
    right = json.loads(sample().to_json())
    for break_it in (
        lambda data: data["rows"][0].pop("verdict"),
        lambda data: data["rows"][0].update(verdict="wrong"),
        lambda data: data.update(schema=2),
        lambda data: data["models"][0].update(nodes="60"),
        lambda data: data["totals"].pop("new"),
    ):
        wrong = copy.deepcopy(right)
        break_it(wrong)
        assert problems(json.dumps(wrong))
