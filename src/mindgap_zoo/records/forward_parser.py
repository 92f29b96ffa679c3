"""Parses recorded calls that are written as Python source, without running them.

GraphNet writes a record as a class whose `forward` has one statement per call. The text is parsed into the nodes of a
record. Nothing in it is compiled, imported or run. A call becomes a node only if its target is on the allow-list
(`allowed_targets`). Anything else (a loop, a lambda, an unknown import) is refused with file and line.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.sources.source import SourceError, one_line
from mindgap_zoo.records.allowed_targets import UnknownTarget
from mindgap_zoo.records.recorded_calls import RecordedStep, check

#: Sources are some megabytes at most; a larger file is no sample.
MOST_TEXT: Final = 32 << 20

_BINARY: Final[Mapping[type[ast.operator], str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
    ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip
_UNARY: Final[Mapping[type[ast.unaryop], str]] = {
    ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert", ast.Not: "not_",
}  # fmt: skip
_COMPARE: Final[Mapping[type[ast.cmpop], str]] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
#: What may be imported: the module that calls are named after, and what a tracer writes without it.
_FROM_TORCH: Final = frozenset({"device", "inf", "nan"})


@dataclass(frozen=True, slots=True)
class Forward:
    """Holds a parsed `forward`. `arguments`: name to annotation ("" if none), without `self`.

    `nodes` and `outputs` have the form of a record's columns and refer to arguments by their names.
    """

    arguments: Mapping[str, str]
    nodes: list[dict[str, Any]]
    outputs: list[Any]


def syntax_tree(path: Path) -> ast.Module:
    """Returns the syntax tree of a file. Raises `SourceError` if it is no file, too large, or not Python."""
    if not path.is_file():
        raise SourceError(f"{path}: no such file")
    if path.stat().st_size > MOST_TEXT:
        raise SourceError(f"{path}: {path.stat().st_size >> 20} MiB of text; {MOST_TEXT >> 20} MiB is the most")
    try:
        return ast.parse(path.read_bytes())
    except SyntaxError as error:
        raise SourceError(f"{path}:{error.lineno or 1}: not Python: {str(error.msg)[:200]}") from None
    except (ValueError, RecursionError, MemoryError) as error:  # not text, or nested deeper than the parser goes
        raise SourceError(f"{path}: not Python: {one_line(error)}") from None


def read_forward(path: Path) -> Forward:
    """Returns the calls of the one class in this file. Raises `SourceError` with file and line."""
    tree = syntax_tree(path)
    functions: list[ast.FunctionDef] = []
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            functions += [
                part for part in statement.body if isinstance(part, ast.FunctionDef) and part.name == "forward"
            ]
        elif not _harmless(statement):
            raise _refused(path, statement, "only torch is imported, and a class defined")
    if len(functions) != 1:
        raise SourceError(f"{path}: {len(functions) or 'no'} forward; a sample has one class with one")
    try:
        return _ForwardParser(path).read(functions[0])
    except RecursionError:
        raise SourceError(f"{path}: an expression nested too deeply") from None


def _harmless(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import):
        return all(alias.name == "torch" and alias.asname is None for alias in statement.names)
    if isinstance(statement, ast.ImportFrom):
        known = all(alias.name in _FROM_TORCH and alias.asname is None for alias in statement.names)
        return statement.module == "torch" and not statement.level and known
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _refused(path: Path, at: ast.stmt | ast.expr, why: str) -> SourceError:
    text = ast.unparse(at).strip().partition("\n")[0]
    return SourceError(f"{path}:{at.lineno}: `{text[:80]}{'…' * (len(text) > 80)}`: {why}")


@dataclass(slots=True)
class _ForwardParser:
    """Converts statements to nodes, in order. `values`: the current value of each variable, in the form of a
    record."""

    path: Path
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    nodes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    taken: set[str] = field(default_factory=set[str])

    def read(self, forward: ast.FunctionDef) -> Forward:
        arguments = self._arguments(forward)
        for name in arguments:
            self.values[name] = {"ref": name}
            self.taken.add(name)
        for statement in forward.body[:-1]:
            self._statement(statement)
        last = forward.body[-1]
        if not isinstance(last, ast.Return) or last.value is None:
            raise _refused(self.path, last, "a forward ends by returning its outputs")
        returned = last.value.elts if isinstance(last.value, (ast.Tuple, ast.List)) else [last.value]
        return Forward(arguments, self.nodes, [self._value(part, "output") for part in returned])

    def _arguments(self, forward: ast.FunctionDef) -> dict[str, str]:
        given = forward.args
        if given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs or given.defaults:
            raise SourceError(f"{self.path}:{forward.lineno}: forward takes self and one argument per tensor, no more")
        _, *rest = given.args or [None]
        arguments = {a.arg: ast.unparse(a.annotation) if a.annotation else "" for a in rest if a is not None}
        if len(arguments) != len(rest):
            raise SourceError(f"{self.path}:{forward.lineno}: two arguments of forward have one name")
        return arguments

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=targets, value=value):
                self._assign(targets, value)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if type(op) in _BINARY:
                operands = [self._value(statement.target), self._value(value)]
                target = "operator.i" + _BINARY[type(op)].rstrip("_")
                self.values[name] = self._node(statement, name, "call_function", target, operands)
            case ast.Delete(targets=targets) if all(isinstance(target, ast.Name) for target in targets):
                pass
            case ast.Expr(value=ast.Call() as call):
                self._value(call, "call")
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case _:
                raise _refused(self.path, statement, "no statement of a recorded call")

    def _assign(self, targets: list[ast.expr], value: ast.expr) -> None:
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        result = self._value(value, names[0] if names else "value")
        for target in targets:
            if isinstance(target, ast.Name):
                self.values[target.id] = result
            elif isinstance(target, ast.Subscript):
                operands = [self._value(target.value), self._index(target.slice), result]
                self._node(target, "setitem", "call_function", "operator.setitem", operands)
            else:
                raise _refused(self.path, target, "neither a name nor an element of a tensor")

    def _node(
        self, at: ast.stmt | ast.expr, name: str, kind: str, target: str, args: list[Any],
        kwargs: dict[str, Any] | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Appends a node named after the variable that holds its result, and returns the reference to it."""
        try:
            check(RecordedStep(name, kind, target, (), {}, ()))
        except UnknownTarget as error:
            raise _refused(self.path, at, f"it calls {error}, which is not on the list of allowed functions") from None
        fresh, number = name, 0
        while fresh in self.taken:
            number += 1
            fresh = f"{name}__{number}"
        self.taken.add(fresh)
        self.nodes.append({"name": fresh, "op": kind, "target": target, "args": args, "kwargs": kwargs or {}})
        return {"ref": fresh}

    def _value(self, expression: ast.expr, name: str = "value") -> Any:
        """Returns an expression in the form of a record. Calls in it become nodes; the outermost one is named
        `name`."""
        match expression:
            case ast.Constant(value=value):
                return self._constant(expression, value)
            case ast.Name(id=text):
                return self._variable(expression, text)
            case ast.Tuple(elts=parts):
                return {"tuple": [self._value(part) for part in parts]}
            case ast.List(elts=parts):
                return [self._value(part) for part in parts]
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return self._constant(expression, -number)
            case ast.UnaryOp(op=op, operand=operand):
                return self._operator(expression, name, _UNARY[type(op)], operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return self._operator(expression, name, _BINARY[type(op)], left, right)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return self._operator(expression, name, _COMPARE[type(op)], left, right)
            case ast.Subscript(value=value, slice=index):
                operands = [self._value(value), self._index(index)]
                return self._node(expression, name, "call_function", "operator.getitem", operands)
            case ast.Attribute():
                return self._attribute(expression, name)
            case ast.Call():
                return self._call(expression, name)
            case ast.Dict(keys=keys, values=values):
                return {"dict": dict(zip(map(self._key, keys), map(self._value, values), strict=True))}
            case _:
                raise _refused(self.path, expression, "no value of a recorded call")

    def _constant(self, at: ast.expr, value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": str(value)}
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if value is ...:
            return {"ellipsis": True}
        raise _refused(self.path, at, "no constant of a recorded call")

    def _key(self, key: ast.expr | None) -> str:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            return key.value
        raise SourceError(f"{self.path}:{key.lineno if key else 1}: keys of a dictionary are texts")

    def _variable(self, at: ast.expr, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        if name in ("inf", "nan"):
            return {"float": name}
        if name == "Ellipsis":
            return {"ellipsis": True}
        raise _refused(self.path, at, f"{name} has no value here")

    def _operator(self, at: ast.expr, name: str, operator: str, *operands: ast.expr) -> Any:
        values = [self._value(operand) for operand in operands]
        return self._node(at, name, "call_function", f"operator.{operator}", values)

    def _index(self, index: ast.expr) -> Any:
        match index:
            case ast.Slice(lower=lower, upper=upper, step=step):
                return {"slice": [None if part is None else self._value(part) for part in (lower, upper, step)]}
            case ast.Tuple(elts=parts):
                return {"tuple": [self._index(part) for part in parts]}
            case _:
                return self._value(index)

    def _dotted(self, expression: ast.expr) -> str | None:
        """Returns `torch.nn.functional.relu` as text, or None for an attribute of a value."""
        parts: list[str] = []
        while isinstance(expression, ast.Attribute):
            parts.append(expression.attr)
            expression = expression.value
        if isinstance(expression, ast.Name) and expression.id == "torch" and "torch" not in self.values:
            return ".".join(["torch", *reversed(parts)])
        return None

    def _attribute(self, expression: ast.Attribute, name: str) -> Any:
        dotted = self._dotted(expression)
        if dotted is None:
            return self._node(expression, name, "getattr", expression.attr, [self._value(expression.value)])
        value = torch.__dict__.get(expression.attr) if dotted.count(".") == 1 else None
        for kind in (torch.dtype, torch.memory_format, torch.layout):
            if isinstance(value, kind):
                return {kind.__name__: str(value).removeprefix("torch.")}
        raise _refused(self.path, expression, "no dtype, layout or memory format")

    def _call(self, call: ast.Call, name: str) -> Any:
        dotted = self._dotted(call.func)
        bare = call.func.id if isinstance(call.func, ast.Name) and call.func.id not in self.values else None
        if bare == "device" or dotted == "torch.device":
            return {"device": "cpu"}
        if any(isinstance(argument, ast.Starred) for argument in call.args) or any(
            k.arg is None for k in call.keywords
        ):
            raise _refused(self.path, call, "arguments are given one by one")
        args = [self._value(argument) for argument in call.args]
        kwargs = {str(keyword.arg): self._value(keyword.value) for keyword in call.keywords}
        if bare == "slice" and not kwargs and 1 <= len(args) <= 3:
            return {"slice": [None, args[0], None] if len(args) == 1 else [*args, None][:3]}
        if dotted is not None:
            if dotted.startswith("torch.amp.") and args and isinstance(args[0], str):
                args[0] = "cpu"  # where it ran is no part of a record, as in `device`
            return self._node(call, name, "call_function", dotted, args, kwargs)
        if isinstance(call.func, ast.Attribute):
            args.insert(0, self._value(call.func.value))
            return self._node(call, name, "call_method", call.func.attr, args, kwargs)
        raise _refused(self.path, call, "it calls something else than torch or a tensor's method")
