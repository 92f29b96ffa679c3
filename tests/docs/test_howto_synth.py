"""Runs the code of the page on synthesis that adds a mutation rule and a mutation kind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "synthesis.md"


def blocks(heading: str, language: str) -> list[str]:
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found
    return found


def run(heading: str, **names: Any) -> None:
    exec(compile("\n".join(blocks(heading, "python")), heading, "exec"), names)


def test_add_a_mutation_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    [row] = blocks("Add a mutation rule", "toml")
    run("Add a mutation rule", ROW=row)


def test_add_a_mutation_kind() -> None:
    run("Add a mutation kind")
