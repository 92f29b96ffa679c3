"""Damages what mindgap's files hold, and packs it again with right checksums: graphs of model files, rows of stores.

`benchmarks/damaged_files.py` reads what is made here (formats `graph` and `rows`).
"""

from __future__ import annotations

import dataclasses
import io
import json
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import zstandard

from mindgap.graph import Graph, Input, ModelFile, Node, Ref, Stored, TensorSpec, TensorStore, decode
from mindgap.graph.codec import framed
from mindgap.graph.encoder import graph_content, labels_content
from mindgap.graph.graph import Decision, Device, DType, Labels, Layout, MemoryFormat
from mindgap.graph.model_file import write_model
from mindgap.graph.recipe import Constant, Exceptional, Integers, Literal, Normal, Permutation, Uniform
from mindgap.results.store.errors import StoreError
from mindgap.results.store.segment import packed_segment, to_arrow
from mindgap.results.store.tables import TABLES, TableSchema

_NUMBERS = (0, 1, -1, 2, 7, 127, 128, 1 << 20, (1 << 31) - 1, 1 << 40, 1 << 63, 1 << 70, -(1 << 40))
_STRINGS = ("", "\0", "aten.sin.default", "aten.no_such.default", "float32", "é" * 300, "../../outside", "0" * 64, "[")
_FLOATS = (0.0, -0.0, 1e308, float("nan"), float("inf"), -1.5)

Damage = Callable[[bytes, random.Random], bytes]


def graph_with_everything(key: str) -> Graph:
    """Returns a graph with each kind of argument, recipe, role and label. `key`: of a stored tensor of shape (2, 3)."""
    matrix, whole, mask = (TensorSpec.contiguous(dtype, (2, 3)) for dtype in ("float32", "int64", "bool"))
    turned = TensorSpec("float32", (3, 2), (1, 3))
    inputs = (
        Input(matrix, Stored(key), "parameter"), Input(matrix, Normal(5, 0.5, 2.0)), Input(matrix, Uniform(6, -1.0)),
        Input(whole, Integers(7, -3, 9), "buffer"), Input(whole, Permutation(8), "constant"),
        Input(mask, Constant(True)), Input(matrix, Exceptional(9, 0.5), "random"),
        Input(TensorSpec.contiguous("uint8", (4,)), Literal(b"abcd")),
    )  # fmt: skip
    nodes = (
        Node("aten.add.Tensor", (Ref(0), Ref(1)), (("alpha", 2.5),), (matrix,)),
        Node("aten.permute.default", (Ref(8), (1, 0)), (), (turned,)),
        Node("aten._to_copy.default", (Ref(9),),
             (("device", Device()), ("dtype", DType("float16")), ("layout", Layout("strided")),
              ("memory_format", MemoryFormat("preserve_format"))), (TensorSpec("float16", (3, 2), (1, 3)),)),
        Node("aten.sort.default", (Ref(2), -1, True), (), (matrix, whole)),
        Node("aten.cat.default", ((Ref(11), Ref(0)), 1), (), (TensorSpec.contiguous("float32", (2, 6)),)),
        Node("aten.div.Tensor_mode", (Ref(3), Ref(4)), (("rounding_mode", "floor"),), (whole,)),
        Node("aten.mul.Scalar", (Ref(6), 1 + 2j), (), (TensorSpec.contiguous("complex64", (2, 3)),)),
        Node("aten.clamp.default", (Ref(1), None, 1 << 40), (), (matrix,)),
    )  # fmt: skip
    decision = Decision(1, "number", "3", "model.py:1", "x.item()")
    names = tuple(f"input {number}" for number in range(len(inputs)))
    labels = Labels(names, tuple(f"layer.{number} (m.py:3)" for number in range(len(nodes))), ("a", "b"), (decision,))
    return Graph(inputs, nodes, (16, 13), grad=(0, 1), labels=labels)


def model_with_everything(folder: Path) -> bytes:
    """Returns the bytes of a model file that holds it."""
    tensors, path = TensorStore(folder / "made"), folder / "made.mindgap"
    key = tensors.put(np.arange(6, dtype=np.float32).reshape(2, 3))
    write_model(path, ModelFile("it", "model.py:make", graph_with_everything(key)), tensors)
    return path.read_bytes()


def damaged_graph(damaged_bytes: Damage) -> Damage:
    """Returns the damage to the graph in a model file: to its parts, or to the bytes of its content or labels."""

    def damaged(data: bytes, random_: random.Random) -> bytes:
        members = _members_of(data)
        graph = decode(members["graph"])
        content, labels = graph_content(graph), labels_content(graph)
        match random_.randrange(4):
            case 0:
                content = damaged_bytes(content, random_)
            case 1:
                labels = damaged_bytes(labels, random_)
            case _:
                content, labels = _encoded_parts(graph, random_)
        frame = zstandard.ZstdCompressor(level=1, write_checksum=True).compress(labels)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for name, member in {**members, "graph": framed(content) + frame}.items():
                archive.writestr(zipfile.ZipInfo(name), member)
        return out.getvalue()

    return damaged


def _encoded_parts(graph: Graph, random_: random.Random) -> tuple[bytes, bytes]:
    """Returns content and labels of the graph with one to three parts replaced, drawn again where no bytes say that."""
    while True:
        found: Any = graph
        for _ in range(random_.randint(1, 3)):
            paths = list(_paths(found, ()))
            found = _with(found, random_.choice(paths), random_, [_at(found, path) for path in paths])
        try:
            return graph_content(found), labels_content(found)
        except Exception:  # the format has no bytes for it: not a file that could be read
            continue


def _members(value: Any) -> Iterator[tuple[Any, Any]]:
    if dataclasses.is_dataclass(value):
        yield from ((each.name, getattr(value, each.name)) for each in dataclasses.fields(value))
    elif isinstance(value, tuple):
        yield from enumerate(value)


def _paths(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for name, member in _members(value):
        yield (*path, name)
        yield from _paths(member, (*path, name))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for name in path:
        value = getattr(value, name) if isinstance(name, str) else value[name]
    return value


def _with(value: Any, path: tuple[Any, ...], random_: random.Random, others: list[Any]) -> Any:
    """Returns the value with the part at a path replaced."""
    if not path:
        return _other(value, random_, others)
    name, *rest = path
    if isinstance(name, str):
        return dataclasses.replace(value, **{name: _with(getattr(value, name), tuple(rest), random_, others)})
    return (*value[:name], _with(value[name], tuple(rest), random_, others), *value[name + 1 :])


def _other(value: Any, random_: random.Random, others: list[Any]) -> Any:
    alike = [other for other in others if type(other) is type(value)]
    match value:
        case bool():
            return not value
        case int():
            return random_.choice((value - 1, value + 1, *_NUMBERS))
        case float():
            return random_.choice(_FLOATS)
        case str():
            return random_.choice((*_STRINGS, random_.choice(alike)))
        case tuple() if random_.random() < 0.6:
            at = random_.randrange(len(value) + 1)
            return random_.choice((value[:at] + value[at + 1 :], value[:at] + value[at : at + 1] + value[at:], ()))
        case _ if random_.random() < 0.2:
            return random_.choice(others)
        case _:
            return random_.choice(alike or others)


def damaged_rows(damaged_tree: Callable[[Any, random.Random], Any]) -> Damage:
    """Returns the damage to values in rows of a packed store; the segment is written again under its right name."""

    def damaged(data: bytes, random_: random.Random) -> bytes:
        names = [name for name in _members_of(data) if name.startswith("tables/") and name.endswith(".parquet")]
        while True:
            name = random_.choice(names)
            table, rows = _rows_of(data, name)
            for _ in range(random_.randint(1, 3)):
                row = random_.choice(rows)
                column = random_.choice([each for each in table.schema if each.name != "_writer"])
                row[column.name] = _other_cell(row[column.name], random_, damaged_tree)
            try:
                return _with_rows(data, name, table, rows)
            except (StoreError, ValueError, OverflowError, TypeError):  # the column has no such value
                continue

    return damaged


def with_cells(data: bytes, table: str, column: str, value: Any) -> bytes:
    """Returns a packed store with another value in this column of all rows of a table."""
    for name in [name for name in _members_of(data) if name.startswith(f"tables/{table}/")]:
        about, rows = _rows_of(data, name)
        data = _with_rows(data, name, about, [{**row, column: value} for row in rows])
    return data


def _members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _rows_of(data: bytes, name: str) -> tuple[TableSchema, list[dict[str, Any]]]:
    rows = pq.read_table(io.BytesIO(_members_of(data)[name])).to_pylist(maps_as_pydicts="strict")
    return TABLES[name.split("/")[1]], rows


def _with_rows(data: bytes, name: str, table: TableSchema, rows: list[dict[str, Any]]) -> bytes:
    """Returns a packed store with other rows in one segment, under the name that their digest gives it."""
    files = _members_of(data)
    del files[name]
    last, segment = packed_segment(table, to_arrow(table, rows))
    files[last] = segment
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for each, content in files.items():
            archive.writestr(zipfile.ZipInfo(each), content)
    return out.getvalue()


def _other_cell(value: Any, random_: random.Random, damaged_tree: Callable[[Any, random.Random], Any]) -> Any:
    """Returns another value of a cell: JSON text damaged as a tree, lists and mappings by their members."""
    if random_.random() < 0.15:
        return None
    match value:
        case bool():
            return not value
        case int():
            return random_.choice((value - 1, value + 1, *_NUMBERS))
        case float():
            return random_.choice(_FLOATS)
        case str() if value[:1] in ("{", "["):
            try:
                return json.dumps(damaged_tree(json.loads(value), random_))
            except ValueError:
                return random_.choice(_STRINGS)
        case str():
            return random_.choice((*_STRINGS, value[:-1], value + "x", "{", "nul"))
        case list() | dict() if value:
            return damaged_tree(value, random_)
        case list():
            return [random_.choice((*_STRINGS, *_NUMBERS))]
        case dict():
            return {random_.choice(_STRINGS): random_.choice((*_STRINGS, *_NUMBERS))}
        case _:
            return random_.choice((*_STRINGS, *_NUMBERS, *_FLOATS, True, [], {}))
