"""The line language of rule tables: calls of operators, and expressions over what a match has bound.

    t = aten.t.default(w)
    aten.addmm.default(b, x, t, beta=1, alpha=2 * alpha)

It looks like Python and is parsed by Python's own parser, but nothing is ever evaluated by it: every form that is
not listed here is refused when the table is read.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mindgap.graph import Arg, DType, MemoryFormat, MindgapError, Ref, TensorSpec

#: What an expression is evaluated in: names, and the specs of operands.
Names = Mapping[str, Any]
Spec = Callable[[Any], TensorSpec]
Expression = Callable[[Names, Spec], Any]


class RuleError(MindgapError):
    """Raised for an invalid rule table."""


@dataclass(frozen=True)
class Line:
    """`targets = op(args, kwargs)`; no targets in a pattern and in a last line that names none."""

    targets: tuple[str, ...]
    op: str
    args: tuple[Expression, ...]
    kwargs: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True)
class CallPattern:
    """A call to match. An argument is a variable (a string), a list of variables, or a `ConstantPattern`."""

    op: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """Returns the names that a match binds, in order."""
        names: list[str] = []
        for arg in (*self.args, *(arg for _, arg in self.kwargs)):
            names += [arg] if isinstance(arg, str) else arg if isinstance(arg, list) else []  # pyright: ignore[reportUnknownArgumentType] # lists of names
        return tuple(names)


@dataclass(frozen=True)
class ConstantPattern:
    """A constant that an argument must be."""

    value: Arg


def parse_line(text: str, known: set[str], where: str) -> Line:
    """Parses one call over the names `known`, and adds its targets to them. Raises `RuleError`."""
    statement = _statement(text, where)
    targets: tuple[str, ...] = ()
    value: ast.expr
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        targets = _targets(statement.targets[0], text, where)
        value = statement.value
    elif isinstance(statement, ast.Expr):
        value = statement.value
    else:
        raise RuleError(f"{where}: {text!r} is neither a call nor names = a call")
    called = _call(value, text, where)
    line = Line(
        targets,
        _name_of(called.func, text, where),
        tuple(_expression(arg, known, text, where) for arg in called.args),
        tuple((_keyword(k, text, where), _expression(k.value, known, text, where)) for k in called.keywords),
    )
    for name in targets:
        if name in known:
            raise RuleError(f"{where}: {text!r} gives a value to {name!r}, which has one")
    known.update(targets)
    return line


def parse_pattern(text: str, where: str) -> CallPattern:
    """Parses the call that a rule matches. Raises `RuleError`."""
    statement = _statement(text, where)
    if not isinstance(statement, ast.Expr):
        raise RuleError(f"{where}: {text!r} is no call")
    called = _call(statement.value, text, where)
    pattern = CallPattern(
        _name_of(called.func, text, where),
        tuple(_variable(arg, text, where) for arg in called.args),
        tuple((_keyword(k, text, where), _variable(k.value, text, where)) for k in called.keywords),
    )
    if len(set(pattern.variables)) != len(pattern.variables):
        raise RuleError(f"{where}: {text!r} names a variable twice")
    return pattern


def parse_expression(text: str, known: set[str], where: str) -> Expression:
    """Parses a condition or a value over the names `known`. Raises `RuleError`."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise RuleError(f"{where}: {text!r} is no expression") from None
    return _expression(tree, known, text, where)


def _statement(text: str, where: str) -> ast.stmt:
    try:
        statements = ast.parse(text).body
    except SyntaxError as error:
        raise RuleError(f"{where}: {text!r} cannot be read: {error.msg}") from None
    if len(statements) != 1:
        raise RuleError(f"{where}: {text!r} is {len(statements)} statements, one is wanted")
    return statements[0]


def _call(tree: ast.expr, text: str, where: str) -> ast.Call:
    if not isinstance(tree, ast.Call):
        raise RuleError(f"{where}: {text!r} calls no operator")
    return tree


def _targets(tree: ast.expr, text: str, where: str) -> tuple[str, ...]:
    parts = tree.elts if isinstance(tree, ast.Tuple) else [tree]
    if not all(isinstance(part, ast.Name) for part in parts):
        raise RuleError(f"{where}: {text!r} gives values to something other than names")
    return tuple(part.id for part in parts if isinstance(part, ast.Name))


def _name_of(tree: ast.expr, text: str, where: str) -> str:
    """Returns `aten.add.Tensor` from the attribute chain that Python parses."""
    name = ast.unparse(tree)
    if not isinstance(tree, ast.Attribute) or name.count(".") != 2:
        raise RuleError(f"{where}: {name!r} in {text!r} is no overload of an operator (aten.add.Tensor)")
    return name


def _keyword(keyword: ast.keyword, text: str, where: str) -> str:
    if keyword.arg is None:
        raise RuleError(f"{where}: {text!r} has ** in it")
    return keyword.arg


def _variable(tree: ast.expr, text: str, where: str) -> Any:
    if isinstance(tree, ast.Name):
        return tree.id
    if isinstance(tree, ast.List) and tree.elts and all(isinstance(item, ast.Name) for item in tree.elts):
        return [item.id for item in tree.elts if isinstance(item, ast.Name)]
    return ConstantPattern(_expression(tree, set(), text, where)({}, _no_spec))


def _no_spec(_: Any) -> TensorSpec:
    raise RuleError("a pattern's constants cannot speak of tensors")


_ARITHMETIC: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: operator.mod,
    ast.Pow: math.pow,
}
_COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, items: operator.contains(items, item),
    ast.NotIn: lambda item, items: not operator.contains(items, item),
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


def _swapped(rank: int, a: int, b: int) -> tuple[int, ...]:
    """Returns the permutation of `rank` dimensions that exchanges two."""
    order = list(range(rank))
    order[a], order[b] = order[b], order[a]
    return tuple(order)


def _without(items: tuple[int, ...], at: int) -> tuple[int, ...]:
    """Returns the sizes without one."""
    return items[: at % len(items)] + items[at % len(items) + 1 :]


def _holding(items: tuple[int, ...], at: int, item: int) -> tuple[int, ...]:
    """Returns the sizes with one replaced."""
    return (*items[: at % len(items)], item, *items[at % len(items) + 1 :])


def _part(items: tuple[int, ...], start: int | None, stop: int | None) -> tuple[int, ...]:
    return items[start:stop]


def _nothing(names: Names, spec: Spec) -> None:
    return None


#: Of one operand's spec.
_OF_SPEC: Final[dict[str, Callable[[TensorSpec], Any]]] = {
    "shape": lambda spec: spec.shape,
    "rank": lambda spec: len(spec.shape),
    "numel": lambda spec: spec.numel,
    "dtype": lambda spec: DType(spec.dtype),
    "kind": lambda spec: spec.kind,
}
#: Of plain values.
_PLAIN: Final[dict[str, Callable[..., Any]]] = {
    "sqrt": math.sqrt,
    "prod": math.prod,
    "len": len,
    "abs": abs,
    "float": float,
    "dtype": DType,
    "format": MemoryFormat,
    "list": tuple,
    "range": lambda *bounds: tuple(range(*bounds)),
    "min": min,
    "max": max,
    "swapped": _swapped,
    "without": _without,
    "holding": _holding,
}


def _expression(tree: ast.expr, known: set[str], text: str, where: str) -> Expression:
    def inner(part: ast.expr) -> Expression:
        return _expression(part, known, text, where)

    match tree:
        case ast.Constant(value=value) if value is None or isinstance(value, (bool, int, float, str)):
            return lambda names, spec: value
        case ast.Name(id="inf"):
            return lambda names, spec: math.inf
        case ast.Name(id="pi"):
            return lambda names, spec: math.pi
        case ast.Name(id=name) if name in known:
            return lambda names, spec: names[name]
        case ast.Name(id=name):
            raise RuleError(
                f"{where}: {name!r} in {text!r} is not known there ({', '.join(sorted(known)) or 'no names'})"
            )
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return _listed([inner(item) for item in items])
        case ast.UnaryOp(op=ast.USub(), operand=part):
            return _applied(operator.neg, [inner(part)])
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return _applied(operator.not_, [inner(part)])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _applied(_ARITHMETIC[type(op)], [inner(left), inner(right)])
        case ast.BoolOp(op=op, values=parts):
            return _joined(isinstance(op, ast.And), [inner(part) for part in parts])
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _applied(_COMPARISONS[type(op)], [inner(left), inner(right)])
        case ast.IfExp(test=test, body=body, orelse=other):
            return _chosen(inner(test), inner(body), inner(other))
        case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper, step=None)):
            ends = [_nothing if end is None else inner(end) for end in (lower, upper)]
            return _applied(_part, [inner(value), *ends])
        case ast.Subscript(value=value, slice=index):
            return _applied(operator.getitem, [inner(value), inner(index)])
        case ast.Call(func=ast.Name(id=function), args=args, keywords=[]):
            return _function(function, [inner(arg) for arg in args], text, where)
        case _:
            raise RuleError(f"{where}: {ast.unparse(tree)!r} in {text!r} is no expression of rule tables")


def _listed(parts: list[Expression]) -> Expression:
    return lambda names, spec: tuple(part(names, spec) for part in parts)


def _applied(function: Callable[..., Any], parts: list[Expression]) -> Expression:
    return lambda names, spec: function(*(part(names, spec) for part in parts))


def _joined(every: bool, parts: list[Expression]) -> Expression:
    combined = all if every else any
    return lambda names, spec: combined(part(names, spec) for part in parts)


def _chosen(test: Expression, body: Expression, other: Expression) -> Expression:
    return lambda names, spec: (body if test(names, spec) else other)(names, spec)


def _size(parts: list[Expression]) -> Expression:
    """One size of a shape."""

    def size(names: Names, spec: Spec) -> int:
        dim: int = parts[1](names, spec)
        return spec(parts[0](names, spec)).shape[dim]

    return size


def _function(name: str, parts: list[Expression], text: str, where: str) -> Expression:
    if name == "size" and len(parts) == 2:
        return _size(parts)
    of_spec, plain = _OF_SPEC.get(name), _PLAIN.get(name)
    if of_spec is None and plain is None:
        raise RuleError(f"{where}: there is no function {name!r} ({text!r}): {', '.join([*_OF_SPEC, *_PLAIN, 'size'])}")

    def evaluate(names: Names, spec: Spec) -> Any:
        values = [part(names, spec) for part in parts]
        if of_spec is not None and len(values) == 1 and isinstance(values[0], Ref):
            return of_spec(spec(values[0]))
        if plain is None:
            raise TypeError(f"{name} speaks of a tensor")
        return plain(*values)

    return evaluate
