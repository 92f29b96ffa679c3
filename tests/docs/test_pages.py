"""README, the tutorials and all pages that show what commands print: the commands print it."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import mindgap

ROOT = Path(__file__).parents[2]
TOOL: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "run_pages.py"))
#: Those that show what commands print. Blocks without `console` are records of runs elsewhere.
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if "```console\n" in page.read_text(encoding="utf-8")
]


def test_readme(tmp_path: Path) -> None:
    _, wrong = TOOL["run_page"]((ROOT / "README.md").read_text(encoding="utf-8"), tmp_path, False)
    assert not wrong


@pytest.mark.nightly
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "README.md"], ids=lambda page: page.stem)
def test_a_page(page: Path, tmp_path: Path) -> None:
    _, wrong = TOOL["run_page"](page.read_text(encoding="utf-8"), tmp_path, False)
    assert not wrong, "\n".join(wrong)


def test_the_tutorials_and_the_examples_show_what_their_commands_print() -> None:
    tutorials = {*(ROOT / "docs" / "ways").glob("*.md"), ROOT / "docs" / "examples.md", ROOT / "README.md"}
    assert tutorials <= {*PAGES} and len(PAGES) > len(tutorials)


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
