"""The command: its answers, its files, its refusals."""

import json
from pathlib import Path

import pytest

from cli.command_line import mindgap

PROGRAM = """
import torch


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        energy = (self.layer(x) * 1000).pow(2).sum(-1, keepdim=True)
        return x / energy.sqrt()


def make():
    torch.manual_seed(0)
    return Scaled().eval(), (torch.randn(2, 8),)


def integers():
    return torch.nn.Identity(), (torch.arange(3),)
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("precision")
    (folder / "scaled.py").write_text(PROGRAM)
    return folder


def test_it_names_the_operators_with_their_lines(here: Path) -> None:
    ran = mindgap("precision", "scaled.py:make", "-p", "cpu/eager", "--json", "--save", "mixed.onnx", cwd=here)
    assert ran.status == 1, ran.err
    found = json.loads(ran.out)
    assert {each["kind"].split(".")[1] for each in found["kept"]} == {"pow", "sum", "sqrt"}
    assert found["before"] == 1.0
    assert found["after"] < 0.01
    assert found["saved_error"] < 0.01
    assert 0 < found["time_share"] < 1
    assert (here / "mixed.onnx").is_file()
    assert all("scaled.py:" in each["line"] for each in found["kept"])


def test_nothing_must_stay_where_the_range_is_wide(here: Path) -> None:
    ran = mindgap("precision", "scaled.py:make", "-p", "cpu/eager", "--to", "bfloat16", "--bound", "0.05", cwd=here)
    assert ran.status == 0, ran.err
    assert "none of 6 operators must stay" in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("scaled.py:make", "-p", "cpu/eager", "--bound", "1e-12"), "nothing meets the bound of 1e-12"),
        (("scaled.py:integers", "-p", "cpu/eager"), "no operators in float32"),
        (("scaled.py:make", "-p", "cpu/jit", "--to", "int8"), "cpu/jit has no quantiser here"),
        (("scaled.py:make", "-p", "cpu/eager", "--to", "int8", "--save", "a.onnx"), "writes no file here"),
        (("scaled.py:make", "-p", "onnxruntime/cpu", "--to", "bfloat16"), "float16 and int8"),
        (("scaled.py:make", "-p", "cpu/eager", "--to", "float8"), "--to float8: it takes"),
        (("scaled.py:make", "-p", "cpu/eager", "--bound", "0"), "--bound 0"),
        (("scaled.py:make", "-p", "cpu/eager", "--bound", "0.1", "--flips", "0"), "exclude each other"),
        (("scaled.py:make", "-p", "cpu/eager", "--save", "a.txt"), "ends in .onnx"),
        (("scaled.py:make", "-p", "cpu/none"), "cpu/none"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_status_2(here: Path, arguments: tuple[str, ...], words: str) -> None:
    ran = mindgap("precision", *arguments, cwd=here)
    assert (ran.status, ran.out) == (2, "")
    assert words in ran.err
    assert len(ran.err.strip().splitlines()) == 1
