"""The glossary: no name of the house is a word that it gives up."""

import ast
import re
from pathlib import Path

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
