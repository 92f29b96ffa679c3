"""Encodes graphs as bytes and decodes them.

A file is `MGAP`, a version, the length of the compressed graph as an LEB128 count, the graph's
canonical content as a zstd frame, and optionally its labels as another. The content is a function
of the graph alone, type-exact (1, 1.0 and True differ, and so do 0.0 and -0.0; all NaNs are one);
`digest` is taken of it. The frames are too, for one version of the zstd library.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Final

import zstandard

from mindgap.graph import wire
from mindgap.graph.decoder import graph_from_content, labels_from_content
from mindgap.graph.encoder import graph_content, labels_content
from mindgap.graph.errors import GraphError
from mindgap.graph.graph import Graph, Labels
from mindgap.graph.validation import validate

#: The best ratio below the levels whose tables take milliseconds to set up.
_LEVEL: Final = 12


def encode(graph: Graph, labels: bool = True) -> bytes:
    """Returns the graph as canonical bytes: equal for equal graphs.

    `labels`: whether labels follow in a separate section, which is no part of the graph's identity.
    Raises `GraphError` for a graph that breaks a rule, and for one too large to be a graph (literals
    belong in a `TensorStore`).
    """
    validate(graph)
    data = framed(graph_content(graph))
    return data + _compress(labels_content(graph)) if labels and graph.labels != Labels() else data


def framed(content: bytes) -> bytes:
    """Returns the file of a graph without labels, from its canonical content. Raises `GraphError` if too large."""
    frame = _compress(content)
    out = bytearray(wire.MAGIC)
    out.append(wire.VERSION)
    wire.put_count(out, len(frame))
    return bytes(out + frame)


def decode(data: bytes) -> Graph:
    """Decodes and validates a graph. Raises `GraphError`, and no other exception, for any invalid bytes.

    Runs no code from the bytes. Memory is bounded by the number of parts that a graph may have.
    """
    frame, rest = _frames(data)
    graph = graph_from_content(_decompress(frame, "graph"))
    validate(graph)
    if rest:
        graph = replace(graph, labels=labels_from_content(_decompress(rest, "labels"), graph))
    return graph


def digest(graph: Graph) -> str:
    """Returns the SHA-256, in hex, of the graph's canonical content: exact, order-sensitive, without labels.

    Raises `GraphError` for a graph that breaks a rule.
    """
    validate(graph)
    return hashlib.sha256(graph_content(graph)).hexdigest()


def digest_of_bytes(data: bytes) -> str:
    """Returns the digest of an encoded graph without decoding it. Raises `GraphError`."""
    frame, _ = _frames(data)
    return hashlib.sha256(_decompress(frame, "graph")).hexdigest()


def save(graph: Graph, path: str | Path) -> None:
    """Writes `encode(graph)`, labels included, to a file."""
    Path(path).write_bytes(encode(graph))


def load(path: str | Path) -> Graph:
    """Reads a file that `save` wrote. Raises `GraphError`, naming the file."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise GraphError(f"graph file {path} cannot be read: {error.strerror}") from None
    try:
        return decode(data)
    except GraphError as error:
        raise GraphError(f"graph file {path}: {error}") from None


def _frames(data: bytes) -> tuple[bytes, bytes]:
    """Splits a file into the compressed graph and the compressed labels (or nothing)."""
    if data[:4] != wire.MAGIC:
        raise GraphError("these bytes are no graph: they do not begin with MGAP")
    if len(data) < 6:
        raise GraphError("damaged graph: the bytes end after the heading")
    if data[4] != wire.VERSION:
        raise GraphError(f"graph format {data[4]} is not known here (only {wire.VERSION}): update mindgap")
    length, start, shift = 0, 5, 0
    while True:
        if start == len(data) or shift > 35:
            raise GraphError("damaged graph: the length of the graph cannot be read")
        length |= (data[start] & 0x7F) << shift
        start, shift = start + 1, shift + 7
        if data[start - 1] < 0x80:
            break
    if length > len(data) - start:
        raise GraphError(f"damaged graph: {length} bytes are promised, {len(data) - start} are there")
    return data[start : start + length], data[start + length :]


def _compress(content: bytes) -> bytes:
    if len(content) > wire.MAX_CONTENT:
        raise GraphError(f"a graph of {len(content)} bytes is too large: keep literals in a tensor store")
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(content)


def _decompress(frame: bytes, what: str) -> bytes:
    try:
        promised = zstandard.get_frame_parameters(frame).content_size
        if promised > wire.MAX_CONTENT:
            raise GraphError(f"damaged graph: the {what} would be {promised} bytes, more than {wire.MAX_CONTENT}")
        return zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise GraphError(f"damaged graph: the {what} cannot be decompressed: {error}") from None
