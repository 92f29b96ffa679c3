"""`mindgap causes siblings` on real platforms: the programs of a small list of causes, on the makes of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import mindgap
from findings.causes.made_summaries import group, summary
from mindgap.findings.causes import causes_of, causes_text

#: The first case is wrong in Inductor and has no export for ONNX Runtime; the second is right everywhere.
AMIN = """
import platform, sys
import no_such_runtime
PACKAGES = ("torch",)
class Smallest(torch.nn.Module):
    def forward(self, x0):
        return torch.amin(x0)
CASES = {
    "smallest": (Smallest, lambda: (torch.full((16,), 3, dtype=torch.int8),)),
    "of a constant": (lambda: torch.nn.ReLU(), lambda: (torch.tensor([inf, 1.0]),)),
}
def run(model, fresh):
    return no_such_runtime.run(model, fresh)
sys.exit(int(run(None, None)))
"""
RELU = "CASES = {'relu': (torch.nn.ReLU, lambda: (torch.linspace(-1, 1, 5),))}\n"


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    scripts = {"amin.py": AMIN, "amin_fails.py": AMIN, "relu.py": RELU, "none.py": "print('no cases')\n"}
    for name, text in scripts.items():
        (tmp_path / name).write_text(text)
    causes = causes_of([
        group(summary("cpu/inductor", "discrepant", "amin", script="amin.py")),
        group(summary("onnxruntime/cpu", "failed", "amin", script="amin_fails.py")),
        group(summary("openvino/cpu", "discrepant", "relu", script="relu.py")),
        group(summary("openvino/cpu", "discrepant", "sin", script="none.py")),
    ])  # fmt: skip
    (tmp_path / "causes.json").write_text(causes_text(causes))
    return tmp_path


def searched(*arguments: str, cwd: Path) -> tuple[int, dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """The exit status, the counts, and the siblings by script."""
    ran = mindgap("causes", "siblings", ".", *arguments, "--no-own-path", "--json", cwd=cwd)
    data = json.loads(ran.out)
    return ran.status, data["counts"], {each["script"]: each["siblings"] for each in data["causes"]}


def test_a_fault_on_another_make_is_found_and_looked_up(listed: Path) -> None:
    status, counts, found = searched(
        "-p", "cpu/inductor", "-p", "cpu/jit", "-p", "onnxruntime/cpu", "amin.py", cwd=listed
    )
    assert status == 1 and counts["rows"] == 4, "its own make is not asked again"
    ((sibling,),) = found.values()
    assert sibling["platform"] == "onnxruntime/cpu" and sibling["verdict"] == "failed" and len(sibling["programs"]) == 1
    assert sibling["novelty"] == "listed" and sibling["near"] == ["amin_fails.py"]


@pytest.mark.nightly
def test_a_listed_fault_of_inductor_is_looked_up(listed: Path) -> None:
    status, _, found = searched("-p", "cpu/inductor", "amin_fails.py", cwd=listed)
    assert status == 1
    ((sibling,),) = found.values()
    assert sibling["culprit"].startswith("aten.amin") and sibling["near"] == ["amin.py"]
    assert (sibling["verdict"], sibling["novelty"]) == ("discrepant", "listed")


def test_what_does_not_run_is_counted_with_its_reason(listed: Path) -> None:
    status, counts, found = searched("-p", "cpu/jit", "relu", cwd=listed)
    assert (status, counts["rows"], found) == (0, 1, {"relu.py": []})
    ran = mindgap("causes", "siblings", ".", "none.py", "relu.py", "-p", "cpu/jit", cwd=listed)
    assert (
        ran.status == 2
        and "left out: none.py: its programs cannot be taken from none.py: the script has no CASES" in ran.out
    )
    ran = mindgap("causes", "siblings", ".", "relu.py", "-p", "openvino/cpu", cwd=listed)
    assert ran.status == 2 and "left out: relu.py: all platforms are of its make" in ran.out
    ran = mindgap("causes", "siblings", ".", "relu.py", "-p", "cpu/jit", "--budget", "0.001s", cwd=listed)
    assert ran.status == 2 and "left out: relu.py: not run: the time budget was used up" in ran.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((".", "nothing"), "nothing: no cause of . has this id, or this in its script's path"),
        (("nowhere",), "no nowhere"),
        ((".", "-p", "cpu/nowhere"), "cpu/nowhere"),
        ((".", "--budget", "soon"), "--budget soon"),
    ],
)
def test_wrong_use_is_one_line(listed: Path, arguments: tuple[str, ...], said: str) -> None:
    ran = mindgap("causes", "siblings", *arguments, cwd=listed)
    assert ran.status == 2 and said in ran.err and len(ran.err.splitlines()) == 1
