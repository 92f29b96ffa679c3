"""Decodes canonical content to a graph; the layout is described in `wire`.

The bytes are not trusted: every count is bounded before memory is taken, every index is checked, and
no name leads to code.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from mindgap.graph import wire
from mindgap.graph.encoder import ReferenceCoder
from mindgap.graph.entries import seed_of
from mindgap.graph.errors import GraphError
from mindgap.graph.graph import (
    DECISION_KINDS,
    Arg,
    Decision,
    Device,
    DType,
    Graph,
    Input,
    Labels,
    Layout,
    MemoryFormat,
    Node,
    Ref,
)
from mindgap.graph.reader import Reader
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
from mindgap.graph.validation import LAYOUTS, MAX_DIMENSIONS, MAX_INT_BITS, MAX_NESTING, MEMORY_FORMATS, ROLES
from mindgap.graph.wire import unzigzag

#: A kind of input: role, spec, and the recipe with 0 for its seed.
_Kind = tuple[int, TensorSpec, Recipe]


class _Template:
    """A node without its operands. `holes`: how many; `size`: arguments, the members of tuples included."""

    __slots__ = ("args", "fixed", "holes", "kwargs", "op", "outputs", "size")

    def __init__(
        self, op: str, args: tuple[Arg, ...], kwargs: tuple[tuple[str, Arg], ...], outputs: int, holes: int, size: int
    ) -> None:
        self.op, self.args, self.kwargs, self.outputs, self.holes, self.size = op, args, kwargs, outputs, holes, size
        self.fixed = all(not _has_hole(arg) for _, arg in kwargs)


#: Stands in a template where an operand goes.
_HOLE = Ref(-1)


def graph_from_content(content: bytes) -> Graph:
    """Decodes the graph without validating it. Raises `GraphError` that names the damaged part of the content."""
    reader = Reader(content)
    try:
        graph = _graph(reader)
        reader.expect_end()
    except (IndexError, ValueError, OverflowError, struct.error) as error:
        raise GraphError(f"damaged graph: {reader.place} cannot be read: {_reason(error)}") from None
    except GraphError as error:
        raise GraphError(f"damaged graph: {reader.place}: {error}") from None
    return graph


def labels_from_content(content: bytes, graph: Graph) -> Labels:
    """Decodes the labels of a graph. Raises `GraphError`."""
    reader = Reader(content)
    try:
        rows: list[tuple[str, ...]] = []
        for what, number in (
            ("inputs", len(graph.inputs)),
            ("nodes", len(graph.nodes)),
            ("outputs", len(graph.outputs)),
        ):
            reader.place = f"labels of {what}"
            lengths = [reader.count() for _ in range(number)] if reader.byte() else []
            rows.append(tuple(reader.take(length).decode() for length in lengths))
        reader.place = "decisions"
        decisions = tuple(_decision(reader, len(graph.outputs)) for _ in range(0 if reader.ended else reader.things()))
        reader.expect_end()
    except (IndexError, ValueError) as error:
        raise GraphError(f"damaged graph: {reader.place} cannot be read: {_reason(error)}") from None
    return Labels(*rows, decisions=decisions)


def _decision(reader: Reader, outputs: int) -> Decision:
    output, kind = reader.count(), DECISION_KINDS[reader.count()]
    if output >= outputs:
        raise ValueError(f"it names output {output} of {outputs}")
    taken, line, text = (reader.take(reader.count()).decode() for _ in range(3))
    return Decision(output, kind, taken, line, text)


def _reason(error: Exception) -> str:
    return "the bytes end, or name what is not there" if isinstance(error, IndexError) else str(error)


def _graph(reader: Reader) -> Graph:
    strings: list[str] = []
    for number in range(reader.things()):
        reader.place = f"string {number}"
        strings.append(reader.take(reader.count()).decode())
    specs: list[TensorSpec] = []
    reader.place = "table of specs"
    for number in range(reader.things()):
        reader.place = f"spec {number}"
        specs.append(_spec(reader))
    inputs, roles, used = _inputs(reader, specs, strings)
    reader.place = "table of templates"
    templates: list[_Template] = []
    for number in range(reader.things()):
        reader.place = f"template {number}"
        templates.append(_template(reader, strings))
    nodes = _nodes(reader, templates, specs, inputs, roles, used)
    last = len(inputs) + sum(len(node.outputs) for node in nodes) - 1
    reader.place = "outputs"
    outputs = tuple(last - reader.count() for _ in range(reader.things()))
    reader.place = "grad"
    grad: list[int] = []
    before = -1
    for _ in range(reader.things()):
        before = before + 1 + unzigzag(reader.count())
        grad.append(before)
    return Graph(inputs, nodes, outputs, tuple(grad))


def _spec(reader: Reader) -> TensorSpec:
    dtype = wire.DTYPE_CODES[reader.byte()]
    dimensions = reader.count()
    if dimensions > MAX_DIMENSIONS:
        raise ValueError(f"{dimensions} dimensions are more than a tensor may have ({MAX_DIMENSIONS})")
    shape = tuple(reader.count() for _ in range(dimensions))
    if not reader.byte():
        return TensorSpec(dtype, shape, contiguous_stride(shape))
    return TensorSpec(dtype, shape, tuple(reader.count() for _ in range(dimensions)))


def _inputs(reader: Reader, specs: list[TensorSpec], strings: list[str]) -> tuple[tuple[Input, ...], list[int], int]:
    """Decodes the inputs, the role code of each, and how many of the specs they use."""
    reader.place = "table of kinds of input"
    kinds: list[_Kind] = []
    used = 0
    for number in range(reader.things()):
        reader.place = f"kind of input {number}"
        role, spec = reader.byte(), reader.count()
        if role >= len(ROLES):
            raise ValueError(f"{role} is no role")
        used = max(used, spec + 1)
        kinds.append((role, specs[spec], _recipe(reader, strings)))
    reader.place = "inputs"
    column = _Column()
    chosen = [kinds[column.index(reader.count())] for _ in range(reader.things())]
    reader.place = "seeds"
    width = reader.byte()
    if width > wire.MAX_SEED:
        raise ValueError(f"seeds of {width} bytes are longer than {wire.MAX_SEED}")
    inputs: list[Input] = []
    for number, (role, spec, recipe) in enumerate(chosen):
        if seed_of(recipe) is not None:
            seed = int.from_bytes(reader.take(width), "little") + number
            recipe = _with_seed(recipe, seed % (1 << 8 * width))
        inputs.append(Input(spec, recipe, ROLES[role]))
    return tuple(inputs), [role for role, _, _ in chosen], used


class _Column:
    """Indices into a table whose entries are numbered in the order of first use."""

    def __init__(self, used: int = 0) -> None:
        self._used = used

    def index(self, code: int) -> int:
        if code == wire.NEXT:
            self._used += 1
            return self._used - 1
        return code - 1


def _recipe(reader: Reader, strings: list[str]) -> Recipe:
    tag = reader.byte()
    match tag:
        case wire.UNIFORM:
            return Uniform(0, reader.double(), reader.double())
        case wire.NORMAL:
            return Normal(0, reader.double(), reader.double())
        case wire.EXCEPTIONAL:
            return Exceptional(0, reader.double())
        case wire.INTEGERS:
            return Integers(0, unzigzag(reader.count()), unzigzag(reader.count()))
        case wire.PERMUTATION:
            return Permutation(0)
        case wire.CONSTANT:
            value = _arg(reader, strings, 0, [0, 0])
            if not isinstance(value, (bool, int, float, complex)):
                raise ValueError("a constant is no number")
            return Constant(value)
        case wire.LITERAL:
            return Literal(reader.take(reader.count()))
        case wire.STORED:
            return Stored(reader.take(32).hex())
        case _:
            raise ValueError(f"{tag} is no recipe")


def _with_seed(recipe: Recipe, seed: int) -> Recipe:
    match recipe:
        case Uniform(_, low, high):
            return Uniform(seed, low, high)
        case Normal(_, mean, std):
            return Normal(seed, mean, std)
        case Exceptional(_, share):
            return Exceptional(seed, share)
        case Integers(_, low, high):
            return Integers(seed, low, high)
        case Permutation():
            return Permutation(seed)
        case _:
            return recipe


def _template(reader: Reader, strings: list[str]) -> _Template:
    tally = [0, 0]
    op = strings[reader.count()]
    args = tuple(_arg(reader, strings, 0, tally) for _ in range(reader.things()))
    kwargs = tuple((strings[reader.count()], _arg(reader, strings, 0, tally)) for _ in range(reader.things()))
    return _Template(op, args, kwargs, reader.count(), *tally)


def _arg(reader: Reader, strings: list[str], depth: int, tally: list[int]) -> Arg:
    """Decodes one argument; counts holes and arguments in `tally`."""
    tag = reader.byte()
    tally[1] += 1
    match tag:
        case _ if tag >= wire.SMALL:
            return tag - wire.SMALL + wire.SMALL_LEAST
        case wire.HOLE:
            tally[0] += 1
            return _HOLE
        case wire.TUPLE:
            if depth == MAX_NESTING:
                raise ValueError(f"tuples nest deeper than {MAX_NESTING}")
            return tuple(_arg(reader, strings, depth + 1, tally) for _ in range(reader.things()))
        case wire.NONE:
            return None
        case wire.FALSE:
            return False
        case wire.TRUE:
            return True
        case wire.INT:
            return unzigzag(reader.count())
        case wire.BIG_INT:
            return _big_int(reader)
        case wire.FLOAT:
            return reader.double()
        case wire.WHOLE_FLOAT:
            return float(unzigzag(reader.count()))
        case wire.COMPLEX:
            return complex(reader.double(), reader.double())
        case wire.STRING:
            return strings[reader.count()]
        case wire.DTYPE:
            return DType(wire.DTYPE_CODES[reader.byte()])
        case wire.MEMORY_FORMAT:
            return MemoryFormat(MEMORY_FORMATS[reader.byte()])
        case wire.LAYOUT:
            return Layout(LAYOUTS[reader.byte()])
        case _:
            return Device()


def _big_int(reader: Reader) -> int:
    length = reader.count()
    if length > MAX_INT_BITS // 8 + 1:
        raise ValueError(f"an integer has more than {MAX_INT_BITS} bits")
    return int.from_bytes(reader.take(length), "little", signed=True)


def _nodes(
    reader: Reader,
    templates: list[_Template],
    specs: list[TensorSpec],
    inputs: tuple[Input, ...],
    roles: list[int],
    used: int,
) -> tuple[Node, ...]:
    chosen = _chosen_templates(reader, templates)
    operand_numbers = _operand_numbers(reader, chosen, roles)
    values: list[TensorSpec | None] = [given.spec for given in inputs]
    column = _Column(used)
    nodes: list[Node] = []
    references: dict[int, Ref] = {}
    for index, template in enumerate(chosen):
        reader.place = f"node {index} ({template.op})"
        operands = operand_numbers[index]
        like = values[operands[0]] if operands else None
        outputs = tuple(_slot(reader, specs, column, like) for _ in range(template.outputs))
        values.extend(outputs)
        operands_in_order = iter(
            [references.get(value) or references.setdefault(value, Ref(value)) for value in operands]
        )
        args = tuple(_filled(arg, operands_in_order) for arg in template.args)
        kwargs = template.kwargs
        if not template.fixed:
            kwargs = tuple((name, _filled(arg, operands_in_order)) for name, arg in kwargs)
        nodes.append(Node(template.op, args, kwargs, outputs))
    return tuple(nodes)


def _chosen_templates(reader: Reader, templates: list[_Template]) -> list[_Template]:
    """Returns the template of each node, within the budget of arguments and values."""
    reader.place = "nodes"
    chosen: list[_Template] = []
    column = _Column()
    for index in range(reader.things()):
        reader.place = f"node {index}"
        template = templates[column.index(reader.count())]
        reader.spend(template.size + template.outputs)
        chosen.append(template)
    return chosen


def _operand_numbers(reader: Reader, chosen: list[_Template], roles: list[int]) -> list[list[int]]:
    """Returns the value numbers that each node refers to, in order."""
    coder = ReferenceCoder(roles)
    current = len(roles)
    numbers: list[list[int]] = []
    for index, template in enumerate(chosen):
        reader.place = f"operands of node {index} ({template.op})"
        numbers.append([coder.value(reader.count(), current) for _ in range(template.holes)])
        current += template.outputs
    return numbers


def _slot(reader: Reader, specs: list[TensorSpec], column: _Column, like: TensorSpec | None) -> TensorSpec | None:
    code = reader.count()
    if code == 0:
        return None
    return like if code == 1 else specs[column.index(code - 2)]


def _has_hole(arg: Arg) -> bool:
    return arg is _HOLE or (isinstance(arg, tuple) and any(_has_hole(item) for item in arg))


def _filled(arg: Arg, operands_in_order: Iterator[Ref]) -> Arg:
    """Fills the holes of an argument; one without holes is shared, not copied."""
    if arg is _HOLE:
        return next(operands_in_order)
    if isinstance(arg, tuple) and _has_hole(arg):
        return tuple(_filled(item, operands_in_order) for item in arg)
    return arg
