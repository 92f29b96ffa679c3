"""A ledger and SARIF from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.command_line import MODELS, Ran, mindgap
from mindgap.cli import main
from mindgap.cli.outputs import put_known
from mindgap.findings.known import load_known, mark_known
from mindgap.graph import MindgapError
from mindgap.report.finding_blocks import blocks
from mindgap.workflows.diff import Report
from report.report_sample import sample, with_three_faults

FAULTY = "faulty/eager@faults=faults.toml"
FAULTS = '[[fault]]\nkind = "scaled"\nfactor = 1.5\nwhen = { op = "aten.gelu*" }\n'
KNOWN = '[[issue]]\nlink = "https://example.org/1"\nmatch = { platform = "faulty/*", operators = ["gelu"] }\n'


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "faults.toml").write_text(FAULTS)
    return tmp_path


def known_findings(file: Path, update: bool, report: Report) -> Report:
    """The report as the command line marks it."""
    marked = mark_known(load_known(file, create=update), report, accept=update)
    put_known(marked.notes, marked.text, file if update else None)
    return marked.report


def diff(models: Path, *more: str) -> Ran:
    return mindgap("diff", "models.py:calm", "-p", FAULTY, *more, cwd=models)


@pytest.mark.nightly
def test_a_finding_that_the_ledger_knows_passes_and_is_suppressed_in_sarif(models: Path) -> None:
    (models / "known.toml").write_text(KNOWN)
    ran = diff(models, "--baseline", "known.toml", "--sarif", "found.sarif", "--json")
    assert ran.status == 0 and json.loads(ran.out)["totals"]["known"] == 1, ran.err
    (result,) = json.loads((models / "found.sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "models.py"
    assert result["baselineState"] == "unchanged" and result["suppressions"]


def test_a_fault_that_the_ledger_does_not_know_fails_beside_one_that_it_knows(tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text(
        '[[issue]]\nnote = "a"\nmatch = { operators = ["conv2d", "tanh"] }\n'
        '[[issue]]\nnote = "b"\nmatch = { operators = ["sort"] }\n'
    )
    found = known_findings(file, False, with_three_faults())
    row = found.rows[3]
    assert [each.known for each in row.faults] == [True, False, True] and not row.known
    assert (found.totals.known, found.totals.new, found.totals.new_faults) == (1, 4, 4)
    file.write_text(file.read_text() + '[[issue]]\nnote = "c"\nmatch = { operators = ["exp"] }\n')
    found = known_findings(file, False, with_three_faults())
    assert found.rows[3].known and found.totals.known == 2


def test_the_work_around_of_an_issue_is_the_advice_of_its_faults(tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text('[[issue]]\nnote = "a"\nworkaround = "clamp before"\nmatch = { operators = ["exp", "sort"] }\n')
    found = known_findings(file, False, with_three_faults())
    assert [each.advice for each in found.rows[3].faults] == ["", "clamp before", ""]
    assert found.rows[3].by_fault[1].advice == "clamp before" and found.rows[3].advice == ""
    (sort,) = (row for row in found.rows if row.word == "discrepant")
    assert sort.known and sort.advice == "clamp before" and "  advice   clamp before" in blocks(found)[3].text


def test_what_is_back_is_new_again_and_what_is_gone_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "known.toml"
    wrong = '[[issue]]\nnote = "sorting"\nmatch = { kind = "discrepant", operators = ["sort"] }\n'
    file.write_text(wrong)
    found = known_findings(file, False, sample())
    assert [row.word for row in found.rows if row.known] == ["discrepant"] and found.totals.new == 4

    file.write_text(wrong.replace("[[issue]]", "[[issue]]\ngone = 2026-01-02"))
    assert known_findings(file, False, sample()).totals.known == 0
    assert "mindgap: back: eager PyTorch: aten.sort.default" in capsys.readouterr().err

    file.write_text(wrong.replace('"sort"', '"argsort"'))
    found = known_findings(file, True, sample())
    assert "gone: nothing that was found fits the issue sorting" in capsys.readouterr().err
    assert found.totals.new == 0 and file.read_text().count("[[issue]]") == 6
    assert known_findings(file, False, sample()).totals.new == 0
    assert "gone" not in capsys.readouterr().err, "the ledger knows that it is gone"
    with pytest.raises(MindgapError, match="no ledger"):
        known_findings(tmp_path / "missing.toml", False, sample())
    assert known_findings(tmp_path / "missing.toml", True, sample()).totals.new == 0


def test_a_bad_ledger_is_one_line_before_anything_runs(models: Path) -> None:
    (models / "known.toml").write_text("[[issue]]\nmatch = {}\n")
    ran = diff(models, "--baseline", "known.toml")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.strip() == (
        "mindgap: ledger known.toml: issue 1 fits every cause: give its match an id, platform, operators, kind or "
        "signature"
    )


def test_reproducers_are_checked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text("print('torch 1')\nprint('FAULT')\nraise SystemExit(1)\n")
    (tmp_path / "b.py").write_text("print('torch 1')\n")
    assert main(["causes", "check", str(tmp_path)]) == 1
    assert capfd.readouterr().out.splitlines()[-1] == "1 still there, 1 fixed, 0 not checked"
    (tmp_path / "a.py").unlink()
    assert main(["causes", "check", str(tmp_path)]) == 0
    (tmp_path / "b.py").write_text("raise SystemExit(2)\n")
    capfd.readouterr()
    assert main(["causes", "check", str(tmp_path), "--json"]) == 2
    ran = capfd.readouterr()
    assert json.loads(ran.out)["counts"]["not checked"] == 1
    assert "1 of 1 reproducers could not be checked" in ran.err
    assert main(["causes", "check", str(tmp_path / "nowhere")]) == 2
