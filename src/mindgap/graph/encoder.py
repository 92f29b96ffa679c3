"""Encodes a graph as canonical content; the layout is described in `wire`."""

from __future__ import annotations

from typing import NamedTuple

from mindgap.graph import wire
from mindgap.graph.entries import (
    ROLE_CODE,
    TemplateEntry,
    kind_entry,
    put_arg,
    seed_of,
    spec_entry,
    template_entry,
    utf8,
)
from mindgap.graph.errors import GraphError
from mindgap.graph.graph import DECISION_KINDS, Arg, Graph, Input
from mindgap.graph.spec import TensorSpec
from mindgap.graph.tables import (
    LIKE_FIRST,
    NO_TENSOR,
    Columns,
    column,
    content_of,
    numbered,
    slot_column,
    specs_of,
)
from mindgap.graph.wire import put_count, zigzag


def graph_content(graph: Graph) -> bytes:
    """Returns the canonical bytes of a valid graph, uncompressed and without labels."""
    nodes = node_columns(graph)
    codes = bytearray()
    coder = ReferenceCoder([ROLE_CODE[given.role] for given in graph.inputs])
    current = len(graph.inputs)
    for node, holes in zip(graph.nodes, nodes.operands, strict=True):
        for value in holes:
            put_count(codes, coder.code(value, current))
        current += len(node.outputs)
    outputs = [current - 1 - value for value in graph.outputs]
    kinds, templates = column(map(kind_entry, graph.inputs)), column(nodes.templates)
    slots = slot_column(specs_of(kinds.entries), nodes.slots)
    return content_of(Columns(kinds, _seeds(graph.inputs), templates, bytes(codes), slots, outputs, graph.grad))


class NodeColumns(NamedTuple):
    """For each node its template and the values that go into its holes; for each slot of all nodes its entry.

    `values`: the spec of every value of the graph.
    """

    templates: list[TemplateEntry]
    operands: list[list[int]]
    slots: list[bytes]
    values: list[TensorSpec | None]


def node_columns(graph: Graph) -> NodeColumns:
    """Returns the columns of a valid graph's nodes."""
    templates: list[TemplateEntry] = []
    operands: list[list[int]] = []
    slots: list[bytes] = []
    values: list[TensorSpec | None] = [given.spec for given in graph.inputs]
    for node in graph.nodes:
        holes: list[int] = []
        templates.append(template_entry(node, holes))
        operands.append(holes)
        like = values[holes[0]] if holes else None
        for spec in node.outputs:
            values.append(spec)
            if spec is None:
                slots.append(NO_TENSOR)
            else:
                slots.append(LIKE_FIRST if spec is like or spec == like else spec_entry(spec))
    return NodeColumns(templates, operands, slots, values)


def labels_content(graph: Graph) -> bytes:
    """For inputs, nodes and outputs: 0, or 1 and a count of bytes and UTF-8 for each label.

    Where there are decisions, their count follows, and for each its output, its kind and three strings.
    """
    out = bytearray()
    for labels in (graph.labels.inputs, graph.labels.nodes, graph.labels.outputs):
        out.append(1 if labels else 0)
        encoded = [utf8(label) for label in labels]
        for label in encoded:
            put_count(out, len(label))
        out += b"".join(encoded)
    if graph.labels.decisions:
        put_count(out, len(graph.labels.decisions))
    for each in graph.labels.decisions:
        put_count(out, each.output)
        put_count(out, DECISION_KINDS.index(each.kind))
        for text in map(utf8, (each.taken, each.line, each.text)):
            put_count(out, len(text))
            out += text
    return bytes(out)


def argument_content(arg: Arg) -> bytes:
    """Returns the bytes of one argument, with holes for references: equal for equal type and value."""
    out = bytearray()
    parts: list[bytes] = []
    put_arg(arg, parts, out, [])
    parts[1::2], table = numbered(parts[1::2])
    return b"".join((*parts, out, table))


class ReferenceCoder:
    """Encodes references as numbers that repeat where a block of the graph repeats; see `wire`."""

    def __init__(self, roles: list[int]) -> None:
        self._roles = roles
        self._members: list[list[int]] = [[] for _ in wire.ROLE_CODES]
        self._ranks: list[int] = []
        for number, role in enumerate(roles):
            self._ranks.append(len(self._members[role]))
            self._members[role].append(number)
        self._expected = [0] * len(self._members)

    def code(self, value: int, current: int) -> int:
        """Returns the code of a value that a node refers to; `current`: the node's first slot."""
        if value >= len(self._roles):
            return wire.REFERENCE_KINDS * (current - value - 1)
        role, rank = self._roles[value], self._ranks[value]
        difference = rank - self._expected[role]
        self._expected[role] = rank + 1
        return wire.REFERENCE_KINDS * zigzag(difference) + 1 + role

    def value(self, code: int, current: int) -> int:
        """Inverts `code`. Raises `GraphError` if there is no such value before `current`."""
        steps, kind = divmod(code, wire.REFERENCE_KINDS)
        if kind == 0:
            value = current - 1 - steps
            if value < len(self._roles):
                raise GraphError(f"a reference goes {steps + 1} values back from value {current}, before any node")
            return value
        role = kind - 1
        rank = self._expected[role] + wire.unzigzag(steps)
        members = self._members[role]
        if not 0 <= rank < len(members):
            raise GraphError(
                f"a reference to {wire.ROLE_CODES[role]} {rank} among the inputs, which have {len(members)}"
            )
        self._expected[role] = rank + 1
        return members[rank]


def _seeds(inputs: tuple[Input, ...]) -> bytes:
    """Returns the column of seeds. Inputs that differ in their seeds only are of one kind."""
    seeds = [(number, seed) for number, given in enumerate(inputs) if (seed := seed_of(given.recipe)) is not None]
    width = max(((seed.bit_length() + 7) // 8 or 1 for _, seed in seeds), default=0)
    out = bytearray([width])
    for number, seed in seeds:
        out += ((seed - number) % (1 << 8 * width)).to_bytes(width, "little")
    return bytes(out)
