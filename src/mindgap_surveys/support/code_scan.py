"""Finds which functions and modules of PyTorch a package of Python files calls, and at which lines.

Files are parsed and never imported. Names are resolved through the imports of a file (`from torch import nn`,
`import torch.nn.functional as F`). A method counts where its name belongs to tensors and to no built-in type, and what
it is called on may be a tensor: `x.cumsum(0)` counts; `x.split(2)` may be of a string, and `np.cumsum(x)` is numpy's.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mindgap.graph import MindgapError
from mindgap_surveys.support.code_origins import Origins, full_name, imported_names

#: Names of methods that types other than tensors have too: their owner is unknown.
_AMBIGUOUS: Final = frozenset(
    name for kind in (str, bytes, list, dict, set, tuple, int, float, complex) for name in dir(kind)
) | {"all", "any", "max", "min", "sum", "mean", "std", "var", "reshape", "transpose", "squeeze", "flatten", "round"}
#: Folders that hold no code of the package's own.
_SKIPPED: Final = frozenset({"__pycache__", ".git", ".venv", "venv", "node_modules", "build", "dist"})
_TENSOR: Final = "torch.Tensor."
#: Whether tensors have a method of this name that takes these arguments.
IsMethod = Callable[[str, "CallForm"], bool]


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, whose name is relative to what was scanned."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class CallForm:
    """The arguments of a call. positional, keywords: their values, where those are texts, numbers, truth values or
    None, and the full names of members of `torch` (`torch.float32`); else `...`. complete: False for `f(*args)` and
    `f(**options)`, and for a function that is handed on."""

    positional: tuple[object, ...] = ()
    keywords: tuple[tuple[str, object], ...] = ()
    complete: bool = False


@dataclass(frozen=True)
class CodeScan:
    """What a package calls. `uses`: by the full name (`torch.nn.functional.gelu`, `torch.nn.Conv2d`,
    `torch.Tensor.cumsum`), in the order of names; a function that is handed on (`activation=F.gelu`) is used too.
    `called`: those that are called. `files`: how many were found. `unreadable`: files that do not parse, and why.
    `forms`: the distinct argument lists of each use."""

    uses: Mapping[str, tuple[Place, ...]]
    called: frozenset[str]
    files: int
    unreadable: Mapping[str, str] = field(default_factory=dict[str, str])
    forms: Mapping[str, tuple[CallForm, ...]] = field(default_factory=dict[str, "tuple[CallForm, ...]"])


def scan(path: Path, is_method: IsMethod = lambda name, form: False) -> CodeScan:
    """Scans a file, or all Python files of a folder. `is_method`: whether tensors have a method of this name that
    takes these arguments.

    Raises `MindgapError` where there is no Python file, or none that parses.
    """
    if not path.exists():
        raise MindgapError(f"{path}: no such file or folder")
    if path.suffix in (".onnx", ".tflite", ".mindgap"):
        raise MindgapError(f"{path}: no Python file; --run {path} tries the calls of a model")
    files = [path] if path.is_file() else sorted(_python_files(path))
    if not files:
        raise MindgapError(f"{path}: no Python file (*.py) is in it")
    uses: dict[str, list[Place]] = {}
    called: set[str] = set()
    unreadable: dict[str, str] = {}
    forms: dict[str, dict[CallForm, None]] = {}
    for file in files:
        name = file.name if path.is_file() else str(file.relative_to(path))
        try:
            tree = ast.parse(file.read_bytes(), str(file))
        except (SyntaxError, ValueError, OSError, RecursionError, MemoryError) as error:
            line = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else str(error)
            unreadable[name] = line or type(error).__name__
            continue
        for full, line, form in _uses(tree, is_method):
            uses.setdefault(full, []).append(Place(name, line))
            called.update([full] if form is not None else [])
            forms.setdefault(full, {})[form or CallForm()] = None
    if len(unreadable) == len(files):
        first = next(iter(unreadable.items()))
        raise MindgapError(f"{path}: none of {len(files)} files parses: {first[0]}: {first[1]}")
    ordered = {full: tuple(dict.fromkeys(uses[full])) for full in sorted(uses)}
    return CodeScan(
        ordered, frozenset(called), len(files), unreadable, {full: tuple(each) for full, each in forms.items()}
    )


def called_names(source: bytes, package: str) -> Iterator[str]:
    """Yields the full name of each call in a file that begins with an import of `package` (`jax.numpy.einsum`), once
    for each call. Raises what `ast.parse` raises for a file that does not parse."""
    for full, _, form in _uses(ast.parse(source), lambda name, form: False, package):
        if form is not None:
            yield full


def _python_files(folder: Path) -> Iterator[Path]:
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            if each.name not in _SKIPPED:
                yield from _python_files(each)
        elif each.suffix == ".py":
            yield each


def _uses(tree: ast.AST, is_method: IsMethod, package: str = "torch") -> Iterator[tuple[str, int, CallForm | None]]:
    """The full name and line of each use, and its arguments where it is a call. Names in annotations are no uses."""
    names, nodes = imported_names(tree), list(_without_annotations(tree))
    origins = Origins(tree, names)
    calls = {id(node.func): node for node in nodes if isinstance(node, ast.Call)}
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if not isinstance(node, (ast.Attribute, ast.Name)) or id(node) in inner or not isinstance(node.ctx, ast.Load):
            continue
        full, call = full_name(node, names), calls.get(id(node))
        form = None if call is None else _form(call, names)
        if full.startswith(f"{package}."):
            yield full, node.lineno, form
        elif (
            form is not None and isinstance(node, ast.Attribute) and node.attr not in _AMBIGUOUS
            and is_method(node.attr, form) and origins.may_be_tensor(node.value)
        ):  # fmt: skip
            yield _TENSOR + node.attr, node.end_lineno or node.lineno, form


def _form(call: ast.Call, names: Mapping[str, str]) -> CallForm:
    keywords = tuple((each.arg, _literal(each.value, names)) for each in call.keywords if each.arg is not None)
    complete = len(keywords) == len(call.keywords) and not any(isinstance(each, ast.Starred) for each in call.args)
    return CallForm(tuple(_literal(each, names) for each in call.args), keywords, complete)


def _literal(node: ast.expr, names: Mapping[str, str]) -> object:
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, bool, int, float, type(None))):
        return node.value
    full = full_name(node, names) if isinstance(node, (ast.Attribute, ast.Name)) else ""
    return full if full.startswith("torch.") and full.count(".") == 1 else ...


def _without_annotations(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes in the order of the text, without recursion: a chain of operators may be long."""
    left = [tree]
    while left:
        yield (node := left.pop())
        annotations = [getattr(node, name, None) for name in ("annotation", "returns")]
        children = [each for each in ast.iter_child_nodes(node) if not any(each is one for one in annotations)]
        left += reversed(children)
