"""The command: its answers, its files, its refusals."""

import json
from pathlib import Path

import pytest

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


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scaled.py").write_text(PROGRAM)
    return "scaled.py:make"


def run(*arguments: str) -> tuple[int, str, str]:
    import subprocess
    import sys

    made = subprocess.run(
        [sys.executable, "-m", "mindgap", "precision", *arguments], capture_output=True, text=True, timeout=200
    )
    return made.returncode, made.stdout, made.stderr


def test_it_names_the_operators_with_their_lines(program: str) -> None:
    status, out, _ = run(program, "-p", "cpu/eager", "--json", "--save", "mixed.onnx")
    found = json.loads(out)
    assert status == 1
    assert {each["kind"].split(".")[1] for each in found["kept"]} == {"pow", "sum", "sqrt"}
    assert found["before"] == 1.0
    assert found["after"] < 0.01
    assert found["saved_error"] < 0.01
    assert Path("mixed.onnx").is_file()
    assert all("scaled.py:" in each["line"] for each in found["kept"])


def test_nothing_must_stay_where_the_range_is_wide(program: str) -> None:
    status, out, _ = run(program, "-p", "cpu/eager", "--to", "bfloat16", "--bound", "0.05")
    assert status == 0
    assert "none of" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("scaled.py:make", "-p", "cpu/eager", "--bound", "1e-12"), "nothing meets the bound of 1e-12"),
        (("scaled.py:integers", "-p", "cpu/eager"), "no operators in float32"),
        (("scaled.py:make", "-p", "cpu/eager", "--to", "int8"), "quantisers of cpu/eager are not supported"),
        (("scaled.py:make", "-p", "onnxruntime/cpu", "--to", "bfloat16"), "float16 and int8"),
        (("scaled.py:make", "-p", "cpu/eager", "--to", "float8"), "--to float8: it takes"),
        (("scaled.py:make", "-p", "cpu/eager", "--bound", "0"), "--bound 0"),
        (("scaled.py:make", "-p", "cpu/eager", "--bound", "0.1", "--flips", "0"), "exclude each other"),
        (("scaled.py:make", "-p", "cpu/eager", "--save", "a.txt"), "ends in .onnx"),
        (("scaled.py:make", "-p", "cpu/none"), "cpu/none"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_status_2(program: str, arguments: tuple[str, ...], words: str) -> None:
    status, out, errors = run(*arguments)
    assert status == 2
    assert out == ""
    assert words in errors
    assert len(errors.strip().splitlines()) == 1
