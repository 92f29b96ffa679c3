"""Reproducers are run again: still there, fixed, or not checked."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from findings.causes.made_summaries import group, summary
from mindgap.findings.causes import causes_of, causes_text
from mindgap.graph import MindgapError
from mindgap.platforms.environments.environment import Environment
from mindgap_campaign.causes_check import ListedReproducer, check_reproducers, counts, reproducers_of

SCRIPTS = {
    "there.py": "print('torch 2.13')\nprint('FAULT')\nraise SystemExit(1)\n",
    "fixed.py": "print('torch 2.14')\nprint('NO FAULT')\n",
    "unclear.py": "print('cannot be told')\nraise SystemExit(2)\n",
    "broken.py": "import no_such_runtime\n",
    "slow.py": "import time\ntime.sleep(60)\n",
}


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    for name, text in SCRIPTS.items():
        Path(tmp_path, name).write_text(text)
    return tmp_path


def test_each_script_answers_by_its_exit_status(scripts: Path) -> None:
    found = check_reproducers(reproducers_of(scripts), timeout_s=5.0, jobs=2)
    answers = {each.name: each.answer for each in found}
    assert answers == {
        "there.py": "still there",
        "fixed.py": "fixed",
        "unclear.py": "not checked",
        "broken.py": "not checked",
        "slow.py": "not checked",
    }, "a script that cannot import its runtime ends with status 1 too"
    assert counts(found) == {"still there": 1, "fixed": 1, "not checked": 3}
    reasons = {each.name: each.reason for each in found}
    assert reasons["there.py"] == "torch 2.13" and "no_such_runtime" in reasons["broken.py"]
    assert "no end within 5 s" in reasons["slow.py"]


def test_causes_and_ledgers_name_their_scripts(scripts: Path) -> None:
    causes = causes_of(
        [
            group(summary("cpu/jit", "discrepant", op, script=name))
            for op, name in (("sin", "fixed.py"), ("cos", "lost.py"))
        ]
    )
    (scripts / "causes.json").write_text(causes_text(causes))
    found = {each.script.rpartition("/")[2]: each for each in check_reproducers(reproducers_of(scripts))}
    assert found["fixed.py"].answer == "fixed" and found["lost.py"].reason == "there is no such file"

    (scripts / "known.toml").write_text(
        '[[issue]]\nnote = "one"\nscript = "there.py"\nmatch = { id = "a" }\n'
        '[[issue]]\nnote = "two"\nmatch = { id = "b" }\n'
    )
    one, two = check_reproducers(reproducers_of(scripts / "known.toml"))
    assert (one.name, one.answer) == ("one", "still there")
    assert (two.answer, two.reason) == ("not checked", "the ledger names no script")


def test_another_interpreter_runs_the_scripts(scripts: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho from another environment\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    (found,) = check_reproducers([ListedReproducer("x", scripts / "fixed.py")], python=str(python))
    assert found.answer == "fixed" and found.reason == "from another environment"
    with pytest.raises(MindgapError, match="cannot be run"):
        check_reproducers([ListedReproducer("x", scripts / "fixed.py")], python=os.fspath(tmp_path / "none"))


def test_a_relative_interpreter_is_found_from_the_folder_of_each_script(
    scripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(tmp_path, "bin").mkdir()
    Path(tmp_path, "bin", "python").symlink_to(sys.executable)
    Path(tmp_path, "deep").mkdir()
    script = Path(tmp_path, "deep", "fixed.py")
    script.write_text("import sys\nprint(sys.argv[0])\n")
    monkeypatch.chdir(tmp_path)
    (found,) = check_reproducers([ListedReproducer("x", script)], python="bin/python")
    assert (found.answer, found.reason) == ("fixed", str(script))


def test_an_exception_is_no_proof(tmp_path: Path) -> None:
    Path(tmp_path, "raises.py").write_text("print('FAULT')\nraise ValueError('the API has changed')\n")
    Path(tmp_path, "exits.py").write_text("raise SystemExit('the runtime is missing')\n")
    found = check_reproducers(reproducers_of(tmp_path))
    assert [each.answer for each in found] == ["not checked", "not checked"]
    assert "the runtime is missing" in found[0].reason


def test_a_script_runs_where_its_platform_does(scripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))
    lost = ListedReproducer("x", scripts / "fixed.py", "tvm/cpu@threads=1")
    (found,) = check_reproducers([lost])
    assert found.answer == "not checked" and "mindgap env create tvm" in found.reason
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho from its environment\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    adopted = Environment("mine", str(python))
    adopted.folder.mkdir(parents=True)
    adopted.save()
    here, there = check_reproducers([replace(lost, platform=f"cpu/jit{option}") for option in ("", "@env=mine")])
    assert here.answer == there.answer == "fixed" and there.reason == "from its environment" != here.reason


def test_nothing_to_check_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MindgapError, match="holds no reproducer"):
        reproducers_of(tmp_path)
    with pytest.raises(MindgapError, match="is no ledger"):
        reproducers_of(tmp_path / "notes.txt")
