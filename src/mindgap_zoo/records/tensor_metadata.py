"""Parses the files of a GraphNet folder that describe its tensors (`weight_meta.py`, `input_meta.py`).

Each tensor is a class with literal fields. Nothing is run. A field that is no literal is refused with file and line.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mindgap.sources.source import SourceError
from mindgap.sources.type_guards import is_list
from mindgap_zoo.records.forward_parser import syntax_tree

Fields = Mapping[str, Any]

#: How a tracer spells the path of a module's own tensor, from the variable that held the module on.
_OWN = re.compile(r"L_(?:[^_]+_)?(?P<path>(?:modules_.+_)?(?P<kind>parameters|buffers)_.+)_")


def read_meta(path: Path) -> dict[str, Fields]:
    """Returns the fields of each tensor by name. Raises `SourceError` with file and line."""
    metadata: dict[str, Fields] = {}
    for statement in syntax_tree(path).body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if not isinstance(statement, ast.ClassDef) or statement.bases or statement.decorator_list:
            raise SourceError(f"{path}:{statement.lineno}: only plain classes describe tensors")
        fields = _fields(path, statement)
        name = fields.get("name")
        if not isinstance(name, str):
            raise SourceError(f"{path}:{statement.lineno}: {statement.name} has no name")
        metadata[name] = {**fields, "line": statement.lineno}
    return metadata


def _fields(path: Path, described: ast.ClassDef) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for part in described.body:
        match part:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.startswith("_"):
                fields[name] = _literal(path, value)
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                raise SourceError(f"{path}:{part.lineno}: no field of a tensor: {ast.unparse(part)[:60]}")
    return fields


def _literal(path: Path, value: ast.expr) -> Any:
    match value:
        case ast.Constant(value=None | bool() | int() | float() | str() as plain):
            return plain
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_literal(path, part) for part in parts]
        case ast.Call(
            func=ast.Name(id="float"), args=[ast.Constant(value="inf" | "-inf" | "nan" as text)], keywords=[]
        ):
            return float(text)
        case _:
            raise SourceError(f"{path}:{value.lineno}: no literal: {ast.unparse(value)[:60]}")


def entries(path: Path, arguments: Mapping[str, str], known: Mapping[str, Fields]) -> list[dict[str, Any]]:
    """Returns the `inputs` of a record: one entry per argument of its forward, with the names that a record uses.

    `arguments`: name to annotation. Raises `SourceError` for an argument that `path`, the file, does not describe.
    """
    counts = dict.fromkeys("PBXS", 0)
    made: list[dict[str, Any]] = []
    for argument, annotation in arguments.items():
        fields = known.get(argument)
        if fields is None:
            raise SourceError(f"{path}: it says nothing of {argument}, which forward takes")
        entry = _entry(path, argument, annotation, fields)
        letter = {"parameter": "P", "buffer": "B", "input": "X", "symint": "S"}[entry["kind"]]
        made.append({"name": f"{letter}{counts[letter]}", **entry})
        counts[letter] += 1
    return made


def _entry(path: Path, argument: str, annotation: str, fields: Fields) -> dict[str, Any]:
    missing = [field for field in ("shape", "dtype") if field not in fields]
    if missing:
        raise SourceError(f"{path}:{fields['line']}: {argument} has no {missing[0]}")
    own = _OWN.fullmatch(argument)
    kind = "symint" if annotation.endswith("SymInt") else "parameter" if annotation.endswith("Parameter") else "input"
    if kind == "input" and own and own["kind"] == "buffers":
        kind = "buffer"
    entry: dict[str, Any] = {
        "kind": kind,
        "shape": fields["shape"],
        "dtype": str(fields["dtype"]).removeprefix("torch."),
        "mean": _statistic(fields.get("mean")),
        "std": _statistic(fields.get("std")),
        "data": fields.get("data"),
    }
    entry.update({key: fields[f"{key}_val"] for key in ("min", "max") if fields.get(f"{key}_val") is not None})
    if kind == "input" and entry["shape"] == [] and entry["dtype"] == "float64":
        entry["scalar"] = True
    if kind == "symint" and not (is_list(entry["data"]) and entry["data"]):
        raise SourceError(f"{path}:{fields['line']}: {argument} is a number without a value")
    if kind in ("parameter", "buffer"):
        entry["path"] = _module_path(own["path"]) if own else argument
    else:
        entry["original_name"] = argument
    return entry


def _statistic(value: Any) -> Any:
    return {"float": str(value)} if isinstance(value, float) and not math.isfinite(value) else value


def _module_path(text: str) -> str:
    """Converts `modules_layer1_modules_0_modules_conv_parameters_weight` to `layer1.0.conv.weight`."""
    match = re.fullmatch(r"(?:modules_(?P<owners>.*)_)?(?:parameters|buffers)_(?P<leaf>.+)", text)
    if match is None:
        return text
    owners = match["owners"].split("_modules_") if match["owners"] else []
    return ".".join([*owners, match["leaf"]])
