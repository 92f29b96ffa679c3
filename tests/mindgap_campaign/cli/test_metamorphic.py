"""`mindgap metamorphic` end to end: a platform that is consistent, and one that is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import mindgap

MODELS = """
import torch
def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.GELU(), torch.nn.Linear(6, 3)), (torch.randn(5, 8),)
"""


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "faults.toml").write_text(
        '[[fault]]\nkind = "scaled"\nfactor = 1.5\nwhen = { op = "aten.flip.default" }\n'
    )
    return tmp_path


def rows_of(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By what was done to the graph."""
    return {row["model"].partition(" ~ ")[2]: row for row in data["rows"]}


@pytest.mark.nightly
def test_a_consistent_platform_gives_the_same_however_a_graph_is_written(models: Path) -> None:
    ran = mindgap("metamorphic", "models.py:make", "-p", "cpu/eager", "--json", cwd=models)
    assert ran.status == 0, ran.err
    rows = rows_of(json.loads(ran.out))
    assert rows["twice"]["verdict"] == "identical" and "given" in rows["twice"]["detail"]
    assert {"batch turned", "batch split", "layout"} <= rows.keys() and any(k.startswith("identity") for k in rows)
    assert all(row["verdict"] in ("identical", "rounding") for row in rows.values())


@pytest.mark.nightly
def test_what_is_wrong_only_in_another_spelling_is_found_and_traced(models: Path) -> None:
    faulty = "faulty/eager@faults=faults.toml"
    ran = mindgap("metamorphic", "models.py:make", "-p", faulty, "--json", "--html", "page.html", cwd=models)
    assert ran.status == 1, ran.err
    rows = rows_of(json.loads(ran.out))
    wrong = {kind: row for kind, row in rows.items() if row["verdict"] == "discrepant"}
    # One of the identities turns twice.
    assert "batch turned" in wrong and len(wrong) <= 2
    for row in wrong.values():
        assert row["culprit"]["op"] == "aten.flip.default" and row["detail"].startswith("not the graph's own bits")
    assert all(row["verdict"] in ("identical", "rounding") for kind, row in rows.items() if kind not in wrong)
    assert "aten.flip.default" in (models / "page.html").read_text()


@pytest.mark.nightly
def test_what_cannot_be_held_against_itself_is_said(models: Path) -> None:
    (models / "faults.toml").write_text('[[fault]]\nkind = "refusal"\nwhen = { op = "aten.gelu*" }\n')
    ran = mindgap("metamorphic", "models.py:make", "-p", "faulty/eager@faults=faults.toml", cwd=models)
    assert ran.status == 2 and "does not run it: unsupported" in ran.err
    ran = mindgap("metamorphic", "models.py:make", "-p", "nowhere/eager", cwd=models)
    assert ran.status == 2 and ran.err.count("\n") <= 2 and "nowhere/eager" in ran.err
