"""A submodule of any source is a program of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindgap.graph_capture.parts import CapturablePart
from mindgap.sources import SourceError, capture_source, open_source
from mindgap.sources.submodules import described

MODELS = """
import torch
from torch import nn

class Loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x):
        while x.sum() < 100:
            x = self.step(x) + 1
        return x

def make(): return Loop(), (torch.ones(2, 4),)
def two(): return [make(), make()]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODELS)
    return tmp_path / "models.py"


def test_a_submodule_of_a_users_file(file: Path) -> None:
    ((name, graph),) = capture_source(f"{file}:make?inside=step.0")
    assert name == "models:make/step.0" and [node.op for node in graph.nodes] == ["aten.linear.default"]
    ((name, _),) = capture_source(f"{file}:two#1?inside=step&call=2")
    assert name == "models:two[1]/step#2"
    assert [one.source for one in open_source(f"{file}:two?inside=step")] == [
        f"{file}:two#0?inside=step", f"{file}:two#1?inside=step",
    ]  # fmt: skip


def test_a_submodule_of_a_zoo_has_the_weights_of_the_model() -> None:
    ((_, part),) = capture_source("timm:test_vit?inside=blocks.0.mlp")
    ((_, whole),) = capture_source("timm:test_vit")
    recipes = {name: given.recipe for name, given in zip(whole.labels.inputs, whole.inputs, strict=True)}
    names = dict(zip(part.labels.inputs, part.inputs, strict=True))
    assert names["fc1.weight"].recipe == recipes["blocks.0.mlp.fc1.weight"]


@pytest.mark.parametrize(("options", "reason"), [
    ("inside=", "name a submodule"), ("call=2", "name a submodule"), ("inside=step&call=0", "whole number from 1"),
    ("inside=stop", "inside=stop: the program has no submodule 'stop'.*there is step"),
    ("inside=step&size=3", "no option 'size'"),
])  # fmt: skip
def test_wrong_options_are_one_line(file: Path, options: str, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        (program,) = open_source(f"{file}:make?{options}")
        program.make()


def test_the_command_names_the_submodule_from_the_outermost_module() -> None:
    part = CapturablePart("mlp", "MLP", 12, 0.5, 1, 0)
    assert "mindgap capture m.py:f --inside mlp -o" in described("m.py:f", [part])
    text = described("m.py:f?seed=3&inside=layers.1", [part])
    assert "layers.1.mlp (MLP, 12 nodes, 50% of the parameters)" in text
    assert "mindgap capture 'm.py:f?seed=3' --inside layers.1.mlp -o FILE.mindgap" in text
    assert "no submodule" in described("m.py:f", [])
