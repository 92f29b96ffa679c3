"""Operands that a platform may fold stand in the model of a short script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mindgap.findings.script.form import NoShortScript, ScriptForm, script_source
from mindgap.findings.script.script_platform import ScriptPlatform
from mindgap.findings.script.short import ShownCase, with_cases
from mindgap.graph import Constant, Graph, Input, Node, Ref, TensorSpec

SPEC = TensorSpec.contiguous("float32", (2,))
NODE = Node("aten.add.Tensor", (Ref(0), Ref(1)), (), (SPEC,))
GRAPH = Graph((Input(SPEC, Constant(1.0)), Input(SPEC, Constant(2.0), "constant")), (NODE,), (2,))


def test_constants_are_buffers_and_the_script_runs(tmp_path: Path) -> None:
    form = ScriptForm("a title", ScriptPlatform("cpu/jit"), kind="fails")
    text = script_source(with_cases(form, [ShownCase("smallest", GRAPH)], held=True))
    assert 'self.register_buffer("x1", torch.full((2,), 2.0' in text and "def forward(self, x0):" in text
    assert text.count("torch.full((2,), 2.0") == 1 and "self.x1" in text
    (tmp_path / "script.py").write_text(text)
    ran = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "NO FAULT"), ran.stderr


def test_buffers_go_to_the_device_with_the_operands() -> None:
    form = ScriptForm("a title", ScriptPlatform("mps/eager"), kind="fails")
    text = script_source(with_cases(form, [ShownCase("smallest", GRAPH)], held=True))
    assert 'device = "mps"\n    found = model.to(device)(*(a.to(device) for a in fresh()))' in text


def test_without_constants_or_for_a_result_there_is_no_such_script() -> None:
    plain = Graph((GRAPH.inputs[0], Input(SPEC, Constant(2.0))), (NODE,), (2,))
    for graph, kind in ((plain, "fails"), (GRAPH, "wrong")):
        cases = [ShownCase("smallest", graph)]
        with pytest.raises(NoShortScript):
            with_cases(ScriptForm("a title", ScriptPlatform("cpu/jit"), kind=kind), cases, held=True)  # type: ignore[arg-type]
