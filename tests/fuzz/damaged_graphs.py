"""Damages the graph in a model file, and packs it again with right checksums: format `graph` of
`tests/fuzz/damaged_files.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from mindgap.graph import Graph, Input, ModelFile, Node, Ref, Stored, TensorSpec, TensorStore, decode
from mindgap.graph.codec import framed
from mindgap.graph.encoder import graph_content, labels_content
from mindgap.graph.graph import Decision, Device, DType, Labels, Layout, MemoryFormat
from mindgap.graph.model_file import write_model
from mindgap.graph.recipe import Constant, Exceptional, Integers, Literal, Normal, Permutation, Uniform

sys.path.insert(0, str(Path(__file__).parent))

from damaged_contents import FLOATS, NUMBERS, STRINGS, damaged_bytes, unzipped, zipped


def small_graph() -> Graph:
    """A graph with a stored weight, and with labels of each kind."""
    spec = TensorSpec("float32", (2, 3), (3, 1))
    decision = Decision(1, "number", "3", "model.py:1", "x.item()")
    return Graph(
        (Input(spec, Stored("0" * 64)),),
        (Node("aten.sin.default", (Ref(0),), (), (spec,)),),
        (1, 0),
        labels=Labels(("x",), ("layer (model.py:3)",), ("out", "decision.0"), (decision,)),
    )


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


def damaged_graph(data: bytes, random_: random.Random) -> bytes:
    """Returns a model file whose graph is damaged: its parts, or the bytes of its content or labels."""
    members, graph, parts = _model_file(data)
    content, labels = graph_content(graph), labels_content(graph)
    match random_.randrange(4):
        case 0:
            content = damaged_bytes(content, random_)
        case 1:
            labels = damaged_bytes(labels, random_)
        case _:
            content, labels = _encoded_parts(graph, parts, random_)
    frame = zstandard.ZstdCompressor(level=1, write_checksum=True).compress(labels)
    return zipped({**members, "graph": framed(content) + frame})


@functools.cache
def _model_file(data: bytes) -> tuple[dict[str, bytes], Graph, list[tuple[tuple[Any, ...], Any]]]:
    """Returns the members of a model file, its graph, and all parts of that with the paths to them."""
    members = unzipped(data)
    graph = decode(members["graph"])
    return members, graph, [(path, _at(graph, path)) for path in _paths(graph, ())]


def _encoded_parts(
    graph: Graph, parts: list[tuple[tuple[Any, ...], Any]], random_: random.Random
) -> tuple[bytes, bytes]:
    """Returns content and labels of the graph with one to three parts replaced, drawn again where no bytes say that."""
    others = [part for _, part in parts]
    for _ in range(1000):
        found: Any = graph
        try:
            for _ in range(random_.randint(1, 3)):
                found = _with(found, random_.choice(parts)[0], random_, others)
            return graph_content(found), labels_content(found)
        except Exception:  # a part is gone, or the format has no bytes for it: not a file that could be read
            continue
    raise AssertionError("no graph with other parts could be written")


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
            return random_.choice((value - 1, value + 1, *NUMBERS))
        case float():
            return random_.choice(FLOATS)
        case str():
            return random_.choice((*STRINGS, random_.choice(alike)))
        case tuple() if random_.random() < 0.6:
            at = random_.randrange(len(value) + 1)
            return random_.choice((value[:at] + value[at + 1 :], value[:at] + value[at : at + 1] + value[at:], ()))
        case _ if random_.random() < 0.2:
            return random_.choice(others)
        case _:
            return random_.choice(alike or others)
