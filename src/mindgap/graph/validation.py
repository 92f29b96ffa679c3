"""Checks the rules that every graph keeps."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, get_args

from mindgap.graph.errors import GraphError
from mindgap.graph.graph import (
    DECISION_KINDS,
    Arg,
    Device,
    DType,
    Graph,
    Input,
    Layout,
    MemoryFormat,
    Node,
    Ref,
    Role,
)
from mindgap.graph.recipe_rules import check_recipe
from mindgap.graph.spec import DTYPES, TensorSpec

ROLES: Final[tuple[Role, ...]] = get_args(Role)
MEMORY_FORMATS: Final = ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format")
LAYOUTS: Final = ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")
#: More than any tensor on one machine has elements, or memory cells between its first and its last.
MAX_ELEMENTS: Final = 1 << 48
MAX_DIMENSIONS: Final = 64
#: How deep tuples may nest in an argument.
MAX_NESTING: Final = 8
#: Longer integers would make error messages fail: Python prints no more than 4,300 digits.
MAX_INT_BITS: Final = 8192

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATOR: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*){2}")
#: Values that need no further look.
_PLAIN: Final = (bool, float, complex, type(None), Device)


def validate(graph: Graph) -> None:
    """Raises a `GraphError` that names the place if the graph breaks a rule.

    References are in range and earlier than their use; specs are sane; operators are named
    `namespace.packet.overload`; recipes fit their specs; outputs exist; `grad` names float inputs;
    labels are as many as what they label.
    """
    sound: dict[int, TensorSpec] = {}
    specs: list[TensorSpec | None] = []
    for number, given in enumerate(graph.inputs):
        _check_input(number, given, sound)
        specs.append(given.spec)
    total = len(specs) + sum(len(node.outputs) for node in graph.nodes)
    for index, node in enumerate(graph.nodes):
        _check_node(index, node, specs, total, sound)
        specs.extend(node.outputs)
    _check_outputs(graph, specs)
    _check_grad(graph)
    _check_labels(graph)


def check_spec(spec: TensorSpec) -> None:
    """Raises `GraphError` for an unknown dtype and for sizes or strides that no tensor has."""
    if not isinstance(spec, TensorSpec):  # pyright: ignore[reportUnnecessaryIsInstance] # callers may be careless
        raise GraphError(f"{spec!r} is no TensorSpec")
    if spec.dtype not in DTYPES:
        raise GraphError(f"unknown dtype {spec.dtype!r}")
    for what, numbers in (("shape", spec.shape), ("stride", spec.stride)):
        if type(numbers) is not tuple or not _are_sizes(numbers):
            raise GraphError(f"{what} {numbers!r} should be a tuple of ints from 0 to 2**48")
    if len(spec.shape) != len(spec.stride):
        raise GraphError(
            f"shape {spec.shape} has {len(spec.shape)} dimensions, stride {spec.stride} {len(spec.stride)}"
        )
    if len(spec.shape) > MAX_DIMENSIONS:
        raise GraphError(f"{len(spec.shape)} dimensions are more than a tensor may have ({MAX_DIMENSIONS})")
    elements = 1
    reach = 1
    for size, step in zip(spec.shape, spec.stride, strict=True):
        elements *= size
        if size > 1:
            reach += (size - 1) * step
    if elements > MAX_ELEMENTS or (elements and reach > MAX_ELEMENTS):
        raise GraphError(f"{spec} with stride {spec.stride} is larger than 2**48 elements")


def _are_sizes(numbers: tuple[int, ...]) -> bool:
    for number in numbers:  # noqa: SIM110 # a generator takes three times as long
        if type(number) is not int or not 0 <= number <= MAX_ELEMENTS:
            return False
    return True


def _check_spec(spec: TensorSpec, sound: dict[int, TensorSpec]) -> None:
    """Runs `check_spec` once for each object: graphs share a few specs among many values."""
    if id(spec) not in sound:
        check_spec(spec)
        sound[id(spec)] = spec


def _check_input(number: int, given: Input, sound: dict[int, TensorSpec]) -> None:
    try:
        _check_spec(given.spec, sound)
        if given.role not in ROLES:
            raise GraphError(f"unknown role {given.role!r}: it is one of {', '.join(ROLES)}")
        check_recipe(given.spec, given.recipe)
    except GraphError as error:
        raise GraphError(f"input {number}: {error}") from None


def _check_node(
    index: int, node: Node, specs: list[TensorSpec | None], total: int, sound: dict[int, TensorSpec]
) -> None:
    try:
        if type(node.op) is not str or not _is_operator(node.op):
            raise GraphError("an operator is named namespace.packet.overload, as in aten.add.Tensor")
        if type(node.args) is not tuple or type(node.kwargs) is not tuple or type(node.outputs) is not tuple:
            raise GraphError("args, kwargs and outputs should be tuples")
        position = 0
        for arg in node.args:
            position = _check_arg(arg, specs, total, position, 0)
        if node.kwargs:
            _check_kwarg_names(node)
            for _, arg in node.kwargs:
                position = _check_arg(arg, specs, total, position, 0)
        for spec in node.outputs:
            if spec is not None:
                _check_spec(spec, sound)
    except GraphError as error:
        raise GraphError(f"node {index} ({node.op}): {error}") from None


@lru_cache(1 << 12)
def _is_operator(name: str) -> bool:
    return _OPERATOR.fullmatch(name) is not None


def _check_kwarg_names(node: Node) -> None:
    names: list[str] = []
    for pair in node.kwargs:
        if type(pair) is not tuple or len(pair) != 2 or type(pair[0]) is not str or not _NAME.fullmatch(pair[0]):
            raise GraphError(f"{pair!r} is no pair of a keyword and its argument")
        names.append(pair[0])
    if any(first >= second for first, second in pairwise(names)):
        raise GraphError(f"keywords should be sorted by name, each once, not {', '.join(names)}")


def _check_arg(arg: Arg, specs: list[TensorSpec | None], total: int, position: int, depth: int) -> int:
    """Checks an argument; its first reference is operand `position`. Returns the position after its last one."""
    if isinstance(arg, Ref):
        _check_ref(arg.index, specs, total, position)
        return position + 1
    if isinstance(arg, tuple):
        if depth == MAX_NESTING:
            raise GraphError(f"tuples nest deeper than {MAX_NESTING}")
        for item in arg:
            position = _check_arg(item, specs, total, position, depth + 1)
    elif type(arg) is int:
        if arg.bit_length() > MAX_INT_BITS:
            raise GraphError(f"an integer argument has more than {MAX_INT_BITS} bits")
    elif type(arg) not in _PLAIN:
        _check_named(arg)
    return position


def _check_ref(value: int, specs: list[TensorSpec | None], total: int, position: int) -> None:
    if type(value) is int and 0 <= value < len(specs):
        if specs[value] is None:
            raise GraphError(f"operand {position} refers to value {value}, a slot where there is no tensor")
        return
    if type(value) is not int or value < 0 or value >= total:
        raise GraphError(f"operand {position} refers to value {value!r}, but values are 0 to {total - 1}")
    raise GraphError(f"operand {position} refers to value {value}, which comes later")


def _check_named(arg: Any) -> None:
    """Checks strings and named attributes (dtypes, layouts, memory formats)."""
    match arg:
        case str():
            if not arg.isascii() and any("\ud800" <= letter <= "\udfff" for letter in arg):
                raise GraphError(f"{arg!r} is no Unicode text: it has a lone surrogate")
            fits = True
        case DType(name):
            fits = name in DTYPES
        case MemoryFormat(name):
            fits = name in MEMORY_FORMATS
        case Layout(name):
            fits = name in LAYOUTS
        case _:
            fits = False
    if not fits:
        raise GraphError(f"{arg!r} is nothing that an argument may be")


def _check_outputs(graph: Graph, specs: list[TensorSpec | None]) -> None:
    for position, value in enumerate(graph.outputs):
        if type(value) is not int or not 0 <= value < len(specs):
            raise GraphError(f"output {position} is value {value!r}, but values are 0 to {len(specs) - 1}")
        if specs[value] is None:
            raise GraphError(f"output {position} is value {value}, a slot where there is no tensor")


def _check_grad(graph: Graph) -> None:
    for number in graph.grad:
        if type(number) is not int or not 0 <= number < len(graph.inputs):
            raise GraphError(f"grad names input {number!r}, but inputs are 0 to {len(graph.inputs) - 1}")
        if graph.inputs[number].spec.kind not in ("float", "complex"):
            raise GraphError(
                f"grad names input {number}, which is {graph.inputs[number].spec.dtype}: only floats have one"
            )
    if len(set(graph.grad)) != len(graph.grad):
        raise GraphError("grad names an input twice")


def _check_labels(graph: Graph) -> None:
    labels = graph.labels
    for what, actual, wanted in (
        ("inputs", labels.inputs, len(graph.inputs)),
        ("nodes", labels.nodes, len(graph.nodes)),
        ("outputs", labels.outputs, len(graph.outputs)),
    ):
        if actual and len(actual) != wanted:
            raise GraphError(f"{len(actual)} labels for {wanted} {what}: give one for each, or none")
        if not all(type(label) is str for label in actual):
            raise GraphError(f"labels of {what} should be strings")
    for each in labels.decisions:
        if type(each.output) is not int or not 0 <= each.output < len(graph.outputs):
            raise GraphError(f"a decision names output {each.output!r}, but there are {len(graph.outputs)} outputs")
        if each.kind not in DECISION_KINDS or not all(type(t) is str for t in (each.taken, each.line, each.text)):
            raise GraphError(f"a decision by output {each.output} is damaged: {each!r}")
