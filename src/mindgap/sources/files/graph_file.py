"""Opens `graph:FILE` and `FILE.mindgap`: graphs that were captured before."""

from __future__ import annotations

from pathlib import Path

from mindgap.graph import default_tensor_store, load, read_model, stored_keys
from mindgap.sources.program import Captured
from mindgap.sources.source import Source, SourceError


def open_graph(source: Source) -> list[Captured]:
    """Loads a graph file. Raises `GraphError` if it is damaged.

    Raises `SourceError` if the file does not exist, or one of its tensors is not in the user's store.
    """
    path = Path(source.target)
    if not path.is_file():
        raise SourceError(f"{path}: no such file")
    graph = load(path)
    tensors, keys = default_tensor_store(), stored_keys(graph)
    gone = sum(key not in tensors for key in keys)
    if gone:
        raise SourceError(
            f"{path}: {gone} of its {len(keys)} tensors are not in the cache {tensors.path}: removed from it, or "
            "captured on another machine; capture the model again into one file that holds them "
            "(mindgap capture SOURCE -o FILE.mindgap)"
        )
    return [Captured(path.stem, source.text, graph)]


def open_model(source: Source) -> list[Captured]:
    """Loads a model file. Its tensors go into the user's store. Raises `GraphError` if it cannot be read."""
    model = read_model(Path(source.target), default_tensor_store())
    return [Captured(model.name, source.text, model.graph)]
