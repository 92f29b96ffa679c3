"""Reads how a short script runs a platform from the runtime's `run.py`: the function, its imports, its packages.

`run.py` holds real functions of the form `run(model, fresh)` that go the documented way of the runtime's users.
`fresh` returns new operands at each call: exporters and tracers may run the model, and an operator in place then
changes its operands. The call of the runtime itself is all from the statement `found = …` on, or else the last one.
Its imports are at its top, as in a script. It is read, not imported: the parent process imports no framework.
"""

from __future__ import annotations

import ast
import textwrap
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

    #: Returns new operands at each call.
    Fresh = Callable[[], tuple[torch.Tensor, ...]]

#: What a script has at its top in any case, or does not need.
_NOT_PASTED: Final = ("__future__", "typing", "collections", "torch", "mindgap")
#: Each script has another value of it.
_CONSTANT: Final = "PROPERTIES"
_SIGNATURE: Final = "def run(model, fresh):"
#: The outputs of the runtime.
_PARSING: Final = threading.Lock()
_OUTPUTS: Final = "found"


@dataclass(frozen=True, slots=True)
class ScriptRunner:
    """How a script runs a platform.

    run: the source of `run(model, fresh)`, which returns the outputs, with what it needs before it.
    imports: statements, after which every name that `run` uses is there; a missing package ends the script with
        status 2.
    packages: distributions whose versions the script prints, the runtime's first.
    properties: the value of the constant `PROPERTIES`, for a `run` that uses it.
    diagnostics: the runtime reports on standard error why it fails.
    in_torch: PyTorch itself runs the model: operands and outputs are its tensors, of any dtype.
    refusal: a pattern of the messages by which the runtime refuses a program; empty for none. A
        script has no use for it.
    hardware: an expression of `torch` for the name of the device that it runs on, which a script prints behind the
        versions; empty for this processor.
    prepare: `module:function`, called with the platform's options in a process of mindgap's that runs programs, before
        each; a script has no such call.
    """

    run: str
    imports: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    properties: Mapping[str, str | int] = field(default_factory=dict[str, str | int])
    diagnostics: bool = False
    in_torch: bool = False
    hardware: str = ""
    prepare: str = ""
    refusal: str = ""


def read_runner(
    file: Path, packages: Sequence[str], function: str = "run", *, properties: Mapping[str, str | int] | None = None,
    edits: Mapping[str, str] | None = None, diagnostics: bool = False, in_torch: bool = False,
) -> ScriptRunner:  # fmt: skip
    """Returns the runner that a function of a `run.py` is.

    `edits`: of the text, for options of the platform; raises `ValueError` for one that does not occur once.
    """
    text, imports = _read(file, function)
    for old, new in (edits or {}).items():
        if text.count(old) != 1:
            raise ValueError(f"{file}: {old!r} occurs {text.count(old)} times in {function}")
        text = text.replace(old, new)
    used = {node.id for node in ast.walk(parsed(text)) if isinstance(node, ast.Name)}
    needed = tuple(line for line, name in imports if name in used)
    return ScriptRunner(text, needed, tuple(packages), properties or {}, diagnostics, in_torch)


def parsed(source: str) -> ast.Module:
    """Parses Python code. Python 3.11 counts the depth of all threads that make syntax trees in one number."""
    with _PARSING:
        return ast.parse(source)


def call_apart(runner: ScriptRunner) -> ScriptRunner | None:
    """Returns a runner whose `run` exports and loads the model, and returns the call of the runtime as a function
    without arguments. None for one that loads the model with each call."""
    statements = parsed(runner.run).body
    function = next(each for each in statements if isinstance(each, ast.FunctionDef) and each.name == "run")
    calls = [each for each in function.body if _sets_outputs(each)]
    if not calls and any(map(_sets_outputs, ast.walk(function))):
        return None
    begin, end = (calls or function.body)[-1].lineno - 1, function.end_lineno
    lines = runner.run.splitlines()
    # A runtime's method may need the program that it was loaded from.
    made = ["    def call():", textwrap.indent("\n".join(lines[begin:end]), "    ")]
    made += ["    call.kept = locals()", "    return call"]
    return replace(runner, run="\n".join([*lines[:begin], *made, *lines[end:]]))


def _sets_outputs(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign):
        return False
    return any(isinstance(each, ast.Name) and each.id == _OUTPUTS for each in node.targets)


@cache
def _read(file: Path, function: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The text of the function behind all that is neither an import nor another function, and the imports with the
    names that they bind, numpy's last."""
    source = file.read_text(encoding="utf-8")
    lines, body = source.splitlines(), parsed(source).body
    text, imports = "", list[tuple[str, str]]()
    end = 0
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports += _imported(node)
        elif isinstance(node, ast.FunctionDef):
            text += "\n\n\n" + _function(node, lines) if node.name == function else ""
        elif isinstance(node, (ast.ClassDef, ast.Assign, ast.Try)) and not lines[node.lineno - 1].startswith(_CONSTANT):
            text += "\n".join(lines[end if text else node.lineno - 1 : node.end_lineno]) + "\n"
        end = node.end_lineno or 0
    if _SIGNATURE not in text:
        raise ValueError(f"{file} has no function {function}")
    return text.strip("\n").replace("\n\n\n\n", "\n\n\n"), tuple(sorted(imports, key=lambda each: each[1] == "np"))


def _imported(node: ast.Import | ast.ImportFrom) -> list[tuple[str, str]]:
    """The statement with each name that it binds; none for what no script needs."""
    first = [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
    if first[0].partition(".")[0] in _NOT_PASTED:
        return []
    return [(ast.unparse(node), (each.asname or each.name).partition(".")[0]) for each in node.names]


def _function(node: ast.FunctionDef, lines: Sequence[str]) -> str:
    """The function's text as `run`, without types and docstring."""
    begin = node.body[1] if ast.get_docstring(node) is not None else node.body[0]
    return "\n".join([_SIGNATURE, *lines[begin.lineno - 1 : node.end_lineno]])
