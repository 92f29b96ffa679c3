"""A device that PyTorch does not know, compiled here and added by one file of an outside package, as a maker would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.command_line import Ran, mindgap
from platforms.tiny_device.build import HERE, install

MODELS = HERE / "models.py"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    install(folder)
    return folder


@pytest.fixture(autouse=True)
def on_path(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(installed), there])))


@pytest.fixture(scope="module")
def observed(installed: Path) -> dict:
    path = os.pathsep.join(filter(None, [str(installed), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-P", str(HERE / "observe.py")], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "USDT" not in done.stdout
    return json.loads(done.stdout)


def rows(ran: Ran) -> dict[str, dict]:
    return {row["model"].rpartition(":")[2]: row for row in json.loads(ran.out)["rows"]}


# ---- what runs on the CPU is seen, though the maker's package says nothing


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("case", "operator", "called"),
    [
        ("tanh", "aten::tanh.out", "aten.tanh.default"),
        ("softmax", "aten::_softmax.out", "aten.softmax.int"),
        ("in place", "aten::tanh.out", "aten.tanh_.default"),
        ("empty", "aten::tanh.out", "aten.tanh.default"),
        ("number", "aten::tanh.out", "aten.tanh.default"),
        ("cos", "aten::cos.out", "aten.cos.default"),
        ("float64", "aten::mul.out", "aten.mul.Tensor"),
        ("tril_indices", "aten::tril_indices", "aten.tril_indices.default"),
        ("equal", "aten::equal", "aten.equal.default"),
    ],
)
def test_an_operator_on_the_cpu_is_named(observed, case, operator, called):
    assert observed[case]["ran"] == [[operator, called]]


def test_gradients_are_watched_on_the_threads_of_autograd(observed):
    assert [operator for operator, _ in observed["backward"]["ran"]] == [
        "aten::tanh.out", "aten::tanh_backward.grad_input"
    ]  # fmt: skip


@pytest.mark.parametrize("case", ["own kernels", "views", "copies", "constants"])
def test_what_the_device_does_itself_is_no_fallback(observed, case):
    assert observed[case]["ran"] == []


def test_neither_sign_alone_would_do(observed):
    assert observed["boxed fallback"] == "seen"
    for case in ("cos", "float64", "tril_indices"):
        assert observed[case]["by copies"] and observed[case]["by table"] != observed[case]["by copies"]
    assert observed["equal"]["by copies"] == [] and observed["equal"]["by table"] == ["aten::equal"]


# ---- as a user sees it


def test_it_is_listed_with_its_hardware_and_versions(tmp_path):
    ran = mindgap("platforms", "--json", cwd=tmp_path)
    (tiny,) = [one for one in json.loads(ran.out) if one["platform"] == "tiny/eager"]
    assert tiny["available"] and tiny["hardware"] == "Tiny 1" and tiny["versions"]["tiny-accelerator"] == "1.2"


@pytest.mark.nightly
def test_a_right_model_a_fault_and_a_refusal(tmp_path):
    sources = [f"{MODELS}:{name}" for name in ("right", "wrong", "elsewhere")]
    ran = mindgap("diff", *sources, "-p", "tiny/eager", "--json", cwd=tmp_path)
    assert ran.status == 1, ran.err
    found = rows(ran)
    assert found["right"]["verdict"] in ("identical", "rounding")
    wrong = found["wrong"]
    assert (wrong["verdict"], wrong["culprit"]["op"], wrong["blame"]) == (
        "discrepant", "aten.sum.dim_IntList", "platform"
    )  # fmt: skip
    assert "import tiny_accelerator" in wrong["script"] and 'device = "tiny"' in wrong["script"]
    fell = found["elsewhere"]
    assert (fell["status"], fell["word"]) == ("unsupported", "unsupported")
    assert fell["message"] == (
        "aten.tanh.default: aten::tanh.out ran on the CPU, the platform is tiny; likewise aten::_softmax.out"
    )


@pytest.mark.nightly
def test_gradients(tmp_path):
    ran = mindgap("diff", f"{MODELS}:right", "-p", "tiny/eager", "--backward", "--json", cwd=tmp_path)
    assert ran.status == 0, ran.err
    (row,) = json.loads(ran.out)["rows"]
    assert row["verdict"] in ("identical", "rounding")


@pytest.mark.nightly
def test_values_are_traced(tmp_path):
    ran = mindgap("trace", f"{MODELS}:wrong", "-p", "tiny/eager", "--all", cwd=tmp_path)
    assert ran.status in (0, 1), ran.err
    assert "looking inside tiny/eager changes its result: no" in ran.out
    (line,) = [line for line in ran.out.splitlines() if "aten.sum.dim_IntList" in line and line[0].isdigit()]
    # On some processors the product before it rounds in another way.
    assert "differs" in line and ("introduces" in line or "amplifies" in line)
    ran = mindgap("trace", f"{MODELS}:elsewhere", "-p", "tiny/eager", cwd=tmp_path)
    assert ran.status == 2 and "aten::tanh.out ran on the CPU" in ran.err


@pytest.mark.nightly
def test_an_operator_that_falls_back_is_not_covered(tmp_path):
    sources = [f"{MODELS}:{name}" for name in ("right", "elsewhere")]
    assert mindgap("corpus", "build", tmp_path / "c", *sources, "-j", "1", cwd=tmp_path).status == 0
    ran = mindgap("coverage", "tiny/eager", "--catalogue", tmp_path / "c", "--json", cwd=tmp_path)
    assert ran.status == 0, ran.err
    (found,) = json.loads(ran.out)
    lacking = {one["op"]: one for one in found["lacks"]}
    assert "aten::tanh.out ran on the CPU" in lacking["aten.tanh.default"]["reason"]
    assert lacking["aten.softmax.int"]["whole"]
    plain = [one for one in found["lacks"] if "float32" in one["dtypes"] and "contiguous" in one["layouts"]]
    assert {"aten.relu.default", "aten.linear.default"}.isdisjoint(one["op"] for one in plain)


@pytest.mark.nightly
def test_the_fault_is_reduced_to_a_script_that_shows_it(tmp_path):
    ran = mindgap("reduce", f"{MODELS}:wrong", "-p", "tiny/eager", "--out", tmp_path / "r", cwd=tmp_path)
    assert ran.status == 1 and "verified twice without mindgap" in ran.out, ran.out + ran.err
    (script,) = (tmp_path / "r").glob("*.py")
    assert "import tiny_accelerator" in script.read_text()
    shown = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert shown.returncode == 1 and shown.stdout.rstrip().endswith("FAULT"), shown.stderr
