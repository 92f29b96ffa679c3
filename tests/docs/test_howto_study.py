"""Runs the code of docs/howto/add-a-study.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "add-a-study.md"


def test_add_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))
    code = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(code) == 2
    exec(compile("\n".join(code), str(PAGE), "exec"), {})
