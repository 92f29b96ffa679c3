"""Words: no name of the house is one that the glossary gives up, and no document has one that waits for a figure."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CELL = re.compile(r"(?<!\\)\|")


def given_up() -> set[str]:
    rows = [CELL.split(line) for line in (ROOT / "docs/glossary.md").read_text().splitlines()]
    return {word for row in rows if len(row) == 5 for word in re.findall(r"`(\w+)`", row[3])}


def names(path: Path) -> set[str]:
    """The module, its classes, functions and parameters: in lower case, without leading underscores."""
    found = {path.stem}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.name))
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return {name.lower().strip("_") for name in found}


def test_no_name_is_a_word_that_the_glossary_gives_up() -> None:
    words = given_up()
    assert len(words) > 15
    used = {(str(path), name) for path in (ROOT / "src").rglob("*.py") for name in names(path) & words}
    assert not used


#: What is no prose: code, the addresses of links, and quoted messages.
NO_PROSE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)|\"[^\"\n]*\"", re.DOTALL)
PLACEHOLDER = re.compile(r"(?<![\w/.-])(?:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|TABLE|TIME|TODO|TBD|FIXME|XXX)(?![\w/-])")


def placeholders(text: str) -> list[str]:
    """Words of capitals in prose that stand for a figure or a table."""
    return PLACEHOLDER.findall(NO_PROSE.sub(" ", text))


def documents() -> list[Path]:
    """All but the pages of single findings, which are made by a program and hold scripts and messages."""
    found = [path for folder in ("docs", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.md")]
    return [*ROOT.glob("*.md"), *(path for path in found if ROOT / "docs" / "findings" not in path.parents)]


def test_no_document_has_a_placeholder() -> None:
    read = {str(path.relative_to(ROOT)): placeholders(path.read_text(encoding="utf-8")) for path in documents()}
    assert len(read) > 40 and {path: found for path, found in read.items() if found} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("medians are JIT_MED and 3.67×", ["JIT_MED"]), ("| a | TABLE |", ["TABLE"]), ("it took TIME s", ["TIME"]),
        ("set `OMP_NUM_THREADS`, see [X](A_B.md)", []), ('it ends with "EP_FAIL: no"', []), ("BSD-3 and NaN", []),
    ],
)  # fmt: skip
def test_placeholders_are_words_of_capitals_in_prose(text: str, found: list[str]) -> None:
    assert placeholders(text) == found
