"""Reads operator schemas, and takes calls apart and builds them by argument name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from mindgap.aten.operators import overload
from mindgap.aten.torch_private.overloads import schema_of
from mindgap.graph import Arg, DType, GraphError, Node, Ref
from mindgap_campaign.synth.mutation.edit import DraftCall


@dataclass(frozen=True, slots=True)
class SchemaParameter:
    """One argument of a schema. `type`: as PyTorch prints it (`List[int]`, `Optional[Tensor]`); `size`: whole numbers
    that may follow from shapes (SymInt)."""

    name: str
    type: str
    size: bool
    keyword: bool
    required: bool
    default: Arg

    @property
    def tensor(self) -> bool:
        """Tells whether the argument is a tensor or an optional tensor."""
        return self.type in ("Tensor", "Optional[Tensor]")

    @property
    def many(self) -> bool:
        """Tells whether the argument is a list."""
        return "List[" in self.type


@dataclass(frozen=True)
class Signature:
    """The arguments of an overload, in order. `results`: tensors returned, -1 for a list of them."""

    op: str
    parameters: tuple[SchemaParameter, ...]
    named: Mapping[str, SchemaParameter]
    results: int


@cache
def signature(op: str) -> Signature:
    """Returns the schema of an overload. Raises `UnknownOperator`."""
    schema = schema_of(overload(op))
    parameters = tuple(
        SchemaParameter(
            a.name, str(a.real_type), _is_size(a.real_type), bool(a.kwarg_only), not a.has_default_value(), _default(a)
        )
        for a in schema.arguments
    )
    types = [str(result.type) for result in schema.returns]
    results = -1 if any("List" in name for name in types) else len(types)
    return Signature(op, parameters, {p.name: p for p in parameters}, results)


def bind(node: Node | DraftCall) -> dict[str, Arg]:
    """Returns the given arguments of a call by name. Raises `GraphError` if there are more than the schema has."""
    parameters = signature(node.op).parameters
    if len(node.args) > len(parameters):
        raise GraphError(f"{node.op} takes {len(parameters)} arguments, {len(node.args)} are given")
    given = {parameter.name: arg for parameter, arg in zip(parameters, node.args, strict=False)}
    given.update(node.kwargs)
    return given


def arguments(node: Node | DraftCall) -> dict[str, Arg]:
    """Returns all arguments of a call by name, with defaults; None for a default that is no plain value."""
    given = bind(node)
    return {p.name: given.get(p.name, p.default) for p in signature(node.op).parameters}


def call(op: str, given: Mapping[str, Arg], slots: int | None = None) -> DraftCall:
    """Builds a call with these arguments, by position as far as the schema allows, defaults in the gaps.

    Raises `GraphError` for a name that the schema lacks and for an argument that it needs.
    """
    known = signature(op)
    for name in given:
        if name not in known.named:
            raise GraphError(f"{op} has no argument {name!r} ({', '.join(known.named)})")
    args: list[Arg] = []
    kwargs: list[tuple[str, Arg]] = []
    last = 0
    for parameter in known.parameters:
        value = given.get(parameter.name, parameter.default)
        if parameter.name not in given and parameter.required:
            raise GraphError(f"{op} needs its argument {parameter.name!r}")
        if parameter.keyword:
            if parameter.name in given:
                kwargs.append((parameter.name, value))
            continue
        args.append(value)
        if parameter.name in given:
            last = len(args)
    return DraftCall(op, tuple(args[:last]), tuple(sorted(kwargs)), known.results if slots is None else slots)


def repeat(node: Node, replaced: Mapping[int, Ref] | None = None) -> DraftCall:
    """Repeats a node's call with some operands replaced."""
    if not replaced:
        return DraftCall(node.op, node.args, node.kwargs, len(node.outputs))
    return DraftCall(
        node.op,
        tuple(exchanged(arg, replaced) for arg in node.args),
        tuple((name, exchanged(arg, replaced)) for name, arg in node.kwargs),
        len(node.outputs),
    )


def exchanged(arg: Arg, replaced: Mapping[int, Ref]) -> Arg:
    """Replaces references in an argument."""
    if isinstance(arg, Ref):
        return replaced.get(arg.index, arg)
    if isinstance(arg, tuple):
        return tuple(exchanged(item, replaced) for item in arg)
    return arg


def fitted(value: Arg, type: str) -> Arg:
    """Converts a number to a list of one, or the reverse, as the type requires. Raises `ValueError`."""
    bare = type.removeprefix("Optional[").removesuffix("]") if type.startswith("Optional[") else type
    if bare.startswith("List["):
        if value is None and bare != type:
            return None
        return value if isinstance(value, tuple) else (value,)
    if isinstance(value, tuple):
        if len(value) != 1:
            raise ValueError(f"{len(value)} numbers where one is wanted")
        value = value[0]
    if value is None and bare == type:
        raise ValueError("nothing where a number is wanted")
    if bare == "float" and isinstance(value, (bool, int)):
        return float(value)
    if bare in ("int", "SymInt") and isinstance(value, float):
        raise ValueError("a fraction where a whole number is wanted")
    return value


def fits(value: Arg, type: str) -> bool:
    """Tells whether a constant is valid for a schema type."""
    if type.startswith("Optional["):
        return value is None or fits(value, type[9:-1])
    if type.startswith("List["):
        return isinstance(value, tuple) and all(fits(item, type[5:-1]) for item in value)
    match type:
        case "bool":
            return isinstance(value, bool)
        case "int" | "SymInt":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "number" | "Scalar":
            return isinstance(value, (bool, int, float, complex))
        case "str":
            return isinstance(value, str)
        case "ScalarType":
            return isinstance(value, DType)
        case "MemoryFormat":
            return type == value.__class__.__name__
        case _:
            return False


def _is_size(type: Any) -> bool:
    while hasattr(type, "getElementType"):
        type = type.getElementType()
    return isinstance(type, torch.SymIntType)


def _default(argument: Any) -> Arg:
    return _plain(argument.default_value) if argument.has_default_value() else None


def _plain(value: Any) -> Arg:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(_plain(item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] # schemas are untyped
    return value if isinstance(value, (bool, int, float, complex, str)) else None
