"""Writes the text of a cause for an issue tracker: title, expected, actual, environment, script."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from listing import Listed

#: Of the patch that lets torchax be imported, nothing refers to the rest.
_TOGETHER: Final = {"packet", "original", "torchax", "loaded"}
#: Characters of a failure that a text quotes.
_QUOTED: Final = 1200


def text_to_file(each: Listed, directory: Path) -> str:
    """The text, with the reproducer in the runtime's own format where there is one."""
    cause, native = each.cause, bool(each.facts.native)
    source = (directory / each.script).read_text(encoding="utf-8")
    shown = (directory / each.folder / each.facts.native).read_text(encoding="utf-8") if native else plain(source)
    versions, _, rest = str(each.runs.get("native_printed" if native else "printed", "")).partition("\n")
    expected, actual = sides(str(each.runs.get("printed", "")))
    actual = re.sub(r"\n?(NO )?FAULT\s*$", "", rest).strip("\n")[-_QUOTED:] if native else actual
    lines = [
        f"# {each.title}",
        "",
        f"It happens for: {cause.condition}." + (f" Right for: {cause.right_for}." if cause.right_for else ""),
        *(["", cause.mechanism] if cause.mechanism else []),
        *("", "## Expected", "", *_block(expected), "## Actual", "", *_block(actual)),
        *("## To reproduce" + (", without PyTorch's exporter" if native else ""), ""),
        *("```python", shown.strip(), "```", "", "## Environment", "", versions or "(not run)"),
    ]
    return "\n".join(lines)


def _block(text: str) -> list[str]:
    return ["```", text.strip() or "(not run)", "```", ""]


def sides(printed: str) -> tuple[str, str]:
    """What eager PyTorch and the platform give in the first case of a script, by what it printed."""
    at = re.search(r"^  at (\[[^\]]*\]): eager (.*?)  \S+ (.*?)(?:  float64 (.*))?$", printed, re.MULTILINE)
    if at:
        exact = f" (float64: {at[4].strip()})" if at[4] else ""
        kinds = re.search(r", output \d+: (torch\.\S+.*?) for (torch\..*?), error", printed)
        actual, expected = (f" of {kinds[1]}", f" of {kinds[2]}") if kinds else ("", "")
        return f"{at[2].strip()} at {at[1]}{expected}{exact}", f"{at[3].strip()} at {at[1]}{actual}"
    apart = re.search(r": (torch\.\S+.*?) for (torch\..*): wrong\n  eager (.*?)  \S+ (.*)$", printed, re.MULTILINE)
    if apart:
        return f"{apart[2]} {apart[3]}", f"{apart[1]} {apart[4]}"
    apart = re.search(r"^  eager: (.*?)  \S+: (.*)$", printed, re.MULTILINE)
    if apart:
        return apart[1].strip(), apart[2].strip()
    told = re.search(r"^([^:\n]+): eager gives (.*?)^\1: \S+ (.*?)(?=^\S[^:\n]*: eager gives|\Z)", printed, re.M | re.S)
    if told:
        return told[2].strip(), re.sub(r"\n?FAULT\s*$", "", told[3]).strip()[:_QUOTED]
    return "", ""


def plain(script: str) -> str:
    """The model, the operands and the runtime's call of the first case of a script, which prints both results.

    The whole script where its operands cross into the runtime as other dtypes.
    """
    tree, lines = ast.parse(script), script.splitlines()
    cases = next(node.value for node in tree.body if "CASES" in _defined(node))
    case = cases.values[0] if isinstance(cases, ast.Dict) else None
    if not isinstance(case, ast.Tuple) or "class Boundary" in script:
        return script
    model, fresh = (ast.unparse(each) for each in case.elts)
    kept, names = _needed(tree.body, {"run", *_names(case)})
    text = ""
    before: ast.stmt | None = None
    for node in kept:
        block = isinstance(node, ast.ClassDef | ast.FunctionDef)
        text += (
            "" if before is None else "\n\n" if block or isinstance(before, ast.ClassDef | ast.FunctionDef) else "\n"
        )
        text += _source(node, lines, names)
        before = node
    return f"""{text}

fresh = {fresh}
torch.set_printoptions(precision=17)
print("expected", {model}().eval()(*fresh()))
print("actual", run({model}().eval(), fresh))
"""


def _defined(node: ast.stmt) -> list[str]:
    """The names that a statement binds, of an attribute the name before it."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [*map(_bound, node.names)]
    targets = node.targets if isinstance(node, ast.Assign) else []
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
