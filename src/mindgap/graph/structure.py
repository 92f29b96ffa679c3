"""Computes a digest of a graph's structure, by which models are deduplicated.

Hashed as Merkle trees are: a node's colour is made of its operator, its attributes and the colours
of its operands, back to the inputs, which are known by role and dtype. That alone cannot tell one
operand used twice from two alike, so colours are swept back as well (a value takes in what uses
it, and where), forth again, and so on until no sweep separates more values: the refinement of
Weisfeiler and Leman on the graph's edges. Graphs that differ only in a wiring too regular for that
(each use symmetrical to every other) get one digest; no model does that on purpose.

A node that touches memory which an earlier node wrote to depends on that node too, so that the
order of in-place operators and of what reads between them counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal

from mindgap.graph.conventions import SIZE_KEYWORDS, may_alias, size_positions, written_operands
from mindgap.graph.encoder import argument_content
from mindgap.graph.graph import Arg, Graph, Node, Ref, operands
from mindgap.graph.spec import TensorSpec
from mindgap.graph.validation import validate

Level = Literal["operators", "attributes", "shapes"]

#: (number of a value that the node reads, or -1 - node index of what it comes after)
_Source = int


def structure_digest(graph: Graph, level: Level = "attributes") -> str:
    """Returns the SHA-256, in hex, of the computation, independent of how the graph is written.

    `operators`: overloads and how they are wired. `attributes`: also dtypes, roles of inputs and the
    arguments that are not sizes of tensors. `shapes`: also those, and the shapes of all values.
    Blind to labels, recipes, strides, the order of independent nodes, and the numbers of inputs;
    outputs are in order. Raises `GraphError` for a graph that breaks a rule.
    """
    validate(graph)
    edges = _edges(graph)
    inputs = [_hash("input", *_input_words(graph, number, level)) for number in range(len(graph.inputs))]
    nodes = [_hash(*_node_words(node, level)) for node in graph.nodes]
    colours = _Colours(graph, edges, inputs, nodes)
    colours.refine()
    return hashlib.sha256(b"".join([level.encode(), *colours.summary()])).hexdigest()


def _hash(*words: bytes | str) -> bytes:
    """Returns a colour: 16 bytes of a digest of the words, with their boundaries."""
    hashed = hashlib.blake2b(digest_size=16)
    for word in words:
        data = word.encode() if isinstance(word, str) else word
        hashed.update(len(data).to_bytes(4, "little"))
        hashed.update(data)
    return hashed.digest()


def _mixed(colours: Iterable[bytes]) -> bytes:
    """Returns a colour of colours, which are all of one length."""
    return hashlib.blake2b(b"".join(colours), digest_size=16).digest()


def _input_words(graph: Graph, number: int, level: Level) -> list[str]:
    given = graph.inputs[number]
    words = ["grad"] if number in graph.grad else []
    return words if level == "operators" else [*words, given.role, _spec_word(given.spec, level)]


def _node_words(node: Node, level: Level) -> list[bytes | str]:
    """Returns a node's first colour: its attributes, and the holes that operands fill."""
    sizes = size_positions(node) if level == "attributes" else ()
    words: list[bytes | str] = [node.op]
    for position, arg in enumerate(node.args):
        words.append(_arg_word(arg, level, position in sizes))
    for name, arg in node.kwargs:
        words += [name, _arg_word(arg, level, level == "attributes" and name in SIZE_KEYWORDS)]
    words += [_spec_word(spec, level) for spec in node.outputs]
    return words


def _arg_word(arg: Arg, level: Level, is_size: bool) -> bytes:
    if level == "operators":
        return argument_content(_wires(arg))
    return b"size" if is_size else argument_content(arg)


def _wires(arg: Arg) -> Arg:
    """Keeps only the references of an argument, in their nested lists."""
    if isinstance(arg, tuple):
        kept = tuple(_wires(item) for item in arg)
        return kept if any(item is not None for item in kept) else None
    return arg if isinstance(arg, Ref) else None


def _spec_word(spec: TensorSpec | None, level: Level) -> str:
    if spec is None:
        return "none"
    return {"operators": "tensor", "attributes": spec.dtype, "shapes": str(spec)}[level]


class _Edges:
    """The dependencies of each node, in order, and of each output."""

    def __init__(self) -> None:
        self.nodes: list[list[_Source]] = []
        self.outputs: list[list[_Source]] = []


def _edges(graph: Graph) -> _Edges:
    """Returns the operands, each followed by the last writers of the memory that it may share."""
    edges = _Edges()
    memory: list[frozenset[int]] = [frozenset([number]) for number in range(len(graph.inputs))]
    writer: dict[int, int] = {}

    def sources(value: int) -> list[_Source]:
        after = sorted({writer[cell] for cell in memory[value] if cell in writer}) if writer else []
        return [value, *(-1 - index for index in after)]

    for index, node in enumerate(graph.nodes):
        read = operands(node)
        edges.nodes.append([source for value in read for source in sources(value)])
        shared = frozenset[int]().union(*(memory[value] for value in read)) if may_alias(node) else frozenset[int]()
        memory += [shared or frozenset([value]) for value in graph.results(index)]
        for value in written_operands(node):
            for cell in memory[value]:
                writer[cell] = index
    edges.outputs = [sources(value) for value in graph.outputs]
    return edges


class _Colours:
    """A colour for each value and node, refined until stable."""

    def __init__(self, graph: Graph, edges: _Edges, inputs: list[bytes], nodes: list[bytes]) -> None:
        self._graph, self._edges = graph, edges
        self._values = inputs + [b""] * (len(graph.values) - len(inputs))
        self._nodes = nodes

    def refine(self) -> None:
        """Sweeps forth and back until the number of colours no longer grows."""
        self._forth()
        count = self._count()
        while True:
            self._back()
            self._forth()
            before, count = count, self._count()
            if count <= before:
                return

    def summary(self) -> list[bytes]:
        """Returns the content of the digest: how often each colour occurs, and the outputs in order."""
        values = sorted(self._values)
        outputs = [self._of(source) for sources in self._edges.outputs for source in sources]
        return [len(values).to_bytes(4, "little"), *values, *sorted(self._nodes), *outputs]

    def _count(self) -> int:
        return len(set(self._values)) + len(set(self._nodes))

    def _of(self, source: _Source) -> bytes:
        return self._values[source] if source >= 0 else self._nodes[-1 - source]

    def _forth(self) -> None:
        """Mixes dependencies' colours into nodes, and nodes' colours into their slots."""
        for index, sources in enumerate(self._edges.nodes):
            colour = self._nodes[index] = _mixed([self._nodes[index], *map(self._of, sources)])
            for slot, value in enumerate(self._graph.results(index)):
                self._values[value] = _mixed([colour, slot.to_bytes(16, "little"), self._values[value]])

    def _back(self) -> None:
        """Mixes the colours and positions of uses into values and nodes."""
        uses: dict[_Source, list[bytes]] = {}
        for position, sources in enumerate(self._edges.outputs):
            for source in sources:
                uses.setdefault(source, []).append(b"output" + position.to_bytes(10, "little"))
        for index in reversed(range(len(self._nodes))):
            slots = self._graph.results(index)
            for value in slots:
                self._values[value] = _mixed([self._values[value], *sorted(uses.get(value, ()))])
            own = [*(self._values[value] for value in slots), *sorted(uses.get(-1 - index, ()))]
            colour = self._nodes[index] = _mixed([self._nodes[index], *own])
            for position, source in enumerate(self._edges.nodes[index]):
                uses.setdefault(source, []).append(_mixed([colour, position.to_bytes(16, "little")]))
        for number in range(len(self._graph.inputs)):
            self._values[number] = _mixed([self._values[number], *sorted(uses.get(number, ()))])
