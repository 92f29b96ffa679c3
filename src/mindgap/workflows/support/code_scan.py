"""Finds which functions and modules of PyTorch a package of Python files calls, and at which lines.

Files are parsed and never imported. Names are resolved through the imports of a file (`from torch import nn`,
`import torch.nn.functional as F`). A method counts where its name belongs to tensors and to no built-in type:
`x.cumsum(0)` does, `x.split(2)` may be of a string and does not.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mindgap.graph import MindgapError

#: Names of methods that types other than tensors have too: nothing says whose they are.
_AMBIGUOUS: Final = frozenset(
    name for kind in (str, bytes, list, dict, set, tuple, int, float, complex) for name in dir(kind)
) | {"all", "any", "max", "min", "sum", "mean", "std", "var", "reshape", "transpose", "squeeze", "flatten", "round"}
#: Folders that hold no code of the package's own.
_SKIPPED: Final = frozenset({"__pycache__", ".git", ".venv", "venv", "node_modules", "build", "dist"})
_TENSOR: Final = "torch.Tensor."


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, whose name is relative to what was scanned."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class CodeScan:
    """What a package calls. `uses`: by the full name (`torch.nn.functional.gelu`, `torch.nn.Conv2d`,
    `torch.Tensor.cumsum`), in the order of names; a function that is handed on (`activation=F.gelu`) is used too.
    `called`: those that are called. `files`: how many were found. `unreadable`: files that do not parse, and why."""

    uses: Mapping[str, tuple[Place, ...]]
    called: frozenset[str]
    files: int
    unreadable: Mapping[str, str] = field(default_factory=dict[str, str])


def scan(path: Path, methods: Collection[str] = ()) -> CodeScan:
    """Scans a file, or all Python files of a folder. `methods`: names of methods of tensors that are looked for.

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
    wanted = frozenset(methods) - _AMBIGUOUS
    for file in files:
        name = file.name if path.is_file() else str(file.relative_to(path))
        try:
            tree = ast.parse(file.read_bytes(), str(file))
        except (SyntaxError, ValueError, OSError, RecursionError, MemoryError) as error:
            unreadable[name] = f"line {error.lineno}: {error.msg}" if isinstance(error, SyntaxError) else _why(error)
            continue
        for full, line, is_call in _uses(tree, wanted):
            uses.setdefault(full, []).append(Place(name, line))
            called.update([full] if is_call else [])
    if len(unreadable) == len(files):
        first = next(iter(unreadable.items()))
        raise MindgapError(f"{path}: none of {len(files)} files parses: {first[0]}: {first[1]}")
    return CodeScan({full: tuple(uses[full]) for full in sorted(uses)}, frozenset(called), len(files), unreadable)


def called_names(source: bytes, package: str) -> Iterator[str]:
    """Yields the full name of each call in a file that begins with an import of `package` (`jax.numpy.einsum`), once
    for each call. Raises what `ast.parse` raises for a file that does not parse."""
    for full, _, is_call in _uses(ast.parse(source), (), package):
        if is_call:
            yield full


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__


def _python_files(folder: Path) -> Iterator[Path]:
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            if each.name not in _SKIPPED:
                yield from _python_files(each)
        elif each.suffix == ".py":
            yield each


def _uses(tree: ast.AST, methods: Collection[str], package: str = "torch") -> Iterator[tuple[str, int, bool]]:
    """The full name and line of each use, and whether it is a call. Names in annotations are no uses."""
    names, nodes = _imported(tree, package), list(_without_annotations(tree))
    functions = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if not isinstance(node, (ast.Attribute, ast.Name)) or id(node) in inner or not isinstance(node.ctx, ast.Load):
            continue
        full, is_call = _full_name(node, names), id(node) in functions
        if full.startswith(f"{package}."):
            yield full, node.lineno, is_call
        elif is_call and isinstance(node, ast.Attribute) and node.attr in methods:
            yield _TENSOR + node.attr, node.end_lineno or node.lineno, True


def _without_annotations(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes in the order of the text, without recursion: a chain of operators may be long."""
    left = [tree]
    while left:
        yield (node := left.pop())
        annotations = [getattr(node, name, None) for name in ("annotation", "returns")]
        children = [each for each in ast.iter_child_nodes(node) if not any(each is one for one in annotations)]
        left += reversed(children)


def _imported(tree: ast.AST, package: str) -> dict[str, str]:
    """What the names that a file imports from a package stand for."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                if each.name.partition(".")[0] == package:
                    found[each.asname or package] = each.name if each.asname else package
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").partition(".")[0] == package:
            found |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return found


def _full_name(node: ast.expr, names: Mapping[str, str]) -> str:
    """`torch.nn.functional.gelu` of `F.gelu`; empty for what is no chain of names that begins with an import."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return ""
    return ".".join([names[node.id], *reversed(parts)])
