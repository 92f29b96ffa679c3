"""Patterns to sources: `timm:resnet*`, `records:FILE.parquet`, `transformers:*For*`; and what a source would cost.

Only what is a name is listed: `pt2`, `graph`, hubs and the user's own code are what they say.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from typing import Any, Final

from mindgap.corpus.source import Source, SourceError, parse, schemes, suggest

#: The patterns that together are every model this installation can build, operator samples last.
EVERYTHING: Final = tuple(f"{scheme}:*" for scheme, kind in schemes().items() if kind.listed)

_GLOB: Final = re.compile(r"[*?\[]")


def expand(pattern: str) -> list[str]:
    """The sources that a pattern stands for, in the order of their zoo; the pattern itself where it is a source.

    `records:FILE` without `#ID` is every record of the file. Raises `SourceError` where nothing matches.
    """
    source = parse(pattern)
    options = source.text[len(source.scheme) + 1 + len(source.target) :]
    if source.scheme == "records":
        return _records(source, options)
    if not source.kind.listed or not _GLOB.search(source.target):
        return [pattern]
    known = _names(source)
    found = [name for name in known if fnmatch.fnmatchcase(name, source.target)]
    if not found:
        near = suggest(_GLOB.sub("", source.target), known)
        raise SourceError(f"{pattern}: none of {source.scheme}'s {len(known)} names matches{near}")
    return [f"{source.scheme}:{name}{options}" for name in found]


def parameters_of(text: str) -> int | None:
    """How many parameters a source's model has, where its zoo can say so without building it."""
    source = parse(text)
    count: Callable[[Source], int] | None = (
        getattr(source.kind.module(), "parameters", None) if source.kind.listed else None
    )
    return count(source) if count else None


def _names(source: Source) -> list[str]:
    names: Any = source.kind.module().names
    if source.scheme == "transformers" and "For" in source.target:
        return list(names(heads=True))
    return list(names())


def _records(source: Source, options: str) -> list[str]:
    records: Any = source.kind.module()
    path, hash_, wanted = source.target.partition("#")
    if hash_ and not _GLOB.search(wanted):
        return [source.text]
    known: list[str] = records.names(path)
    found = [name for name in known if fnmatch.fnmatchcase(name, wanted or "*")]
    if not found:
        raise SourceError(f"{source.text}: no record of {path} matches")
    return [f"records:{path}#{name}{options}" for name in found]
