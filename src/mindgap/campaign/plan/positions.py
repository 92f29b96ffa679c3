"""On which line of a TOML document each key stands, which `tomllib` does not say."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

Path = tuple[str | int, ...]

_BLANK: Final = re.compile(r"(?:\s|#[^\n]*)*")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_STRINGS: Final = (
    re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}', re.DOTALL),
    re.compile(r"'''.*?'{3,5}", re.DOTALL),
    re.compile(r'"(?:[^"\\\n]|\\.)*"'),
    re.compile(r"'[^'\n]*'"),
)
_SCALAR: Final = re.compile(r"[^,\]}#\n]*")


def lines_of(text: str) -> Mapping[Path, int]:
    """Key by key, items of arrays by number, the line (from 1) on which it first stands. `text` must be valid TOML."""
    return _Scan(text).found


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """The line of the path, or of the nearest part of it that the document has; 1 where it has none."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


class _Scan:
    """One walk through a document that `tomllib` has accepted."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.found: dict[Path, int] = {}
        self._arrays: dict[Path, int] = {}
        self._document()

    def _document(self) -> None:
        table: Path = ()
        while self._more():
            if self._take("[["):
                table = self._keys(())
                number = self._arrays[table] = self._arrays.get(table, -1) + 1
                table = (*table, number)
                self._note(table)
                self._take("]]")
            elif self._take("["):
                table = self._keys(())
                self._take("]")
            else:
                self._pair(table)

    def _pair(self, table: Path) -> None:
        path = self._keys(table)
        self._take("=")
        self._value(path)

    def _keys(self, path: Path) -> Path:
        """A dotted key below `path`, each part of it noted."""
        while True:
            self._more()
            bare = _BARE.match(self._text, self._at)
            if bare:
                self._at = bare.end()
                path = (*path, bare[0])
            else:
                path = (*path, _unquoted(self._string()))
            self._note(path)
            if not self._take("."):
                return path

    def _value(self, path: Path) -> None:
        if self._take("["):
            number = 0
            while not self._take("]"):
                self._note((*path, number))
                self._value((*path, number))
                self._take(",")
                number += 1
        elif self._take("{"):
            while not self._take("}"):
                self._pair(path)
                self._take(",")
        elif not self._string():
            found = _SCALAR.match(self._text, self._at)
            # A document that is none must not be walked for ever.
            self._at = max(found.end() if found else 0, self._at + 1)

    def _string(self) -> str:
        for pattern in _STRINGS:
            found = pattern.match(self._text, self._at)
            if found:
                self._at = found.end()
                return found[0]
        return ""

    def _more(self) -> bool:
        """Steps over blanks and comments; whether anything is left."""
        blank = _BLANK.match(self._text, self._at)
        self._at = blank.end() if blank else self._at
        return self._at < len(self._text)

    def _take(self, mark: str) -> bool:
        if self._more() and self._text.startswith(mark, self._at):
            self._at += len(mark)
            return True
        return False

    def _note(self, path: Path) -> None:
        self.found.setdefault(path, self._text.count("\n", 0, self._at) + 1)


def _unquoted(key: str) -> str:
    if key.startswith("'") or len(key) < 2:
        return key.strip("'")
    try:
        return json.loads(key)
    except ValueError:
        return key[1:-1]
