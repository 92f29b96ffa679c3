"""Finds the line of a TOML document on which a key stands, which `tomllib` does not report."""

from __future__ import annotations

import tomllib
from itertools import accumulate
from typing import Any, Final

Path = tuple[str | int, ...]

#: What closes an array that goes on after a line. Inline tables do not span lines.
_CLOSINGS: Final = ("", "]", "]]", "]]]")


def line_of(text: str, path: Path) -> int:
    """Returns the line (from 1) on which the path, or its nearest ancestor, first stands; 1 for the document.

    Parses the first line, the first two lines, and so on, until the path is there: what a prefix means is up to
    `tomllib`. Lines since the last prefix that could be parsed belong to one statement, which counts from its first
    line. `text` must be valid TOML.
    """
    while path and not _holds(tomllib.loads(text), path):
        path = path[:-1]
    begin = 1
    for number, prefix in enumerate(accumulate(text.splitlines(keepends=True)), start=1):
        prefix_lines = _parsed(prefix)
        if prefix_lines is not None:
            if _holds(prefix_lines, path):
                return begin
            begin = number + 1
    return 1


def _parsed(prefix: str) -> Any:
    for closing in _CLOSINGS:
        try:
            return tomllib.loads(prefix + closing)
        except tomllib.TOMLDecodeError:
            continue
    return None


def _holds(data: Any, path: Path) -> bool:
    for key in path:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return False
    return True
