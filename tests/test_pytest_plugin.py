"""The pytest plug-in, in a pytest of its own with real workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODEL = """
import pytest, torch

def f(x):
    return torch.tanh(x * 2) + 1

ARGS = (torch.linspace(-1, 1, 64),)
"""


WRONG = '[[fault]]\nkind = "scaled"\nfactor = 2.0\nwhen = { op = "aten.tanh.*" }\n'
REFUSED = '[[fault]]\nkind = "refusal"\nwhen = { op = "aten.tanh.*" }\n'


def run_pytest(folder: Path, text: str, *more: str) -> tuple[int, str]:
    """Runs a test file with the plug-in; returns the exit status and the output."""
    (folder / "wrong.toml").write_text(WRONG)
    (folder / "refused.toml").write_text(REFUSED)
    text = text.replace("WRONG", f"faulty/eager@faults={folder}/wrong.toml")
    text = text.replace("REFUSED", f"faulty/eager@faults={folder}/refused.toml")
    (folder / "test_user.py").write_text(MODEL + text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "mindgap.pytest_plugin", "--strict-markers", "-q", *more]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "test_user.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.nightly
def test_one_session_serves_all_tests(tmp_path: Path) -> None:
    status, said = run_pytest(
        tmp_path,
        """
pytestmark = pytest.mark.mindgap(platforms=["cpu/jit"])
PIDS = []

def test_marked(mindgap_diff, mindgap_session):
    report = mindgap_diff(f, ARGS)
    assert [(row.platform, row.model) for row in report.rows] == [("cpu/jit", "test_marked")]
    PIDS.append(mindgap_session._pool.pids())

@pytest.mark.mindgap(reference="cpu/eager@threads=1", backward=True)
def test_closest_marker_and_module_marker(mindgap_diff, mindgap_session):
    report = mindgap_diff(f, (ARGS[0].clone().requires_grad_(),), platforms="cpu/eager")
    assert report.reference == "cpu/eager@threads=1"
    assert len(report.models[0].reference_digests) == 3, "the output, its sum, the gradient"
    assert mindgap_session._pool.pids()["cpu/jit"] == PIDS[0]["cpu/jit"]
""",
    )
    assert status == 0, said
    assert "2 passed" in said


def test_failing_test_names_verdict_culprit_side_and_line(tmp_path: Path) -> None:
    status, said = run_pytest(
        tmp_path,
        """
@pytest.mark.mindgap(platforms="WRONG")
def test_fault(mindgap_diff):
    torch.export.export(torch.nn.ReLU(), ARGS)
    mindgap_diff(f, ARGS)
""",
    )
    assert status == 1, said
    assert "test_fault on faulty/eager" in said
    assert "discrepant" in said
    assert "culprit  aten.tanh.default" in said
    assert "test_user.py:5" in said
    assert "blame    platform" in said
    assert "Traceback" not in said and "pytest_plugin.py" not in said and "torch.__trace" not in said


@pytest.mark.nightly
def test_each_fault_of_a_row_is_named(tmp_path: Path) -> None:
    two = WRONG + WRONG.replace("tanh", "add")
    status, said = run_pytest(
        tmp_path,
        f"""
open("wrong.toml", "w").write({two!r})

@pytest.mark.mindgap(platforms=["WRONG"])
def test_faults(mindgap_diff):
    mindgap_diff(f, ARGS)
""",
    )
    assert status == 1, said
    assert "culprit  aten.tanh.default" in said and "culprit  aten.add.Tensor" in said


@pytest.mark.nightly
def test_nothing_compared_fails_and_a_refusal_warns(tmp_path: Path) -> None:
    status, said = run_pytest(
        tmp_path,
        """
def test_alone(mindgap_diff):
    mindgap_diff(f, ARGS, platforms=["REFUSED"])

def test_beside(mindgap_diff):
    mindgap_diff(f, ARGS, platforms=["cpu/jit", "REFUSED"])

def test_required(mindgap_diff):
    platforms = ["cpu/jit", "REFUSED"]
    mindgap_diff(f, ARGS, platforms=platforms, require_support=True)
""",
    )
    assert status == 1, said
    assert "NOTHING WAS COMPARED" in said
    assert "2 failed, 1 passed, 1 warning" in said


@pytest.mark.nightly
def test_outputs_that_are_not_finite_warn_or_fail(tmp_path: Path) -> None:
    status, said = run_pytest(
        tmp_path,
        """
def division(x):
    return x / 0.0

def test_calm(mindgap_diff):
    mindgap_diff(division, ARGS, platforms="cpu/jit")

def test_required(mindgap_diff):
    mindgap_diff(division, ARGS, platforms="cpu/jit", require_finite=True)
""",
    )
    assert status == 1, said
    assert "1 failed, 1 passed, 1 warning" in said
    everywhere = "output 0 is NaN or infinite in 64 of 64 elements on cpu/eager"
    assert f"test_calm: {everywhere} and on every platform" in said and "test_required on cpu/eager: output 0" in said


@pytest.mark.nightly
def test_wrong_use_is_one_line(tmp_path: Path) -> None:
    cases = {
        "mindgap_diff(f, ARGS)": "mindgap: no platform: write @pytest.mark.mindgap(platforms=[…])",
        "mindgap_diff(f, ARGS, platforms=['cpu/jot'])": "mindgap: no platform 'cpu/jot' (did you mean cpu/jit",
        "mindgap_diff(f, ARGS, platform='cpu/jit')": "mindgap: mindgap_diff has no option 'platform'; it takes",
        "mindgap_diff(lambda x: x.item(), ARGS, platforms='cpu/jit')": "mindgap: the program itself raises",
    }
    tests = (f"\ndef test_{number}(mindgap_diff):\n    {body}\n" for number, body in enumerate(cases))
    status, said = run_pytest(tmp_path, "".join(tests))
    assert status == 1 and "4 failed" in said, said
    assert not [message for message in cases.values() if message not in said], said
    assert "Traceback" not in said


def test_start_of_pytest_imports_neither_rooms_nor_torch(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(
        "import sys\n"
        "def test_calm():\n"
        "    loaded = {name for name in sys.modules if name.split('.')[0] in ('torch', 'numpy', 'mindgap')}\n"
        "    assert loaded == {'mindgap', 'mindgap.pytest_plugin'}, loaded\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "mindgap.pytest_plugin", "-p", "no:cacheprovider", "-q"]
    done = subprocess.run([*command, "test_user.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pytest_does_not_rewrite_the_modules_of_mindgap(tmp_path: Path) -> None:
    """It would parse them, in threads too, where two parsers of Python 3.11 can fail each other."""
    status, out = run_pytest(
        tmp_path,
        """
def test_loader(mindgap_session):
    import mindgap.own_path.failures as module
    from importlib.machinery import SourceFileLoader
    assert type(module.__loader__) is SourceFileLoader
    assert type(__loader__) is not SourceFileLoader, "the user's own test is rewritten"
""",
    )
    assert status == 0, out


def test_entry_point_is_declared() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # pytest loads a plug-in once if `-p` names it as the entry point does.
    assert project["entry-points"]["pytest11"] == {"mindgap.pytest_plugin": "mindgap.pytest_plugin"}


@pytest.mark.nightly
@pytest.mark.slow
def test_example(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "mindgap.pytest_plugin", "-p", "no:cacheprovider", "-q"]
    done = subprocess.run(
        [*command, str(ROOT / "examples" / "test_my_model.py")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
