"""Runs the code of the page on synthesis that adds a mutation rule and a mutation kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from docs.page_sections import blocks

PAGE = "synthesis.md"


def run(heading: str, **names: Any) -> None:
    exec(compile("\n".join(blocks(PAGE, heading, "python")), heading, "exec"), names)


def test_add_a_mutation_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    [row] = blocks(PAGE, "Add a mutation rule", "toml")
    run("Add a mutation rule", ROW=row)


def test_add_a_mutation_kind() -> None:
    run("Add a mutation kind")
