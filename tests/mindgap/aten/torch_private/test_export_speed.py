"""`torch.export` with what mindgap makes it remember: the same programs, and a new composite operator is seen."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, torch
from mindgap.aten.torch_private.export_speed import remember_composite_operators

class Layer(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.scaled_dot_product_attention(x, x, x).flatten(1).softmax(-1), torch.var(x, 1)

def program():
    made = torch.export.export(Layer(), (torch.ones(2, 3, 4),)).run_decompositions()
    return str(made.graph), str(made.graph_signature)

def listed():
    utils = importlib.import_module("torch.export.exported_program")
    return {str(each) for each in utils._collect_all_valid_cia_ops()}

before, known = program(), listed()
remember_composite_operators()
assert listed() == known and len(known) > 300, len(known)
assert program() == before == program()
library = torch.library.Library("mindgap_composite", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
assert listed() - known == {"mindgap_composite.twice.default"}
try:
    torch.ops.aten.addmm.default.py_impl(torch._C.DispatchKey.Meta)(lambda: 0)
    torch.ops.aten.addmm.default.py_impl(torch._C.DispatchKey.Meta)(lambda: 0)
except RuntimeError as error:
    print(error)
"""


@pytest.mark.nightly
def test_programs_are_the_same_and_new_operators_are_seen() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "override a python impl" in done.stdout
