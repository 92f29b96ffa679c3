"""Expands patterns to sources: `timm:resnet*`, `records:FILE.parquet`, `transformers:*For*`. Counts parameters of a
source.

Schemes without a list of names (`pt2`, `graph`, hubs, the user's own code) have no patterns.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from typing import Any, Final

from mindgap.sources.source import Source, SourceError, parse, schemes, suggest

#: The patterns that together are every model this installation can build, operator samples last.
EVERYTHING: Final = tuple(f"{scheme}:*" for scheme, kind in schemes().items() if kind.listed)

_GLOB: Final = re.compile(r"[*?\[]")


def expand(pattern: str) -> list[str]:
    """Returns the sources that match a pattern, in the order of their library; the text itself if it is a plain
    source.

    `records:FILE` without `#ID` matches every record of the file. Raises `SourceError` if nothing matches.
    """
    source = parse(pattern)
    options = source.text[len(source.scheme) + 1 + len(source.target) :]
    if source.scheme == "records":
        return _records(source, options)
    if not source.kind.listed or not _GLOB.search(source.target):
        return [pattern]
    known = _names(source)
    names = [name for name in known if fnmatch.fnmatchcase(name, source.target)]
    if not names:
        near = suggest(_GLOB.sub("", source.target), known)
        raise SourceError(f"{pattern}: none of {source.scheme}'s {len(known)} names matches{near}")
    return [f"{source.scheme}:{name}{options}" for name in names]


def parameters_of(text: str) -> int | None:
    """Returns the number of parameters of a source's model, or None if that takes building it."""
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
    names = [name for name in known if fnmatch.fnmatchcase(name, wanted or "*")]
    if not names:
        raise SourceError(f"{source.text}: no record of {path} matches")
    return [f"records:{path}#{name}{options}" for name in names]
