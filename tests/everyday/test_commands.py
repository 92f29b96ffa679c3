"""Each row of README's table of commands, once on a small real input, its output read."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from cli.command_line import Ran, mindgap

NET = """
import torch


def make():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 3))
    return net.eval(), (torch.randn(4, 8),)


def ends_wrong():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()).eval(), (torch.ones(2, 4),)


def classifier():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3)).eval(), (torch.randn(2, 3, 2, 2),)
"""
FAULTY = "faulty/eager@faults=faults.toml"
FAULTS = '[[fault]]\nkind = "scaled"\nfactor = 1.5\nwhen = { op = "aten.tanh*" }\n'
PLAN = """
seed = 3
catalogue = "catalogue"
[variants]
count = 12
sizes = [{ nodes = 8, share = 1.0 }]
mutated = 0.25
[platforms]
"cpu/jit" = {}
"faulty/eager@faults=faults.toml" = {}
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "faults.toml").write_text(FAULTS)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def ok(ran: Ran, *expected: str, status: int = 0) -> Ran:
    assert ran.status == status, ran.err[-1500:] + ran.out[-500:]
    assert "Traceback" not in ran.err, ran.err
    for each in expected:
        assert re.search(each, ran.out), f"{each!r} is not in\n{ran.out[-3000:]}"
    return ran


def test_platforms_environments_and_cache(here: Path) -> None:
    ok(mindgap("platforms", cwd=here), r"cpu/jit", r"onnxruntime/cpu", r"openvino/cpu")
    ok(mindgap("env", "recipes", cwd=here), r"iree", r"executorch")
    ok(mindgap("env", "list", cwd=here))
    ok(mindgap("cache", cwd=here), r"\d")


@pytest.mark.nightly
def test_diff_writes_every_form(here: Path) -> None:
    written = ("--html", "page.html", "--junit", "junit.xml", "--sarif", "found.sarif", "--metrics")
    ran = mindgap("diff", "net.py:make", "-p", "cpu/jit", "-p", "onnxruntime/cpu", *written, cwd=here, own_path=True)
    ok(ran, r"net:make", r"onnxruntime/cpu +(rounding|identical)")
    assert "<html" in (here / "page.html").read_text() and "<testsuite" in (here / "junit.xml").read_text()
    assert json.loads((here / "found.sarif").read_text())["version"] == "2.1.0"
    saved = ok(mindgap("diff", "net.py:make", "-p", "cpu/jit", "--json", cwd=here)).out
    (here / "report.json").write_text(saved)
    ok(mindgap("report", "report.json", "-o", "again.html", cwd=here))
    assert "net:make" in (here / "again.html").read_text()


@pytest.mark.nightly
def test_a_fault_is_followed_reduced_and_accepted(here: Path) -> None:
    ok(mindgap("diff", "net.py:ends_wrong", "-p", FAULTY, cwd=here), r"discrepant", r"aten.tanh|tanh", status=1)
    baseline = ("--baseline", "known.json")
    ok(mindgap("diff", "net.py:ends_wrong", "-p", FAULTY, *baseline, "--update-baseline", cwd=here))
    ok(mindgap("diff", "net.py:ends_wrong", "-p", FAULTY, *baseline, cwd=here))
    ok(mindgap("trace", "net.py:ends_wrong", "-p", FAULTY, cwd=here), r"first difference: aten\.tanh", status=1)
    ran = mindgap("reduce", "net.py:ends_wrong", "-p", FAULTY, "--out", "reduced", cwd=here)
    assert ran.status in (0, 1) and "tanh" in ran.out, ran.err
    assert [*(here / "reduced").iterdir()]


@pytest.mark.nightly
def test_one_platform_is_compared_with_itself(here: Path) -> None:
    ran = mindgap("metamorphic", "net.py:make", "-p", "cpu/jit", cwd=here)
    # TorchScript has no `view` to another dtype; the other forms give the same bits.
    ok(ran, r"through its bits +failed", r"culprit +aten\.view\.dtype", r"1 failed, 30 identical", status=1)
    ok(mindgap("invariance", "net.py:make", "-p", "cpu/eager", cwd=here), r"batch")
    ok(mindgap("precision", "net.py:make", "-p", "cpu/eager", cwd=here), r"in float16: none of \d+ operators must stay")
    ok(mindgap("stress", "net.py:make", "-p", "cpu/jit", cwd=here), r"net:make \(\d sets of arguments\)")
    ok(mindgap("repeats", "softmax", "-p", "cpu/eager", "--repeat", "20", cwd=here), r"softmax")


@pytest.mark.nightly
def test_what_platforms_and_packages_take(here: Path) -> None:
    # With a platform, it is measured too, for minutes.
    ok(mindgap("coverage", "--static", cwd=here), r"ONNX Runtime")
    ran = mindgap("portability", "net.py", "-p", "onnxruntime/cpu", cwd=here)
    ok(ran, r"onnxruntime/cpu, of 5 functions: runs: 5", r"1 file; 3 other names")
    assert mindgap("env", "create", "same", "--python", sys.executable, cwd=here).status == 0
    # Nothing older is installed here: the versions are compared before the models.
    ran = mindgap("upgrade", "net.py:make", "--from", "same", "-p", "cpu/jit", cwd=here)
    assert ran.status == 2 and "cpu/jit@env=same and cpu/jit have the same versions" in ran.err, ran.err


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_catalogue_its_variants_and_a_campaign(here: Path) -> None:
    ok(mindgap("capture", "net.py:ends_wrong", "-o", "net.mindgap", cwd=here))
    ok(mindgap("diff", "net.mindgap", "-p", "cpu/jit", cwd=here), r"identical")
    ok(mindgap("corpus", "build", "catalogue", "net.py:make", "net.py:ends_wrong", "-j", "1", cwd=here))
    ok(mindgap("corpus", "list", "catalogue", cwd=here), r"net\.py:make|net:make")
    ok(mindgap("corpus", "stats", "catalogue", cwd=here), r"3 operator overload packets", r"2 of 2 graphs read back")
    ok(mindgap("synth", "catalogue", "-n", "3", cwd=here))
    ran = mindgap("campaign", "run", "plan.toml", "--out", "run", "--no-coverage", "--no-support", cwd=here)
    assert ran.status in (0, 1) and "Traceback" not in ran.err, ran.err
    ok(mindgap("campaign", "findings", "run", cwd=here), r"tanh|0 ", status=ran.status)
    ok(mindgap("campaign", "status", "run", cwd=here), r"(\b1 finding|\d findings) of (1 kind|\d+ kinds);")
    ok(mindgap("study", "gap", "run", cwd=here), r"cpu/jit")


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_finished_campaign_is_shown_extended_and_reduced_and_its_causes_are_checked(here: Path) -> None:
    ok(mindgap("corpus", "build", "catalogue", "net.py:ends_wrong", "-j", "1", cwd=here))
    plain = ("--no-coverage", "--no-support")
    ok(mindgap("campaign", "run", "plan.toml", "--out", "run", *plain, cwd=here), status=1)
    ran = ok(mindgap("campaign", "findings", "run", cwd=here), r"aten\.tanh\.default", status=1)
    shown = ran.out.splitlines()[-1].split()
    assert shown[:4] == ["mindgap", "campaign", "show", "run"]
    ran = ok(mindgap(*shown[1:], cwd=here), r"discrepant +aten\.tanh\.default", r"mindgap diff v\d+\.mindgap -p faulty")
    again = next(line for line in ran.out.splitlines() if line.startswith("mindgap diff"))
    ok(mindgap(*again.split()[1:], cwd=here), r"culprit +aten\.tanh\.default", status=1)
    ran = mindgap("campaign", "add", "run", "onnx/reference", *plain, cwd=here)
    ok(ran, r"12 of 12 cases", r"onnx/reference +12", status=1)
    ran = mindgap("campaign", "reduce", "run", "--out", "causes", "--no-stage", "--no-condition", cwd=here)
    ok(ran, r"\d+ rows: .*aten\.tanh\.default", r"1 of 1 reproducers verified: causes/index\.md", status=1)
    # A reproducer runs in its folder.
    (here / "causes" / "faults.toml").write_text(FAULTS)
    ok(mindgap("causes", "check", "causes", cwd=here), r"still there: ", r"1 still there", status=1)
    (here / "causes" / "faults.toml").write_text(FAULTS.replace("1.5", "1.0"))
    ok(mindgap("causes", "check", "causes", cwd=here), r"fixed: ", r"1 fixed")


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_selftest_reads_as_text(here: Path) -> None:
    ok(mindgap("selftest", "--quick", cwd=here), r"false alarms", r"recall")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("campaign show nowhere v000000", "holds no campaign"),
        ("campaign add nowhere cpu/jit", "holds no campaign"),
        ("campaign reduce nowhere --out causes", "holds no campaign"),
        ("causes check nowhere", "nowhere"),
        ("causes check empty", "empty"),
        ("selftest --sead 1", "see mindgap selftest --help"),
    ],
)
def test_misuse_is_one_line(here: Path, command: str, says: str) -> None:
    (here / "empty").mkdir()
    ran = mindgap(*command.split(), cwd=here)
    assert (ran.status, ran.out, len(ran.err.splitlines())) == (2, "", 1), ran.err
    assert says in ran.err


@pytest.mark.nightly
def test_studies(here: Path) -> None:
    import numpy as np

    ok(mindgap("study", "speed", "net.py:make", "-p", "cpu/jit", cwd=here), r"cpu/jit")
    generator = np.random.default_rng(0)
    np.savez(here / "data.npz", images=generator.random((12, 3, 2, 2), np.float32), labels=np.arange(12) % 3)
    ran = mindgap("study", "task", "net.py:classifier", "data.npz", "-p", "cpu/jit", cwd=here)
    ok(ran, r"classification, 12 samples", r"cpu/jit +[\d.]+ %.* 0 +0 +0 ")
    ran = mindgap("study", "task", "net.py:classifier", "other.npz", "-p", "cpu/jit", cwd=here)
    assert ran.status == 2 and "dataset other.npz: no such file" in ran.err, ran.err
