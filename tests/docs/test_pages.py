"""README and the tutorials: their commands give what the pages show."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import mindgap

ROOT = Path(__file__).parents[2]
TOOL: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "run_pages.py"))


def test_readme(tmp_path: Path) -> None:
    _, wrong = TOOL["run_page"]((ROOT / "README.md").read_text(encoding="utf-8"), tmp_path, False)
    assert not wrong


@pytest.mark.nightly
@pytest.mark.parametrize(
    "page", [ROOT / "docs" / "examples.md", *sorted((ROOT / "docs" / "ways").glob("*.md"))], ids=lambda page: page.stem
)
def test_a_tutorial(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "```console" in text
    _, wrong = TOOL["run_page"](text, tmp_path, False)
    assert not wrong


def test_a_line_that_a_command_does_not_give_is_named(tmp_path: Path) -> None:
    page = "```python\n# a.py\nprint('one 1')\nprint('two 25')\n```\n```console\n$ python a.py\none 2\nthree\n```\n"
    written, (wrong,) = TOOL["run_page"](page, tmp_path, True)
    assert "not in the output: three" in wrong and written.endswith("$ python a.py\none 1\ntwo 25\n```\n")


def test_the_page_of_the_api_has_each_public_name() -> None:
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = [line.rpartition(".")[2] for line in page.split("\n") if line.startswith("::: ")]
    assert sorted(listed) == sorted(set(mindgap.__all__) - {"__version__"})


def test_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").split("\n")
    assert len(lines) <= 120 and max(map(len, lines)) <= 120


@pytest.mark.nightly
def test_the_page_on_tests_is_what_the_marks_give() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "testing_page.py"))
    assert tool["page"]() == tool["PAGE"].read_text(encoding="utf-8")
