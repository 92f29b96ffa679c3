"""A file that is older than its program: the row tells which weights, constants and nodes differ."""

from __future__ import annotations

import inspect
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cli.command_line import mindgap
from mindgap.judge.pipeline.own_path_reasons import changes_words
from mindgap.own_path.old_file import file_changes
from mindgap.own_path.program_run import FlatProgram
from mindgap.own_path.runs import FileChanges

X = torch.linspace(-1, 1, 24).reshape(3, 8)


class Net(nn.Module):
    def __init__(self, factor: float = 1.5, extra: bool = False, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.one, self.two, self.factor = nn.Linear(8, 16), nn.Linear(16, 4), factor
        self.extra = nn.Linear(4, 4) if extra else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.two(nn.functional.leaky_relu(self.one(x), 0.1)) * self.factor
        return y if self.extra is None else self.extra(y).relu()


def program() -> tuple[nn.Module, tuple[torch.Tensor]]:
    return Net().eval(), (X,)


def _file(model: nn.Module, folder: Path, version: int = 18) -> Path:
    path = folder / f"{version}.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.eval(), (X,), path, dynamo=version > 17, opset_version=version, verbose=False)
    return path


def _changes(old: nn.Module, new: nn.Module, folder: Path, version: int = 18) -> FileChanges:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return file_changes(_file(old, folder, version), FlatProgram(new.eval(), (X,), {}))


@pytest.mark.parametrize("version", [13, 18])
def test_all_weights_were_trained_again(version: int, tmp_path: Path) -> None:
    old, new = Net(seed=7), Net()
    found = _changes(old, new, tmp_path, version)
    largest = float((old.one.weight - new.one.weight).detach().abs().max())
    assert dict(found.weights)["one.weight"] == pytest.approx(largest)
    assert {name for name, _ in found.weights} == set(new.state_dict()) and found.compared == 4
    assert not (found.missing or found.constants or found.nodes) and found.start.startswith("Gemm")
    assert version < 18 or found.line.startswith("test_old_file.py:")


def test_one_layer_was_changed(tmp_path: Path) -> None:
    old, new = Net(), Net()
    with torch.no_grad():
        new.two.bias[1] += 0.25
    found = _changes(old, new, tmp_path)
    assert found.weights == (("two.bias", pytest.approx(0.25)),) and found.compared == 4
    assert not (found.missing or found.constants or found.nodes)


def test_a_single_number_and_an_attribute_were_changed(tmp_path: Path) -> None:
    class Scaled(nn.Module):
        def __init__(self, scale: float, slope: float) -> None:
            super().__init__()
            self.scale, self.slope = nn.Parameter(torch.tensor(scale)), slope

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.leaky_relu(x * self.scale, self.slope)

    found = _changes(Scaled(2.0, 0.1), Scaled(2.5, 0.2), tmp_path)
    assert found.weights == (("scale", 0.5),) and found.constants == (("alpha of LeakyRelu", "0.1", "0.2"),)
    assert found.start.startswith("Mul") and not (found.missing or found.nodes)


def test_a_layer_was_added(tmp_path: Path) -> None:
    found = _changes(Net(), Net(extra=True), tmp_path)
    assert found.missing == ("extra.weight", "extra.bias") and found.nodes == (("Gemm", -1), ("Relu", -1))
    assert not found.weights and found.line.startswith("test_old_file.py:")


class Reshaping(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.flatten().reshape(3, 8))


@pytest.mark.parametrize("version", [13, 18])
def test_values_part_behind_nodes_that_change_nothing(version: int, tmp_path: Path) -> None:
    old = Reshaping()
    with torch.no_grad():
        old.two.weight[1] += 1
    found = _changes(old, Net(), tmp_path, version)
    assert bool(found.nodes) == (version == 13) and [name for name, _ in found.weights] == ["two.weight"]
    assert found.start == ("Gemm /two/Gemm" if version == 13 else "Gemm node_linear_1")
    assert found.off > 1 and f"values part at {found.start}" in changes_words(found)


def test_values_part_at_the_node_that_the_file_lacks(tmp_path: Path) -> None:
    found = _changes(Net(), Net(extra=True), tmp_path)
    assert found.start.startswith("Gemm") and not found.weights and found.missing and not found.off


def test_a_constant_was_changed(tmp_path: Path) -> None:
    found = _changes(Net(2.0), Net(), tmp_path)
    assert found.constants == (("an operand of Mul", "2", "1.5"),) and found.start.startswith("Mul")
    assert not (found.weights or found.missing or found.nodes)


@pytest.mark.parametrize("version", [13, pytest.param(20, marks=pytest.mark.nightly)])
def test_another_operator_set_is_no_change(version: int, tmp_path: Path) -> None:
    assert _changes(Net(), Net(), tmp_path, version) == FileChanges(compared=4)


@pytest.mark.nightly
def test_the_row_tells_it(tmp_path: Path) -> None:
    head = "import torch\nfrom torch import nn\nX = torch.linspace(-1, 1, 24).reshape(3, 8)\n"
    (tmp_path / "net.py").write_text(head + inspect.getsource(Net) + inspect.getsource(program))
    rows = []
    for name, model in (("old", Net(seed=7)), ("other_set", Net())):
        (tmp_path / name).mkdir()
        path = _file(model, tmp_path / name, 13)
        ran = mindgap("diff", "net.py:program", "-p", "onnxruntime/cpu", "--as", f"onnxruntime/cpu={path}",
                      "--json", cwd=tmp_path, own_path=True)  # fmt: skip
        rows += json.loads(ran.out)["rows"]
    assert rows[0]["verdict"] == "export" and rows[1]["verdict"] in ("identical", "rounding")
    assert "4 of 4 weights differ, the largest difference" in rows[0]["detail"]
    assert "values part at Gemm" in rows[0]["detail"]
    assert "values part at Gemm" in rows[0]["detail"]
    assert rows[0]["advice"].startswith("export the file again")


class Unexportable(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting() or torch.onnx.is_in_onnx_export():
            raise RuntimeError("no export of this")
        return super().forward(x)


def test_why_weights_alone_were_compared_is_recorded(tmp_path: Path) -> None:
    found = _changes(Net(), Unexportable(), tmp_path)
    assert found.reason.startswith("torch.onnx.export refuses the program, so that weights alone were compared (")
    assert not found.weights and not found.nodes and "no export of this" in found.reason


_STEM = """
import torch
from torch.nn import functional as F

class Stem(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, stride=2)

    def forward(self, images):
        x = self.conv(F.pad(images, (0, 1, 0, 1)))
        return F.max_pool2d(F.pad(x, (0, 1, 0, 1)), 3, stride=2)

def make():
    torch.manual_seed(0)
    return Stem().eval(), (torch.rand(1, 3, 32, 32),)
"""


def test_an_old_file_is_named_where_the_runtime_is_wrong_as_well(tmp_path: Path) -> None:
    """ONNX Runtime merges the padding into the pooling, and the file has another bias: two faults, of like size."""
    (tmp_path / "model.py").write_text(_STEM)
    names: dict[str, Any] = {}
    exec(_STEM, names)
    model, args = names["make"]()
    model.conv.bias.data += 0.5
    torch.onnx.export(model, args, tmp_path / "old.onnx", dynamo=True, verbose=False)
    ran = mindgap("diff", "model.py:make", "-p", "onnxruntime/cpu", "--as", "onnxruntime/cpu=old.onnx", "--json",
                  cwd=tmp_path, own_path=True)  # fmt: skip
    (row,) = json.loads(ran.out)["rows"]
    assert row["verdict"] == "export" and "the largest difference 0.5 in conv.bias" in row["detail"]
    assert [fault["verdict"] for fault in row["faults"]] == ["export", "discrepant"]
    assert row["faults"][1]["culprit"]["op"] == "aten.pad.default+aten.max_pool2d.default"
