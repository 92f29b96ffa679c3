"""The identity of a graph: a digest of its canonical content, labels left out."""

from __future__ import annotations

import hashlib

from mindgap.graph.encoder import graph_content
from mindgap.graph.graph import Graph
from mindgap.graph.validate import validate


def digest(graph: Graph) -> str:
    """SHA-256, in hex, of the graph's canonical content: exact, order-sensitive, blind to labels.

    Raises `GraphError` for a graph that breaks a rule.
    """
    validate(graph)
    return hashlib.sha256(graph_content(graph)).hexdigest()
