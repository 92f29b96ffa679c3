"""A graph to its canonical content; the layout is described in `wire`."""

from __future__ import annotations

import math
import struct

from mindgap.graph import wire
from mindgap.graph.errors import GraphError
from mindgap.graph.graph import Arg, Device, DType, Graph, Input, Layout, MemoryFormat, Node, Ref
from mindgap.graph.recipe import (
    Constant,
    Exceptional,
    Integers,
    Literal,
    Normal,
    Permutation,
    Recipe,
    Stored,
    Uniform,
)
from mindgap.graph.spec import TensorSpec, contiguous_stride
from mindgap.graph.validate import LAYOUTS, MEMORY_FORMATS
from mindgap.graph.wire import put_count, zigzag

_DTYPE_CODE = {name: code for code, name in enumerate(wire.DTYPE_CODES)}
_ROLE_CODE = {name: code for code, name in enumerate(wire.ROLE_CODES)}
_NAN = struct.pack("<d", math.nan)


def graph_content(graph: Graph) -> bytes:
    """The canonical bytes of a valid graph, uncompressed and without labels."""
    writer = _Writer()
    inputs = bytearray()
    put_count(inputs, len(graph.inputs))
    for given in graph.inputs:
        put_count(inputs, writer.kinds.place(writer.kind_of_input(given)))
    _put_seeds(inputs, graph.inputs)
    nodes, operand_codes, slots = writer.node_columns(graph)
    out = bytearray()
    for table in (writer.strings, writer.specs, writer.kinds):
        table.write(out)
    out += inputs
    writer.templates.write(out)
    put_count(out, len(graph.nodes))
    out += nodes + operand_codes + slots
    last = len(graph.values) - 1
    put_count(out, len(graph.outputs))
    for value in graph.outputs:
        put_count(out, last - value)
    put_count(out, len(graph.grad))
    before = -1
    for number in graph.grad:
        put_count(out, zigzag(number - before - 1))
        before = number
    return bytes(out)


def labels_content(graph: Graph) -> bytes:
    """For inputs, nodes and outputs: 0, or 1 and a count of bytes and UTF-8 for each label."""
    out = bytearray()
    for labels in (graph.labels.inputs, graph.labels.nodes, graph.labels.outputs):
        out.append(1 if labels else 0)
        encoded = [_utf8(label) for label in labels]
        for label in encoded:
            put_count(out, len(label))
        out += b"".join(encoded)
    return bytes(out)


def argument_content(arg: Arg) -> bytes:
    """The bytes of one argument on its own, with holes for references: equal where type and value are."""
    writer = _Writer()
    out = bytearray()
    writer.put_arg(out, arg)
    writer.strings.write(out)
    return bytes(out)


class _Table:
    """Entries by their bytes, numbered in the order of first use."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def number(self, entry: bytes) -> int:
        return self._numbers.setdefault(entry, len(self._numbers))

    def place(self, entry: bytes) -> int:
        """The index as columns hold it."""
        count = len(self._numbers)
        number = self._numbers.setdefault(entry, count)
        return wire.NEXT if number == count else number + 1

    def write(self, out: bytearray) -> None:
        put_count(out, len(self._numbers))
        for entry in self._numbers:
            out += entry


class _Writer:
    """The tables as they grow."""

    def __init__(self) -> None:
        self.strings = _Table()
        self.specs = _Table()
        self.kinds = _Table()
        self.templates = _Table()
        self._spec_bytes: dict[TensorSpec, bytes] = {}

    def node_columns(self, graph: Graph) -> tuple[bytearray, bytearray, bytearray]:
        """Templates, operands and output slots of all nodes, as three columns."""
        nodes, operand_codes, slots = bytearray(), bytearray(), bytearray()
        coder = ReferenceCoder([_ROLE_CODE[given.role] for given in graph.inputs])
        current = len(graph.inputs)
        for node in graph.nodes:
            template = bytearray()
            holes = self._put_node(template, node)
            put_count(nodes, self.templates.place(bytes(template)))
            for value in holes:
                put_count(operand_codes, coder.code(value, current))
            like = graph.values[holes[0]] if holes else None
            for spec in node.outputs:
                put_count(slots, self._slot(spec, like))
            current += len(node.outputs)
        return nodes, operand_codes, slots

    def _slot(self, spec: TensorSpec | None, like: TensorSpec | None) -> int:
        if spec is None:
            return 0
        return 1 if spec == like else 2 + self.specs.place(self._spec(spec))

    def _put_node(self, out: bytearray, node: Node) -> list[int]:
        """Append the template; the value numbers that belong in its holes."""
        holes: list[int] = []
        put_count(out, self._string(node.op))
        put_count(out, len(node.args))
        for arg in node.args:
            self.put_arg(out, arg, holes)
        put_count(out, len(node.kwargs))
        for name, arg in node.kwargs:
            put_count(out, self._string(name))
            self.put_arg(out, arg, holes)
        put_count(out, len(node.outputs))
        return holes

    def kind_of_input(self, given: Input) -> bytes:
        out = bytearray([_ROLE_CODE[given.role]])
        put_count(out, self.specs.number(self._spec(given.spec)))
        self._put_recipe(out, given.recipe)
        return bytes(out)

    def _put_recipe(self, out: bytearray, recipe: Recipe) -> None:
        match recipe:
            case Uniform():
                out.append(wire.UNIFORM)
                out += struct.pack("<dd", recipe.low, recipe.high)
            case Normal():
                out.append(wire.NORMAL)
                out += struct.pack("<dd", recipe.mean, recipe.std)
            case Exceptional():
                out.append(wire.EXCEPTIONAL)
                out += struct.pack("<d", recipe.share)
            case Integers():
                out.append(wire.INTEGERS)
                put_count(out, zigzag(recipe.low))
                put_count(out, zigzag(recipe.high))
            case Permutation():
                out.append(wire.PERMUTATION)
            case Constant():
                out.append(wire.CONSTANT)
                self.put_arg(out, recipe.value)
            case Literal():
                out.append(wire.LITERAL)
                put_count(out, len(recipe.data))
                out += recipe.data
            case Stored():
                out.append(wire.STORED)
                out += bytes.fromhex(recipe.key)

    def _spec(self, spec: TensorSpec) -> bytes:
        known = self._spec_bytes.get(spec)
        if known is None:
            out = bytearray([_DTYPE_CODE[spec.dtype]])
            put_count(out, len(spec.shape))
            for size in spec.shape:
                put_count(out, size)
            explicit = spec.stride != contiguous_stride(spec.shape)
            out.append(1 if explicit else 0)
            if explicit:
                for step in spec.stride:
                    put_count(out, step)
            known = self._spec_bytes[spec] = bytes(out)
        return known

    def _string(self, text: str) -> int:
        encoded = _utf8(text)
        entry = bytearray()
        put_count(entry, len(encoded))
        return self.strings.number(bytes(entry) + encoded)

    def put_arg(self, out: bytearray, arg: Arg, holes: list[int] | None = None) -> None:
        """Append an argument; references leave a hole and their number in `holes`."""
        match arg:
            case None:
                out.append(wire.NONE)
            case bool():
                out.append(wire.TRUE if arg else wire.FALSE)
            case int():
                _put_int(out, arg)
            case Ref(index):
                out.append(wire.HOLE)
                if holes is not None:
                    holes.append(index)
            case tuple():
                out.append(wire.TUPLE)
                put_count(out, len(arg))
                for item in arg:
                    self.put_arg(out, item, holes)
            case float():
                _put_float(out, arg)
            case complex():
                out.append(wire.COMPLEX)
                out += _exact(arg.real) + _exact(arg.imag)
            case str():
                out.append(wire.STRING)
                put_count(out, self._string(arg))
            case DType(name):
                out += bytes([wire.DTYPE, _DTYPE_CODE[name]])
            case MemoryFormat(name):
                out += bytes([wire.MEMORY_FORMAT, MEMORY_FORMATS.index(name)])
            case Layout(name):
                out += bytes([wire.LAYOUT, LAYOUTS.index(name)])
            case Device():
                out.append(wire.DEVICE)


class ReferenceCoder:
    """References as numbers that repeat where a block of the graph repeats; see `wire`."""

    def __init__(self, roles: list[int]) -> None:
        self._roles = roles
        self._members: list[list[int]] = [[] for _ in wire.ROLE_CODES]
        self._ranks: list[int] = []
        for number, role in enumerate(roles):
            self._ranks.append(len(self._members[role]))
            self._members[role].append(number)
        self._expected = [0] * len(self._members)

    def code(self, value: int, current: int) -> int:
        """The code of a value, referred to by a node whose first slot is `current`."""
        if value >= len(self._roles):
            return wire.REFERENCE_KINDS * (current - value - 1)
        role, rank = self._roles[value], self._ranks[value]
        difference = rank - self._expected[role]
        self._expected[role] = rank + 1
        return wire.REFERENCE_KINDS * zigzag(difference) + 1 + role

    def value(self, code: int, current: int) -> int:
        """The inverse of `code`. Raises `GraphError` where there is no such value before `current`."""
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


def _put_seeds(out: bytearray, inputs: tuple[Input, ...]) -> None:
    """Seeds in a column of their own, so that inputs that differ in nothing else are of one kind."""
    seeds = [(number, seed) for number, given in enumerate(inputs) if (seed := seed_of(given.recipe)) is not None]
    width = max(((seed.bit_length() + 7) // 8 or 1 for _, seed in seeds), default=0)
    out.append(width)
    for number, seed in seeds:
        out += ((seed - number) % (1 << 8 * width)).to_bytes(width, "little")


def seed_of(recipe: Recipe) -> int | None:
    """The seed of a recipe that has one."""
    return None if isinstance(recipe, (Constant, Literal, Stored)) else recipe.seed


def _put_int(out: bytearray, number: int) -> None:
    if wire.SMALL_LEAST <= number <= wire.SMALL_LARGEST:
        out.append(number - wire.SMALL_LEAST + wire.SMALL)
    elif -(1 << 63) <= number < 1 << 64:
        out.append(wire.INT)
        put_count(out, zigzag(number))
    else:
        data = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
        out.append(wire.BIG_INT)
        put_count(out, len(data))
        out += data


def _put_float(out: bytearray, number: float) -> None:
    """Whole numbers short, everything else as its 64 bits; every NaN is one NaN."""
    if number.is_integer() and abs(number) < 1 << 53 and (number or math.copysign(1.0, number) > 0):
        out.append(wire.WHOLE_FLOAT)
        put_count(out, zigzag(int(number)))
    else:
        out.append(wire.FLOAT)
        out += _exact(number)


def _exact(number: float) -> bytes:
    return struct.pack("<d", number) if number == number else _NAN


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise GraphError(f"{text!r} is no Unicode text: it has a lone surrogate") from None
