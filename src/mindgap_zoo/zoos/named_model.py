"""Opens a model of a library by its name."""

from __future__ import annotations

from collections.abc import Callable, Collection

from mindgap.sources.program import Built, Program
from mindgap.sources.source import Source, SourceError, SourceOptions, source_options, suggest


def open_named(
    source: Source, known: Collection[str], kind: str, build: Callable[[Source, SourceOptions], Built]
) -> list[Program]:
    """Returns the one program of a source. `known`: the library's names. `kind`: as for `require_name`.

    Raises `SourceError` for an unknown name or option.
    """
    chosen = source_options(source)
    require_name(source, known, kind)
    return [Program(source.target, source.text, lambda: build(source, chosen))]


def require_name(source: Source, known: Collection[str], kind: str) -> None:
    """Raises `SourceError`, with similar names, if the target is not known. `kind`: library and kind of model."""
    if source.target not in known:
        near = suggest(source.target, known)
        raise SourceError(f"{source.text}: {kind} {source.target!r}{near}")
