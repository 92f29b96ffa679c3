"""Runs the code of docs/studies.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.page_sections import blocks

PAGE = "studies.md"


def test_add_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))
    code = blocks(PAGE, "Add a study", "python")
    assert len(code) == 2
    exec(compile("\n".join(code), PAGE, "exec"), {})
