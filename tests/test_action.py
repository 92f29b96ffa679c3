"""The GitHub action: its shell steps, run as the runner runs them, on a small model."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
MODEL = """
import torch

def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()).eval(), (torch.randn(4, 8),)
"""
WRONG = '[[fault]]\nkind = "scaled"\nfactor = 2.0\nwhen = { op = "aten.tanh.*" }\n'


@dataclass(frozen=True)
class Ran:
    """The status of the last step that ran, all output, the action's outputs and its summary."""

    status: int
    said: str
    outputs: dict[str, str]
    summary: str


def run_action(folder: Path, **inputs: str) -> Ran:
    """Runs the steps until one fails, with the inputs and contexts substituted."""
    given = {name: str(about.get("default", "")) for name, about in ACTION["inputs"].items()}
    given |= {"version": "installed", **inputs}
    unset = [name for name, about in ACTION["inputs"].items() if about.get("required") and name not in inputs]
    assert not unset
    values = {f"inputs.{name}": value for name, value in given.items()} | {"github.action_path": str(ROOT)}
    (folder / "model with space.py").write_text(MODEL)
    (folder / "wrong.toml").write_text(WRONG)
    output, summary = folder / "output", folder / "summary"
    output.write_text(""), summary.write_text("")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    runner = {"PATH": path, "GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    said, status, found = "", 0, {}
    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an input within a script would be run by the shell"
        variables = {name: substituted(text, values) for name, text in step.get("env", {}).items()}
        environment = {**os.environ, "MINDGAP_HOME": str(folder / "home"), "COLUMNS": "200", **runner, **variables}
        (folder / "step.sh").write_text(step["run"])
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "step.sh"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        said, status = said + done.stdout + done.stderr, done.returncode
        if "id" in step:
            lines = [line.partition("=") for line in output.read_text().splitlines()]
            found |= {f"steps.{step['id']}.outputs.{name}": value for name, _, value in lines}
        if status:
            break
    outputs = {name: substituted(about["value"], found) for name, about in ACTION["outputs"].items()}
    return Ran(status, said, outputs, summary.read_text())


def substituted(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda match: values.get(match[1], ""), text)


@pytest.mark.nightly
def test_a_calm_model_passes(tmp_path: Path) -> None:
    options = "--allow cpu/jit: float32 products in bfloat16\n--no-own-path"
    sources = "\n  model with space.py:make \t\r\n  \n"
    ran = run_action(tmp_path, sources=sources, platforms="cpu/jit\ncpu/eager", options=options)
    assert ran.status == 0, ran.said
    assert ran.outputs["status"] == "0" and ran.outputs["new-findings"] == "0"
    assert ET.parse(tmp_path / ran.outputs["junit"]).getroot().get("tests") == "2"
    assert "<html" in (tmp_path / ran.outputs["html"]).read_text()
    assert json.loads((tmp_path / ran.outputs["sarif"]).read_text())["runs"][0]["results"] == []
    assert "cpu/jit" in ran.summary and "mindgap 0" in ran.said


@pytest.mark.nightly
def test_a_finding_fails_and_a_baseline_accepts_it(tmp_path: Path) -> None:
    wanted = {"sources": "model with space.py:make", "platforms": f"faulty/eager@faults={tmp_path}/wrong.toml"}
    found = run_action(tmp_path, **wanted, options="--baseline known.json --update-baseline --no-trace")
    assert found.status == 0, found.said
    again = run_action(tmp_path, **wanted, options="--no-trace")
    assert again.status == 1, again.said
    assert again.outputs["status"] == "1" and again.outputs["new-findings"] == "1"
    assert len(json.loads((tmp_path / again.outputs["sarif"]).read_text())["runs"][0]["results"]) == 1
    assert "discrepant" in again.summary
    known = run_action(tmp_path, **wanted, options="--no-trace", baseline="known.json")
    assert known.status == 0, known.said
    assert known.outputs["new-findings"] == "0"


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"platforms": "cpu/jot"}, "no platform 'cpu/jot'"),
        ({"platforms": "cpu/jit", "sources": "$(touch evil)"}, "$(touch evil)"),
        ({"platforms": "cpu/jit", "baseline": "missing.json"}, "no baseline missing.json"),
    ],
)
def test_wrong_inputs_are_status_2_and_run_nothing(tmp_path: Path, inputs: dict[str, str], says: str) -> None:
    ran = run_action(tmp_path, **{"sources": "model with space.py:make", **inputs})
    assert ran.status == 2, ran.said
    assert ran.outputs["status"] == "2"
    assert says in ran.said
    assert says in ran.summary
    for name in ("html", "junit", "sarif"):
        assert not ran.outputs[name] or (tmp_path / ran.outputs[name]).is_file(), f"{name} names no file"
    assert not (tmp_path / "evil").exists()
