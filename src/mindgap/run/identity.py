"""Digests and encoded bytes of graphs, computed once per graph object."""

from __future__ import annotations

import threading
import weakref
from typing import Final

from mindgap.graph import Graph, digest as graph_digest, encode
from mindgap.graph.cache import Cache

#: By `id`: hashing a graph by its content costs as much as its digest.
_DIGESTS: Final[dict[int, tuple[weakref.ref[Graph], str]]] = {}
#: The bytes of the latest graphs: a job for many platforms sends the same ones to each.
_BYTES: Final[Cache[str, bytes]] = Cache(256, 1 << 26)
_LOCK: Final = threading.Lock()


def digest_of(graph: Graph) -> str:
    """Returns the graph's digest, cached as long as the object lives. Raises `GraphError`."""
    key = id(graph)
    known = _DIGESTS.get(key)
    if known is not None and known[0]() is graph:
        return known[1]
    digest = graph_digest(graph)
    remember(graph, digest)
    return digest


def remember(graph: Graph, digest: str, data: bytes | None = None) -> None:
    """Caches a digest (and bytes) that the graph's sender computed, without checking them."""
    key = id(graph)
    _DIGESTS[key] = (weakref.ref(graph, lambda _: _DIGESTS.pop(key, None)), digest)
    if data is not None:
        with _LOCK:
            _BYTES.put(digest, data, len(data))


def bytes_of(graph: Graph) -> bytes:
    """Returns `encode` without labels, cached for the latest graphs. Raises `GraphError`. Thread-safe."""
    digest = digest_of(graph)
    with _LOCK:
        data = _BYTES.get(digest)
    if data is None:
        data = encode(graph, labels=False)
        with _LOCK:
            _BYTES.put(digest, data, len(data))
    return data
