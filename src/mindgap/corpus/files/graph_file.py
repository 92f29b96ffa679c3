"""Opens `graph:FILE`: a graph file that was captured before."""

from __future__ import annotations

from pathlib import Path

from mindgap.corpus.program import Captured
from mindgap.corpus.source import Source, SourceError
from mindgap.graph import load


def open_graph(source: Source) -> list[Captured]:
    """Loads a graph file. Raises `SourceError` if the file does not exist, `GraphError` if it is damaged."""
    path = Path(source.target)
    if not path.is_file():
        raise SourceError(f"{path}: no such file")
    return [Captured(path.stem, source.text, load(path))]
