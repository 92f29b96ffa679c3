"""Operands that a platform may fold stand in the model of a short script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mindgap.graph import Constant, Graph, Input, Node, Ref, TensorSpec
from mindgap.script import Target
from mindgap.script.short import short_script

SPEC = TensorSpec.contiguous("float32", (2,))
NODE = Node("aten.add.Tensor", (Ref(0), Ref(1)), (), (SPEC,))
GRAPH = Graph((Input(SPEC, Constant(1.0)), Input(SPEC, Constant(2.0), "constant")), (NODE,), (2,))


def test_constants_are_buffers_and_the_script_runs(tmp_path: Path) -> None:
    text = short_script(GRAPH, Target("cpu/jit"), "a title", fails=True, held=True)
    assert text is not None
    assert 'self.register_buffer("x1", torch.full((2,), 2.0' in text and "def forward(self, x0):" in text
    assert "\nx1 = " not in text and "self.x1" in text
    (tmp_path / "script.py").write_text(text)
    ran = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "NO FAULT"), ran.stderr


def test_without_constants_or_for_a_result_there_is_no_such_script() -> None:
    plain = Graph((GRAPH.inputs[0], Input(SPEC, Constant(2.0))), (NODE,), (2,))
    assert short_script(plain, Target("cpu/jit"), "a title", fails=True, held=True) is None
    assert short_script(GRAPH, Target("cpu/jit"), "a title", held=True) is None
