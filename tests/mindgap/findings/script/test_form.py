"""The form of a short script: what is particular to a fault can be read from the script again."""

from __future__ import annotations

import ast
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mindgap.findings.reduction.version_reproducer import version_words
from mindgap.findings.script.form import FAULT, NO_FAULT, ScriptForm, case_part, declared, script_source
from mindgap.findings.script.script_platform import ScriptPlatform, TwoResults
from mindgap.findings.script.short import ShownCase, with_cases
from mindgap.graph import Constant, Graph, Input, Node, Ref, TensorSpec
from mindgap.platforms.script_runner import ScriptRunner

CASES = """
import math

numbers = torch.linspace(1, math.pi, 8)


class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.sin(x0)


CASES = {
    "smallest": (Model, lambda: (numbers[:1],)),
    "ordinary size": (Model, lambda: (numbers.reshape(2, 4),)),
}
"""
RAISING = CASES.replace("return torch.sin(x0)", "return torch.sin(x0).t(1)")
EAGER = ScriptPlatform("cpu/eager")


def ran(tmp_path: Path, form: ScriptForm, python: str = sys.executable, **replaced: str) -> tuple[int, str]:
    text = script_source(form)
    assert "mindgap" not in text
    for old, new in replaced.items():
        text = text.replace({"call": "return model(*fresh())"}[old], new)
    (tmp_path / "script.py").write_text(text)
    done = subprocess.run([python, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_the_case_part_of_a_script_is_what_it_was_made_of() -> None:
    for form in (
        ScriptForm("a title", EAGER, CASES),
        ScriptForm("a title", ScriptPlatform("jax/cpu"), CASES, bounded=True),
        ScriptForm("a title", ScriptPlatform("ortweb/wasm"), CASES),
        ScriptForm("a title", ScriptPlatform("ortweb/webgl", {"device": "swiftshader"}), CASES),
    ):
        text = script_source(form)
        again = case_part(text)
        renewed = script_source(ScriptForm("a title", form.platform, again, bounded=form.bounded))
        assert case_part(renewed) == again and renewed.split() == text.split()
        assert "class Boundary" not in again and "packet" not in again and "numbers = " in again
    assert declared(CASES + 'COMPARE = "element"\n') == {"COMPARE": "element"}
    with pytest.raises(ValueError, match="no CASES"):
        case_part("class Model: pass")


def test_a_script_on_another_device_takes_a_bare_result_and_names_the_device(tmp_path: Path) -> None:
    """Its device is replaced by the CPU, which every machine has."""
    text = script_source(ScriptForm("a title", ScriptPlatform("cuda/eager"), CASES))
    for old, new in (('"cuda"', '"cpu"'), ("torch.cuda.get_device_name()", '"a device"')):
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "script.py").write_text(text)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.splitlines()[0].endswith("a device"), done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == NO_FAULT


@pytest.mark.nightly
def test_every_case_is_told_with_its_error_and_the_limit(tmp_path: Path) -> None:
    assert ran(tmp_path, ScriptForm("a title", EAGER, CASES))[0] == 0
    status, printed = ran(tmp_path, ScriptForm("a title", EAGER, CASES), call="return model(*fresh()) * 1.01")
    assert status == 1 and printed.splitlines()[-1] == FAULT
    assert printed.count(": wrong") == 2 and "float32[2, 4], error 0.01, limit 1.91e-06" in printed


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("raises", "status", "last"),
    [
        ("ValueError('operand 7 of the wrong kind')", 1, FAULT),
        ("ValueError('another message')", 2, "It is another failure than the one that this script shows."),
        ("TypeError('operand 7 of the wrong kind')", 2, "It is another failure than the one that this script shows."),
    ],
)
def test_only_the_known_exception_is_the_fault(tmp_path: Path, raises: str, status: int, last: str) -> None:
    form = ScriptForm("a title", EAGER, CASES, "fails", failure=("ValueError", "of the wrong kind"))
    found, printed = ran(tmp_path, form, call=f"raise {raises}")
    assert (found, printed.splitlines()[-1]) == (status, last)
    assert ran(tmp_path, form)[1].splitlines()[-1] == NO_FAULT


def test_each_case_is_shown_at_the_element_of_its_error(tmp_path: Path) -> None:
    small = CASES.replace("torch.sin(x0)", "x0 + 0.0").replace("numbers[:1]", "torch.tensor([1.0, 1e-6])")
    wrong = "return [model(*fresh())[0] + torch.tensor([1e-7, 1e-7])]"
    form = ScriptForm("a title", EAGER, small.replace("numbers.reshape(2, 4)", "numbers[:2]"), compare="element")
    text = script_source(form).replace("return model(*fresh())", wrong.replace("model(*fresh())[0]", "model(*fresh())"))
    (tmp_path / "script.py").write_text(text)
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    smallest = done.stdout.partition("smallest")[2].splitlines()
    # The first element is off by more, and by less of itself.
    assert ", error 0.1, limit" in smallest[0] and smallest[1].startswith("  at [1]: eager 9.99"), (
        done.stdout + done.stderr
    )


def test_another_shape_or_dtype_is_a_fault(tmp_path: Path) -> None:
    cut = "return model(*fresh())[:, :1] if fresh()[0].dim() > 1 else model(*fresh()).double()"
    status, printed = ran(tmp_path, ScriptForm("a title", EAGER, CASES, "shape"), call=cut)
    assert status == 1 and printed.count(": wrong") == 2
    assert "torch.float32[2, 1] for torch.float32[2, 4]: wrong" in printed
    assert ran(tmp_path, ScriptForm("a title", EAGER, CASES, "shape"))[0] == 0
    status, printed = ran(tmp_path, ScriptForm("a title", EAGER, CASES), call=cut)
    assert status == 1 and "torch.float64[1] for torch.float32[1], error inf" in printed


def test_an_empty_line_parts_classes_and_functions_and_constants_follow_the_head() -> None:
    text = script_source(ScriptForm("a title", EAGER, 'COMPARE = "element"\n' + CASES, compare="element"))
    lines = text.splitlines()
    assert len(lines) < 60 and "PACKAGES = ('torch',)\nCOMPARE" in text
    tops = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    assert len(tops) > 2 and not any(lines[node.lineno - 2] for node in tops)


def test_a_script_may_call_its_platform_in_a_way_of_its_own() -> None:
    runner = ScriptRunner("def run(model, fresh):\n    return once(model, fresh)", ("from there import once",))
    text = script_source(ScriptForm("a title", ScriptPlatform("tvm/cpu"), CASES, runner=runner))
    assert "from there import once\n" in text and "tvm.compile" not in text
    assert case_part(text) == case_part(script_source(ScriptForm("a title", EAGER, CASES)))


def test_what_raises_in_eager_pytorch_already_cannot_be_checked(tmp_path: Path) -> None:
    assert ran(tmp_path, ScriptForm("a title", EAGER, RAISING, "fails", failure=("TypeError", "")))[0] == 2


def test_a_missing_package_is_no_fault(tmp_path: Path) -> None:
    form = ScriptForm("a title", ScriptPlatform("tvm/cpu"), CASES, "fails", failure=("ImportError", ""))
    text = script_source(form)
    assert text is not None
    (tmp_path / "script.py").write_text(text.replace("import tvm\n", "import no_such_runtime\n"))
    done = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "It cannot be checked: ModuleNotFoundError" in done.stdout


@pytest.mark.nightly
def test_a_signal_other_than_the_known_one_is_another_fault(tmp_path: Path) -> None:
    form = ScriptForm("a title", EAGER, CASES, "crashes", signal="SIGABRT")
    assert ran(tmp_path, form, call="os.abort()")[0] == 1
    assert ran(tmp_path, form, call="os.kill(os.getpid(), signal.SIGSEGV)")[0] == 2


def test_a_script_for_an_emulated_processor_says_how_its_environment_is_made() -> None:
    python = str(Path.home() / ".cache/mindgap/environments/arm64/venv/bin/python")
    command = "mindgap env create arm64 'torch==2.9.1' --arch aarch64 --cpu cortex-a72"
    execution = "cortex-a72, aarch64, emulated by qemu-aarch64 7.2.22"
    there = ScriptPlatform(
        "cpu/eager", python=python, versions={"torch": "2.9.1"}, execution=execution, made_by=command
    )
    here = ScriptPlatform("cpu/eager", versions={"torch": "2.13.0"})
    text = script_source(ScriptForm("a title", there, CASES))
    assert f"    {command}\n    ~/.cache/mindgap/environments/arm64/venv/bin/python SCRIPT.py\n" in text
    assert command not in script_source(ScriptForm("a title", here, CASES))
    spec = TensorSpec.contiguous("float32", (1,))
    graph = Graph((Input(spec, Constant(1.0), "input"),), (Node("aten.exp.default", (Ref(0),), (), (spec,)),), (1,))
    two = TwoResults("torch 2.9.1 on cortex-a72", "torch 2.13.0", *[[np.ones(1, np.float32)]] * 2, right=there)
    form = with_cases(ScriptForm("a title", here), [ShownCase("smallest", graph)], two=two)
    assert f"    {command}\n    ~/.cache" in script_source(form)
    assert version_words(there, here) == "torch 2.9.1 on cortex-a72"
    assert version_words(here, there) == f"torch 2.13.0 on {platform.machine()}"
    assert version_words(replace(there, versions=here.versions), here) == "cortex-a72"
