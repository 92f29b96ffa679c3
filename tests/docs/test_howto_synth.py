"""Runs the code of the how-tos on mutation rules and mutation kinds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

HOWTO = Path(__file__).parents[2] / "docs" / "howto"


def blocks(page: str, language: str) -> list[str]:
    text = (HOWTO / page).read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found
    return found


def run(page: str, **names: Any) -> None:
    exec(compile("\n".join(blocks(page, "python")), page, "exec"), names)


def test_add_a_mutation_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    [row] = blocks("add-a-mutation-rule.md", "toml")
    run("add-a-mutation-rule.md", ROW=row)


def test_add_a_mutation_kind() -> None:
    run("add-a-mutation-kind.md")
