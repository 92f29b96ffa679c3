"""`mindgap upgrade`: what another version changes, which of the two is right, and the exit status."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cli.other_version import OTHER_VERSION
from mindgap.cli.app import main
from mindgap.findings.known import Baseline, load_known
from mindgap.graph import MindgapError, TensorStore, stored_keys
from mindgap.graph.compare.culprit import culprit_of
from mindgap.graph.compare.verdict import Fault
from mindgap.graph_capture import capture
from mindgap.platforms.environments.installation import adopt
from mindgap.platforms.name import parse
from mindgap.platforms.protocol import PlatformError
from mindgap.results.rows import Model, Row
from mindgap.results.store import Store
from mindgap.workflows.diff import Report
from mindgap_diagnosis.cli.upgrade import _status
from mindgap_diagnosis.cli.upgrade_outputs import write_junit
from mindgap_diagnosis.versions.upgrade import (
    Change,
    PlatformUpgrade,
    _stored_graph,
    change_of,
    in_environment,
    mark_known_changes,
    version_changes,
)

MODEL = """
import torch

def wrong():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Tanh()).eval(), (torch.randn(2, 8),)

def right():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).eval(), (torch.randn(2, 8),)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A model, and two environments: `good` is mindgap's own under another name, `bad` has another PyTorch."""
    folder = tmp_path_factory.mktemp("upgrade")
    (folder / "model.py").write_text(MODEL)
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(OTHER_VERSION)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder / "site"}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINDGAP_HOME", str(folder / "home"))
        adopt("good", sys.executable, lambda line: None)
        adopt("bad", str(python), lambda line: None)
        yield folder


@pytest.mark.nightly
def test_a_new_version_that_is_wrong(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sources = [f"{folder}/model.py:wrong", f"{folder}/model.py:right"]
    junit, html = folder / "junit.xml", folder / "page.html"
    asked = ["--to", "bad", "-p", "cpu/eager", "--json", "--junit", str(junit), "--html", str(html)]
    assert main(["upgrade", *sources, "--from", "good", *asked]) == 1
    found = json.loads(capfd.readouterr().out)
    (one,) = found["platforms"]
    assert (one["before"], one["after"]) == ("cpu/eager@env=good", "cpu/eager@env=bad")
    assert one["versions"]["torch"][1] == "99.0" and one["changes"] == {"worse": 1, "same": 1}
    assert [row["change"] for row in one["rows"]] == ["worse", "same"]
    assert one["rows"][0]["culprit"]["op"] == "aten.tanh.default"
    suites = ET.parse(junit).getroot()
    assert (suites.get("failures"), suites.get("tests")) == ("1", "2")
    page = html.read_text()
    assert "99.0" in page and "the old version" in page and "aten.tanh.default" in page and "u-worse" in page


@pytest.mark.nightly
def test_a_script_tells_the_two_versions_apart(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It shows the fault with the new version and none with the old one, and anybody can run it in both."""
    out, html = folder / "scripts", folder / "scripts.html"
    asked = ["--from", "good", "--to", "bad", "-p", "cpu/eager", "--out", str(out), "--html", str(html), "--json"]
    assert main(["upgrade", f"{folder}/model.py:wrong", *asked]) == 1
    (reduced,) = json.loads(capfd.readouterr().out)["reproducers"]
    summary = reduced["summary"]
    assert summary["verified"] and summary["operators"] == ["aten.tanh.default"]
    assert [(run["platform"], run["shown"]) for run in summary["runs"]] == [
        ("cpu/eager@env=bad", "fault"),
        ("cpu/eager@env=good", "no fault"),
    ]
    assert summary["runs"][0]["versions"].startswith("torch 99.0 ")
    assert summary["title"].startswith("cpu/eager of torch 99.0: ")
    assert summary["stage"] == "kernel", summary["stage_evidence"]
    script = out / summary["script"]
    runs = [subprocess.run([python, script], check=False) for python in (folder / "python", sys.executable)]
    assert [run.returncode for run in runs] == [1, 0]
    assert "<b>no fault</b>" in html.read_text() and summary["script"] in html.read_text()
    assert (out / "causes.json").exists() and "In both versions" in script.with_suffix(".md").read_text()


@pytest.mark.nightly
def test_a_script_of_what_is_mended_shows_the_fault_with_the_old_version(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = folder / "mended"
    asked = ["--from", "bad", "--to", "good", "-p", "cpu/eager", "--out", str(out), "--json"]
    assert main(["upgrade", f"{folder}/model.py:wrong", *asked]) == 0
    (reduced,) = json.loads(capfd.readouterr().out)["reproducers"]
    runs = reduced["summary"]["runs"]
    assert [(run["platform"], run["shown"]) for run in runs] == [
        ("cpu/eager@env=bad", "fault"),
        ("cpu/eager@env=good", "no fault"),
    ]


@pytest.mark.nightly
def test_a_resumed_run_runs_what_the_store_lacks(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = str(folder / "store")
    asked = ["--from", "good", "--to", "bad", "-p", "cpu/eager", "--json"]
    assert main(["upgrade", f"{folder}/model.py:right", *asked, "--store", store]) == 0
    sources = [f"{folder}/model.py:wrong", f"{folder}/model.py:right"]
    capfd.readouterr()
    assert main(["upgrade", *sources, *asked, "--store", store, "--resume"]) == 1
    (one,) = json.loads(capfd.readouterr().out)["platforms"]
    assert [(row["model"].rpartition(":")[2], row["change"]) for row in one["rows"]] == [
        ("wrong", "worse"), ("right", "same"),
    ]  # fmt: skip
    sql = "SELECT model, count(*) AS n FROM verdicts GROUP BY model ORDER BY model"
    assert [(row["model"], row["n"]) for row in Store(store).rows(sql)] == [("model:right", 1), ("model:wrong", 1)]
    assert main(["upgrade", *sources, *asked, "--resume"]) == 2


@pytest.mark.nightly
def test_what_has_rows_of_one_platform_is_not_captured_again_for_another(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def rows(*more: str) -> list[int]:
        assert main(["upgrade", f"{model}:wrong", "--from", "good", "--to", "bad", "--store", str(store), *more]) == 1
        return [len(each["rows"]) for each in json.loads(capfd.readouterr().out)["platforms"]]

    model, store = folder / "changed.py", folder / "kept"
    model.write_text(MODEL)
    assert rows("-p", "cpu/eager", "--json") == [1]
    model.write_text(MODEL.replace("Linear(8, 4)", "Linear(9, 4)"))
    assert rows("-p", "cpu/jit", "-p", "cpu/eager", "--resume", "--json") == [1, 1]
    for file in (store / "graphs").rglob("*.graph"):
        file.unlink()
    # Now it is captured again, which fails.
    assert rows("-p", "cpu/jit@threads=1", "-p", "cpu/eager", "--resume", "--json") == [0, 1]


def test_a_graph_without_its_weights_is_no_stored_graph(tmp_path: Path) -> None:
    store, tensors = Store(tmp_path / "store"), TensorStore(tmp_path / "tensors")
    weight = torch.randn(64, 64)
    graph = capture(lambda x: x @ weight, (torch.ones(2, 64),), tensors=tensors)
    assert stored_keys(graph)
    digest = store.put_graph(graph)
    assert _stored_graph(store, digest, tensors) == graph
    with pytest.raises(MindgapError, match="are no longer in"):
        _stored_graph(store, digest, TensorStore(tmp_path / "emptied"))


@pytest.mark.nightly
def test_a_new_version_that_mends_is_no_failure(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    junit = folder / "better.xml"
    asked = ["--from", "bad", "--to", "good", "-p", "cpu/eager", "--junit", str(junit)]
    assert main(["upgrade", f"{folder}/model.py:wrong", *asked]) == 0
    said = capfd.readouterr().out
    assert "torch 99.0 -> " in said and "better" in said and "the old version" in said and "1 models: 1 better" in said
    assert ET.parse(junit).getroot().get("failures") == "0"


@pytest.mark.nightly
def test_a_known_change_is_no_failure(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    known = folder / "known.json"
    asked = ["upgrade", f"{folder}/model.py:wrong", "--from", "good", "--to", "bad", "-p", "cpu/eager"]
    assert main([*asked, "--baseline", str(known), "--update-baseline"]) == 0
    assert main([*asked, "--baseline", str(known)]) == 0
    assert "worse (known)" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--to", "nope"], "no environment nope"),
        (["--from", "good", "--to", "good"], "from one environment to another"),
        (["--to", "good"], "have the same versions"),
        (["--from", "good", "--to", "bad", "-p", "cpu/jit@env=good"], "names an environment: --from and --to do that"),
        (["--from", "good", "--to", "bad", "-p", "cpu/none"], "no platform 'cpu/none'"),
    ],
)
def test_bad_input(folder: Path, asked: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    asked = asked if "-p" in asked else [*asked, "-p", "cpu/eager"]
    assert main(["upgrade", f"{folder}/model.py:wrong", *asked]) == 2
    told = capfd.readouterr()
    assert said in told.err and not told.out


ROW = Row("m", parse("cpu/eager@env=b"), "ok", None)
MENDED = Fault(culprit_of(0, "aten.tanh.default"), "discrepant", "reference", (0,), "")
BROKEN = Fault(culprit_of(1, "aten.add.Tensor"), "discrepant", "platform", (1,), "")


def upgraded(*rows: Row) -> PlatformUpgrade:
    model = Model("m", "d", 1, 1, (), (), "ok", "", (), {})
    return PlatformUpgrade("cpu/eager", ROW.platform, {}, Report("cpu/eager", (), (model,), rows))


def test_junit_fails_what_is_lost_and_passes_what_is_better_fault_by_fault(tmp_path: Path) -> None:
    mixed = replace(ROW, verdict="discrepant", blame="reference", faults=(MENDED, BROKEN))
    rows = (replace(ROW, status="unsupported"), mixed)
    write_junit(tmp_path / "u.xml", [upgraded(*rows)])
    cases = ET.parse(tmp_path / "u.xml").getroot().findall(".//testcase")
    assert [each.find("failure") is not None for each in cases] == [True, False, True]


def test_junit_says_of_each_platform_that_nothing_was_compared(tmp_path: Path) -> None:
    nothing = upgraded(replace(ROW, status="not_run"))
    other = replace(nothing, report=replace(nothing.report, rows=(replace(ROW, verdict="identical"),)))
    write_junit(tmp_path / "u.xml", [other, nothing])
    assert int(ET.parse(tmp_path / "u.xml").getroot().get("errors", "0")) >= 1


@pytest.mark.nightly
def test_a_baseline_does_not_accept_what_is_better(folder: Path) -> None:
    """The same operator may be wrong in the version after."""
    known = folder / "better.json"
    asked = ["upgrade", f"{folder}/model.py:wrong", "-p", "cpu/eager"]
    assert main([*asked, "--from", "bad", "--to", "good", "--baseline", str(known), "--update-baseline"]) == 0
    assert json.loads(known.read_text())["findings"] == []


def test_a_baseline_accepts_what_is_lost(tmp_path: Path) -> None:
    """By its operator: another one that is lost is new."""
    lost = replace(ROW, status="unsupported", culprit=culprit_of(-1, "aten.qr.default"))
    file = tmp_path / "known.json"
    file.write_text(mark_known_changes([upgraded(lost)], Baseline(), accept=True)[1].text)
    assert json.loads(file.read_text())["findings"] == [
        {"model": "m", "platform": ROW.platform, "verdict": "lost", "culprit": "aten.qr.default"}
    ]
    other = replace(lost, culprit=culprit_of(-1, "aten.cholesky.default"))
    same = replace(ROW, model="n", verdict="identical")
    for row, known in ((lost, True), (other, False)):
        (after,), _ = mark_known_changes([upgraded(row, same)], load_known(file))
        assert after.report.rows[0].known is known and after.changes == ("lost", "same")
        assert _status([after]) == (0 if known else 1)


@pytest.mark.parametrize(
    ("row", "before_ran", "change"),
    [
        (replace(ROW, verdict="identical"), True, "same"),
        (replace(ROW, verdict="rounding"), True, "calm"),
        (replace(ROW, verdict="discrepant", blame="platform"), True, "worse"),
        (replace(ROW, verdict="discrepant", blame="undecided"), True, "changed"),
        (replace(ROW, verdict="exceptional", blame="reference"), True, "better"),
        (replace(ROW, verdict="reference_failed", blame="reference"), False, "better"),
        (replace(ROW, verdict="failed", status="crash", blame="platform"), True, "worse"),
        (replace(ROW, status="unsupported"), True, "lost"),
        (replace(ROW, status="unsupported"), False, "absent"),
        (ROW, False, "gained"),
        (replace(ROW, status="runtime_error"), False, "absent"),
        (replace(ROW, status="not_run"), True, "unknown"),
        (replace(ROW, unjudged=True), True, "unknown"),
        (replace(ROW, verdict="discrepant", blame="reference", faults=(MENDED, BROKEN)), True, "worse"),
        (replace(ROW, verdict="discrepant", blame="reference", faults=(MENDED,)), True, "better"),
    ],
)
def test_every_change(row: Row, before_ran: bool, change: Change) -> None:
    assert change_of(row, before_ran=before_ran) == change


def test_names_in_environments(folder: Path) -> None:
    assert in_environment("cpu/eager@threads=1", "good") == "cpu/eager@env=good,threads=1"
    assert in_environment("cpu/eager", None) == "cpu/eager"
    assert version_changes(parse("cpu/eager"), parse("cpu/eager@env=bad"))["torch"][1] == "99.0"
    with pytest.raises(PlatformError, match="compared with itself"):
        version_changes(parse("cpu/eager"), parse("cpu/eager@env=good"))
