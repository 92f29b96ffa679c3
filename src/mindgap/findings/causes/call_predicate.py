"""Reads and evaluates a condition on one operator call, such as `args.get("divisor_override") is not None`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import CodeType
from typing import Any, Final

from mindgap.graph import MindgapError

#: What a condition may name, besides the variables of its comprehensions.
VARIABLES: Final = ("args", "dtypes", "op", "shapes", "tensors")
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "len": len, "any": any, "all": all, "min": min, "max": max, "bool": bool, "zip": zip,
}  # fmt: skip
#: Methods of dictionaries, texts and lists that only read.
_METHODS: Final = frozenset({"get", "values", "startswith", "endswith", "count", "split"})
_NODES: Final = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.Compare, ast.cmpop, ast.Constant,
    ast.Name, ast.Load, ast.Store, ast.Subscript, ast.Slice, ast.List, ast.Tuple, ast.Set, ast.Call, ast.Attribute,
    ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.comprehension, ast.IfExp, ast.BinOp, ast.Add, ast.Sub, ast.Mod,
    ast.BitAnd,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """One call of an operator, as far as it is known.

    `op`: the overload. `args`: values of the schema's arguments that are no tensors, defaults included; dtypes,
    devices and layouts as text (`float32`); a tensor argument that was not given is None, one that was given is
    absent. `tensors`: names of the tensor arguments that were given, one entry for each tensor of a list.
    `dtypes`, `shapes`: of these, in the same order; None where one is not known. A shape is a list of sizes.
    """

    op: str
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tensors: tuple[str, ...] = ()
    dtypes: tuple[str | None, ...] = ()
    shapes: tuple[Sequence[int] | None, ...] = ()


@dataclass(frozen=True, slots=True)
class CallPredicate:
    """A condition on one call. `text`: as it was written; "" is met by every call. `arguments`: that it names."""

    text: str
    arguments: frozenset[str]
    code: CodeType | None

    def __call__(self, call: OperatorCall) -> bool:
        """Whether the call meets the condition. A call of which too little is known does not."""
        if self.code is None:
            return True
        known = {
            "args": call.args,
            "dtypes": call.dtypes,
            "op": call.op,
            "shapes": call.shapes,
            "tensors": call.tensors,
        }
        try:
            # Only the nodes of `_NODES` are in it, and no builtin is.
            return bool(eval(self.code, {"__builtins__": {}, **_FUNCTIONS, **known}))
        except (IndexError, KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError):
            return False


@cache
def call_predicate(text: str) -> CallPredicate:
    """The condition that a Python expression states. Raises `MindgapError` where it is none, or does more than read.

    Known are `args`, `dtypes`, `op`, `shapes` and `tensors` (see `OperatorCall`), the functions of `_FUNCTIONS`,
    comparisons, comprehensions, arithmetic, and the methods of `_METHODS`.
    """
    if not text.strip():
        return CallPredicate("", frozenset(), None)
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise MindgapError(f"condition {text!r} is no Python expression: {error}") from None
    names = {*VARIABLES, *_FUNCTIONS, *_bound(tree)}
    for node in ast.walk(tree):
        reason = _refusal(node, names)
        if reason:
            raise MindgapError(f"condition {text!r}: {reason}; it may read args, dtypes, op, shapes and tensors")
    return CallPredicate(text.strip(), frozenset(_arguments(tree)), compile(tree, "condition", "eval"))


def _bound(tree: ast.AST) -> Iterator[str]:
    """The variables of comprehensions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.comprehension):
            yield from (each.id for each in ast.walk(node.target) if isinstance(each, ast.Name))


def _refusal(node: ast.AST, names: set[str]) -> str:
    """Why a condition must not hold the node, or ""."""
    if not isinstance(node, _NODES):
        return f"{type(node).__name__} is not allowed"
    if isinstance(node, ast.Name) and (node.id not in names or node.id.startswith("_")):
        return f"{node.id!r} is not known"
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in (*VARIABLES, *_FUNCTIONS):
        return f"{node.id!r} must not be a variable of a comprehension"
    if isinstance(node, ast.Attribute) and node.attr not in _METHODS:
        return f"the attribute {node.attr!r} is not allowed"
    if isinstance(node, ast.Call) and not isinstance(node.func, (ast.Name, ast.Attribute)):
        return "only named functions may be called"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in _FUNCTIONS:
        return f"{node.func.id!r} is no function"
    # "%1000000000d" % 1 would take all memory.
    formats = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant)
    return "a text must not be formatted" if formats else ""


def _arguments(tree: ast.AST) -> Iterator[str]:
    """The names of arguments in `args["name"]`, `args.get("name")` and `"name" in args`."""
    for node in ast.walk(tree):
        index: ast.AST | None = None
        if isinstance(node, ast.Subscript) and _is_args(node.value):
            index = node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_args(node.func.value):
            index = node.args[0] if node.args else None
        elif isinstance(node, ast.Compare) and _is_args(node.comparators[0]):
            index = node.left
        if isinstance(index, ast.Constant) and isinstance(index.value, str):
            yield index.value


def _is_args(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "args"
