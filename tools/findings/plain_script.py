"""Makes the script of a text to file from a listed script: what shows the fault, without what decides that it is there.

Left out are the docstring, exit statuses, versions, checks of the surroundings, and the comparison with a limit.
`run_texts.py` runs what is left, and compares what it prints with what the listed script printed.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final

#: A plain script that is longer has no empty lines.
LINES: Final = 25
#: Of the patch that lets torchax be imported, nothing refers to the rest.
_TOGETHER: Final = {"packet", "original", "torchax", "loaded"}
#: Functions and methods that only compute: what they give can be left out where nothing reads it.
_PURE: Final = frozenset((
    "abs", "all", "allclose", "any", "array", "array_equal", "asarray", "astype", "bool", "endswith", "equal",
    "float", "int", "isclose", "isfinite", "isinf", "isinstance", "isnan", "item", "len", "list", "max", "maximum",
    "mean", "min", "ones", "range", "ravel", "reshape", "round", "set", "signbit", "startswith", "str", "sum",
    "TemporaryFile", "tolist", "tuple", "zeros", "zip",
))  # fmt: skip
_BLOCKS: Final = (ast.If, ast.For, ast.With, ast.Try)
#: What a listed script prints of itself: its answer, and the versions, which the text has under Environment.
_OF_ITSELF: Final = ("FAULT", "__version__", "version(", "get_version")


def plain(script: str) -> str:
    """The model, the operands and the runtime's call of the first case of a script, which prints both results."""
    tree, lines = ast.parse(script), script.splitlines()
    cases = next(node.value for node in tree.body if isinstance(node, ast.Assign) and "CASES" in _defined(node))
    case = cases.values[0] if isinstance(cases, ast.Dict) else None
    if not isinstance(case, ast.Tuple):
        return script
    model, fresh = (ast.unparse(each) for each in case.elts)
    given = f"{model}().eval(), fresh"
    roots = {"run", *_names(case)}
    if "class Boundary" in script:
        given = f"Boundary({model}(), fresh()).eval(), lambda: tuple(map(plain, fresh()))"
        roots |= {"Boundary", "plain"}
    kept, names = _needed(tree.body, roots)
    parts = [_source(node, lines, names) for node in kept]
    calls = [
        f"fresh = {fresh}",
        "torch.set_printoptions(precision=17)",
        f'print("expected", {model}().eval()(*fresh()))',
        f'print("actual", run({given}))',
    ]
    return _joined([*zip(map(_is_block, kept), parts, strict=True), (True, "\n".join(calls))])


def plain_native(script: str) -> str:
    """A script in the runtime's own format without what it reports of itself.

    Of a script that starts itself again, what the second process runs. If that is too long, functions lose their
    docstrings and checks, and an exception at the end of the script is not caught.
    """
    tree = ast.parse(script)
    main = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "main"), None)
    again = next((n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "sys.argv[1:]"), None)
    if again is not None:
        tree.body[tree.body.index(again) :] = again.body
    elif "__file__" in script or (main is not None and main.args.args):
        return script
    around = [
        each
        for node in tree.body
        if node is not main and not (main and "main()" in ast.unparse(node))
        for each in (node.body if isinstance(node, ast.Try) and isinstance(node.body[0], ast.Import) else [node])
    ]
    body = [*around, *(main.body if main else [])]
    made = _acting(body, script)
    spared = {each for node in body if isinstance(node, ast.FunctionDef) for each in node.body if _is_of_itself(each)}
    if len(made.splitlines()) > LINES:
        made = _acting(body, script, spared)
    caught = next((node for node in reversed(body) if isinstance(node, ast.Try)), None)
    if len(made.splitlines()) > LINES and caught is not None:
        at = body.index(caught)
        before = [node for node in body[:at] if not ast.unparse(node).startswith("os.dup2(")]
        made = _acting([*before, *caught.body, *caught.orelse, *body[at + 1 :]], script, spared)
    return made


def _acting(body: Sequence[ast.stmt], script: str, without: Iterable[ast.stmt] = ()) -> str:
    """The text of those statements that act; the whole script if they do not suffice."""
    gone, read, before, lines = set(without), set[str](), -1, script.splitlines()
    while before != len(gone):  # what only statements read that are gone is gone too
        before, read = len(gone), set[str]()
        _read(body, gone, read)
        _leave_out(body, gone, read)
    for node in reversed(body):  # after the last statement that acts nothing is read
        if node not in gone and not (isinstance(node, ast.Assign) and _is_pure(node.value)):
            break
        gone.add(node)
    left_out = {number for node in gone for number in range(node.lineno, (node.end_lineno or 0) + 1)}
    for node in gone:
        number = node.lineno - 1
        while lines[number - 1].lstrip().startswith("#"):
            left_out.add(number)
            number -= 1
    for node in ast.walk(ast.Module([*body], [])):
        if isinstance(node, ast.Import) and node not in gone and len(node.names) > 1:
            names = [each for each in node.names if _bound(each) in read]
            lines[node.lineno - 1] = " " * node.col_offset + ast.unparse(ast.Import(names))
    parts = list[tuple[bool, str]]()
    for node in body:
        begin = node.lineno - 1
        while lines[begin - 1].lstrip().startswith("#"):
            begin -= 1
        kept = [lines[n - 1] for n in range(begin + 1, (node.end_lineno or 0) + 1) if n not in left_out]
        if text := "\n".join(line for line in kept if line.strip()):
            parts.append((_is_block(node), textwrap.dedent(text)))
    made = _joined(parts)
    try:
        compile(made, "plain", "exec")
    except SyntaxError:  # a block is left empty, or it returns early
        return script
    return made


def _leave_out(body: Sequence[ast.stmt], gone: set[ast.stmt], read: set[str]) -> None:
    """Adds the statements to `gone` that are of the script itself, and those that bind what nothing reads."""
    returned, tested = False, set[str]()
    for node in body:
        text, inner = ast.unparse(node), [*_inner(node)]
        if returned:  # what follows a handler that returns is of a run without the failure
            is_gone = True
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            is_gone = node.name not in read
        elif isinstance(node, _BLOCKS):
            _leave_out(inner, gone, read)
            if isinstance(node, ast.If):  # the words of a message that it looks for are printed after it
                tested |= {
                    f"print({ast.unparse(each)})" for each in ast.walk(node.test) if isinstance(each, ast.Constant)
                }
            of = [getattr(node, name) for name in ("test", "iter") if hasattr(node, name)]
            is_gone = all(each in gone for each in inner) and all(map(_is_pure, of)) and not isinstance(node, ast.With)
            if not is_gone and all(each in gone for each in inner):  # a block that acts keeps what it holds
                gone -= set(inner)
        elif isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.AugAssign | ast.AnnAssign):
            value = getattr(node, "value", None)
            binds = _defined(node)  # of `found[0] = …` no identifier
            is_gone = not read & set(binds) and all(name.isidentifier() for name in binds)
            is_gone &= value is None or _is_pure(value)
            is_gone |= text.startswith("sys.excepthook")
        elif isinstance(node, ast.Expr):
            is_gone = _is_of_itself(node) or text in tested
        elif isinstance(node, ast.Assert):
            is_gone = _is_pure(node.test)
        else:
            is_gone = isinstance(node, ast.Return | ast.Raise)
        if is_gone:
            gone.add(node)
        if isinstance(node, ast.Try):
            returned |= any(isinstance(each, ast.Return) for part in node.handlers for each in ast.walk(part))


def _is_of_itself(node: ast.stmt) -> bool:
    """Whether a statement is a docstring, an exit status, a check, or prints the answer or versions."""
    text = ast.unparse(node)
    of_itself = text.startswith("print(") and any(each in text for each in _OF_ITSELF)
    return isinstance(node, ast.Expr) and (
        isinstance(node.value, ast.Constant) or of_itself or text.startswith(("sys.exit(", "onnx.checker"))
    )


def _read(body: Sequence[ast.stmt], gone: set[ast.stmt], read: set[str]) -> None:
    """Adds the names to `read` that statements read which are not gone."""
    for node in body:
        if node in gone:
            continue
        inner = set(_inner(node)) if isinstance(node, _BLOCKS) else set[ast.stmt]()
        for child in ast.iter_child_nodes(node):
            each = child.type if isinstance(child, ast.ExceptHandler) and child.type else child
            if each not in inner:
                read |= {
                    name.id for name in ast.walk(each) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load)
                }
        _read([*inner], gone, read)


def _inner(node: ast.stmt) -> Iterable[ast.stmt]:
    handlers = [each for handler in getattr(node, "handlers", []) for each in handler.body]
    return [*(each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)), *handlers]


def _is_pure(value: ast.expr) -> bool:
    calls = [node.func for node in ast.walk(value) if isinstance(node, ast.Call)]
    return all(getattr(each, "attr", getattr(each, "id", "")) in _PURE for each in calls)


def _joined(parts: Sequence[tuple[bool, str]]) -> str:
    """The statements of a script, with empty lines around classes and functions unless it gets too long.

    If it still is too long, imports that follow each other are one.
    """
    text = ""
    for number, (block, part) in enumerate(parts):
        apart = block or (number and parts[number - 1][0])
        text += ("" if not number else "\n\n" if apart else "\n") + part
    if len(text.splitlines()) > LINES:
        text = "\n".join(part for _, part in parts)
    if len(text.splitlines()) > LINES:
        runs = re.compile(r"^import .+(?:\nimport .+)+", re.MULTILINE)
        text = runs.sub(lambda run: run[0].replace("\nimport ", ", ").replace("ctypes, ctypes.", "ctypes."), text)
    return text + "\n"


def _is_block(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef | ast.FunctionDef)


def _defined(node: ast.AST) -> list[str]:
    """The names that a statement binds, of an attribute the name before it."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [*map(_bound, node.names)]
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else targets
    return [name.partition(".")[0] for each in targets for name in ast.unparse(each).strip("()").split(", ")]


def _bound(imported: ast.alias) -> str:
    return (imported.asname or imported.name).partition(".")[0]


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _source(node: ast.stmt, lines: list[str], names: set[str]) -> str:
    """The text of a statement without empty lines; of several imports those of the names."""
    if isinstance(node, ast.Import) and len(node.names) > 1:
        return ast.unparse(ast.Import([each for each in node.names if _bound(each) in names]))
    return "\n".join(line for line in lines[node.lineno - 1 : node.end_lineno] if line.strip())


def _needed(body: Iterable[ast.stmt], roots: set[str]) -> tuple[list[ast.stmt], set[str]]:
    """The statements that the names need, and those that set environment variables, in their order; all such names."""
    body, names = list(body), set(roots)
    while True:
        found: list[Any] = [
            node for node in body if names & set(_defined(node)) or "os.environ" in ast.unparse(node)[:10]
        ]
        more = names.union(*map(_names, found))
        more |= _TOGETHER if "torchax" in more else set()
        if more == names:
            return [node for node in found if "excepthook" not in ast.unparse(node)[:16]], names
        names = more
