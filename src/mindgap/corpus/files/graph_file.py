"""Opens `graph:FILE` and `FILE.mindgap`: graphs that were captured before."""

from __future__ import annotations

from pathlib import Path

from mindgap.corpus.program import Captured
from mindgap.corpus.source import Source, SourceError
from mindgap.graph import default_tensor_store, load, read_model


def open_graph(source: Source) -> list[Captured]:
    """Loads a graph file. Raises `SourceError` if the file does not exist, `GraphError` if it is damaged."""
    path = Path(source.target)
    if not path.is_file():
        raise SourceError(f"{path}: no such file")
    return [Captured(path.stem, source.text, load(path))]


def open_model(source: Source) -> list[Captured]:
    """Loads a model file. Its tensors go into the user's store. Raises `GraphError` if it cannot be read."""
    model = read_model(Path(source.target), default_tensor_store())
    return [Captured(model.name, source.text, model.graph)]
