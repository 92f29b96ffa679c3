"""Programs that are opened in another environment go the way of the platform's users there."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cli.command_line import mindgap
from mindgap.graph_capture import capture
from mindgap.judge.pipeline.own_path import QUANTISED_LEFT_OUT, with_own_path
from mindgap.own_path.client import OwnPathClient
from mindgap.own_path.failures import failure_of
from mindgap.own_path.runs import OwnRun
from mindgap.own_path.user_program import UserProgram
from mindgap.platforms.environments import find
from mindgap.platforms.name import parse
from mindgap.platforms.script_runner import ScriptRunner
from mindgap.results.rows import Row
from mindgap.run.local import failure

PROGRAM = """
import torch


class Asks(torch.nn.Module):
    def forward(self, x):
        return x + 1 if torch.onnx.is_in_onnx_export() else x


def make():
    return Asks(), (torch.arange(6.0).reshape(2, 3),)
"""


def quantised(x: torch.Tensor) -> torch.Tensor:
    return (torch.clamp(torch.round(x / 0.1) + 3, -128, 127).to(torch.int8).to(torch.float32) - 3) * 0.1


def floats(x: torch.Tensor) -> torch.Tensor:
    return x * 0.5


def test_an_export_in_the_capture_environment_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))
    (tmp_path / "asks.py").write_text(PROGRAM)
    assert mindgap("env", "create", "mine", "--python", sys.executable, cwd=tmp_path).status == 0
    ran = mindgap(
        "diff", "asks.py:make", "--capture-env", "mine", "-p", "onnxruntime/cpu", "--json", cwd=tmp_path, own_path=True
    )
    (row,) = json.loads(ran.out)["rows"]
    assert (ran.status, row["verdict"], row["own_path"]["status"]) == (1, "export", "differs"), ran.err
    assert "torch.onnx.export of the program in environment mine" in row["detail"]
    lacking = SimpleNamespace(check=lambda *_: None, versions=lambda *_: {"onnx": "1"}, name="bare", slower=1.0)
    with OwnPathClient(60.0, where=lacking) as client:  # pyright: ignore[reportArgumentType]
        run = UserProgram(client, f"{tmp_path}/asks.py:make").run(parse("onnxruntime/cpu"))
    assert run is not None and not run.fed and run.absent and "environment bare lacks onnx" in run.reason
    assert find("mine").name == "mine"


@pytest.mark.parametrize(("program", "absent", "left_out"), [(quantised, True, True), (quantised, False, False),
                                                             (floats, True, False)])  # fmt: skip
def test_a_quantised_program_whose_kernels_did_not_run_is_not_identical(
    program: Any, absent: bool, left_out: bool
) -> None:
    graph = capture(program, (torch.linspace(-1, 1, 12),))
    run = OwnRun(parse("executorch/cpu"), "torch.export.export", None, reason="no module q", fed=False, absent=absent)
    row = Row("model", run.platform, "ok", "identical")
    comparison: Any = SimpleNamespace(graph=graph)
    judged = with_own_path(comparison, row, run, lambda _: None, lambda: [np.zeros(1)])
    assert judged.own_path is not None and judged.own_path.detail == "no module q"
    if left_out:
        assert (judged.verdict, judged.unjudged, judged.own_path.status) == (None, True, "kernels_left_out")
        assert judged.detail == f"{QUANTISED_LEFT_OUT}: no module q"
    else:
        assert (judged.verdict, judged.own_path.status) == ("identical", "not_compared")
    wrong = replace(row, verdict="discrepant")
    assert with_own_path(comparison, wrong, run, lambda _: None, list).verdict == "discrepant"


def test_a_missing_program_is_not_available(tmp_path: Path) -> None:
    import subprocess

    try:
        subprocess.run(["flatc-that-is-not-there"], check=True)
    except FileNotFoundError as error:
        missing: Exception = error
    wrapped = RuntimeError("serialisation failed")
    wrapped.__cause__ = missing
    for error in (missing, wrapped):
        found = failure(error)
        assert (found["status"], found["op"]) == ("unsupported", None)
        assert found["message"] == "not available: the program flatc-that-is-not-there is not on the PATH"
    program: Any = None
    own = failure_of(wrapped, ScriptRunner("def run(model, fresh): ..."), program)
    assert own.ours and own.message.startswith("not available: the program flatc-that-is-not-there")
    try:
        (tmp_path / "absent.bin").read_bytes()
    except FileNotFoundError as error:
        assert failure(error)["status"] == "runtime_error", "a file is no program"


def test_programs_of_an_environment_are_found_there(tmp_path: Path) -> None:
    import subprocess

    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    (tmp_path / "mindgap").mkdir()
    (tmp_path / "mindgap" / "__init__.py").write_text("")
    (tmp_path / "shows.py").write_text("import shutil; print(shutil.which('flatc'))")
    tool = environment / "bin" / "flatc"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    import mindgap.platforms.environments.environment as module

    start = str(Path(module.__file__).with_name("start.py"))
    command = [str(environment / "bin" / "python"), start, str(tmp_path / "mindgap"), str(tmp_path), "shows"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(tool)
