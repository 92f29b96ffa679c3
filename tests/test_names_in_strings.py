"""Objects that code names in strings are there: entry points, services of workers, openers of sources, stages."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
#: `mindgap.run.server:service`.
NAME = re.compile(r"(?P<module>mindgap\w*(?:\.[a-z_0-9]+)+):(?P<name>\w+)")


def file_of(module: str) -> Path:
    place = SOURCES.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


@cache
def names_of(file: Path) -> set[str]:
    """The names that a module binds at its top."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {each.asname or each.name for each in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def entry_points() -> Iterator[tuple[str, str, str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for group, points in {"scripts": project["scripts"], **project["entry-points"]}.items():
        for name, value in points.items():
            module, _, attribute = value.partition(":")
            yield f"{group} {name}", module, attribute


def strings() -> Iterator[tuple[str, str, str]]:
    for file in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            if found := NAME.fullmatch(text):
                yield f"{file.relative_to(SOURCES)}:{node.lineno}", found["module"], found["name"]


@pytest.mark.parametrize("where", [entry_points, strings], ids=lambda where: where.__name__)
def test_what_a_string_names_is_there(where) -> None:
    found = list(where())
    assert len(found) > 15
    for place, module, name in found:
        assert file_of(module).is_file(), f"{place} names {module}, which is no module"
        assert not name or name in names_of(file_of(module)), f"{place}: {module} has no {name}"
