"""Defines the form of a short script and writes the script: what is particular to a fault, within a common frame.

Particular are the title, the module classes, the cases and what they show. A *case* is a module class and the operands
that it is run with, such as the smallest ones and ones of ordinary size. Each case must show the fault by itself.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal

from mindgap.findings.script.frame import (
    BOUNDARY,
    DIAGNOSED,
    END,
    EXACT,
    FLAT,
    FLAT_VALUES,
    HOOK,
    MAIN_CRASHES,
    MAIN_FAILS,
    MAIN_HANGS,
    MAIN_SHAPE,
    MAIN_VERSION,
    MAIN_WRONG,
    WIDE,
    Compare,
    error_source,
    versions_source,
)
from mindgap.findings.script.script_platform import ScriptPlatform, runner_of
from mindgap.graph import MindgapError
from mindgap.platforms.script_runner import ScriptRunner, parsed

#: The side that is wrong.
Wrong = Literal["platform", "reference", "undecided"]
#: What a script shows: wrong values, another shape or dtype, an exception, a process that a signal ends or that does
#: not end.
Kind = Literal["wrong", "shape", "fails", "crashes", "hangs"]
#: The last line of a script that shows the fault; the last line of one that does not.
FAULT: Final = "FAULT"
NO_FAULT: Final = "NO FAULT"
#: What a script prints before the type and the message of an exception that it does not know.
RAISED: Final = "raised:"

#: Constants of a case part, besides `CASES`.
_DECLARED: Final = ("FAILURE", "SIGNAL", "COMPARE", "EXACT", "LIMIT_S")
_MAINS: Final[Mapping[Kind, str]] = {
    "wrong": MAIN_WRONG, "shape": MAIN_SHAPE, "fails": MAIN_FAILS, "crashes": MAIN_CRASHES, "hangs": MAIN_HANGS
}  # fmt: skip
#: Statements with an empty line before and after them.
_BLOCKS: Final = (ast.ClassDef, ast.FunctionDef)
#: What the runners of JAX and onnxruntime-web define besides `run`.
_RUNNER_NAMES: Final = ("packet", "original", "torchax", "loaded", "Net", "PROGRAM", "PAGE", "SOFTWARE", "Server")
#: What the frame defines behind the head of a script.
_FRAME: Final = "\n".join([*_MAINS.values(), BOUNDARY, FLAT, WIDE])
_FRAME_NAMES: Final = frozenset(
    [*re.findall(r"^(?:def |class )?(\w+)(?: =|\(|:)", _FRAME, re.MULTILINE), "run", "off", "log", "PROPERTIES",
     "EXPECTED", "FAULTY", *_RUNNER_NAMES]
)  # fmt: skip
_STANDARD: Final = ("os", "platform", "signal", "subprocess", "tempfile")


class NoShortScript(MindgapError):
    """A fault has no short script. The message is the reason."""


@dataclass(frozen=True, slots=True)
class ScriptForm:
    """What is particular to one script.

    `title`: the first line of its docstring. `facts`: further paragraphs of it, such as the condition. `platform`: what
    runs the model. `cases`: Python source, with the module classes and the dictionary `CASES`: name -> (class,
    function that returns the operands). `kind`: what each case shows.

    Of a wrong result: `wrong`, the side at fault; `compare`, what an error is relative to, `equal` for operators that
    do not round; `exact`: the model runs in float64 too, which is then the measure, else eager PyTorch is.
    Of a failure: `failure`, the exception's type and the stable part of its message; None where they are not known yet:
    such a script prints them and shows nothing.
    Of a crash: `signal`, the signal's name, empty where any of a crash will do. Of a hang: `limit_s`, seconds.

    `bounded`: operands or results have dtypes that numpy does not hold (`BOUNDARY`). `results`: of a script for two
    versions of the platform, the source of `EXPECTED` and `FAULTY`, what each of them gave; the script then runs the
    platform only. `seen`: with what it was seen, by default the versions of `platform`. `runner`:
    where the platform's call can be shorter for these cases.
    """

    title: str
    platform: ScriptPlatform
    cases: str = ""
    kind: Kind = "wrong"
    facts: Sequence[str] = ()
    wrong: Wrong = "platform"
    compare: Compare = "largest"
    exact: bool = True
    failure: tuple[str, str] | None = None
    signal: str = ""
    limit_s: float = 60.0
    bounded: bool = False
    results: str = ""
    seen: str = ""
    runner: ScriptRunner | None = None


def script_runner(platform: ScriptPlatform) -> ScriptRunner:
    """Returns how a script runs the platform. Raises `NoShortScript` where its options have no short form."""
    runner = runner_of(platform)
    if runner is None:
        raise NoShortScript(f"no script can run {platform.name}: it is known to mindgap only, or an option of it is")
    return runner


def script_source(form: ScriptForm) -> str:
    """Returns the script. Raises `NoShortScript` where no script can run the platform."""
    runner = form.runner or script_runner(form.platform)
    main = MAIN_VERSION if form.results and form.kind in ("wrong", "shape") else _MAINS[form.kind]
    body = [
        form.cases.strip("\n"),
        form.results.strip("\n"),
        BOUNDARY.strip("\n") if form.bounded else "",
        runner.run.strip("\n").replace("\n\n\n", "\n\n"),
        error_source(form.compare).strip("\n") if main in (MAIN_WRONG, MAIN_VERSION) else "",
        "\n".join([
            *([FLAT_VALUES if main is MAIN_WRONG else FLAT] if form.kind not in ("crashes", "hangs") else []),
            *([WIDE] if main is MAIN_WRONG and _is_exact(form) else []),
            *([] if form.kind in ("crashes", "hangs") else [versions_source(runner.hardware)]),
            _filled(main, form, runner).strip("\n"),
            END,
        ]),
    ]  # fmt: skip
    head = _head(form, runner, "\n".join(body))
    constants = form.cases and not isinstance(parsed(form.cases).body[0], _BLOCKS)
    return head + "\n" * (1 if constants else 2) + "\n\n".join(each for each in body if each) + "\n"


def case_part(script: str) -> str:
    """Returns the case part of a script: its module classes, `CASES`, and what else is particular to the fault.

    `script`: a whole script, or a case part alone. Raises `ValueError` where there are no cases.
    """
    body = parsed(script).body
    heads = [index for index, node in enumerate(body) if "PACKAGES" in _defines(node)]
    nodes = [node for node in body[heads[0] + 1 if heads else 0 :] if not _is_frame(node)]
    if not any("CASES" in _defines(node) for node in nodes):
        raise ValueError("the script has no CASES")
    lines = script.splitlines()
    text = ""
    for node, before in zip(nodes, [None, *nodes], strict=False):
        apart = isinstance(node, _BLOCKS) or isinstance(before, _BLOCKS) or "CASES" in _defines(node)
        text += "" if before is None else "\n\n" if apart else "\n"
        text += "\n".join(lines[node.lineno - 1 : node.end_lineno])
    return text + "\n"


def _defines(node: ast.stmt) -> tuple[str, ...]:
    if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        return (node.name,)
    targets = node.targets if isinstance(node, ast.Assign) else []
    names = [each for one in targets for each in (one.elts if isinstance(one, ast.Tuple) else [one])]
    return tuple(map(ast.unparse, names))


def _is_frame(node: ast.stmt) -> bool:
    """Whether a statement behind the head of a script is of its frame: a name of it, or neither name nor import."""
    names = _defines(node)
    if not names:
        return not isinstance(node, (ast.Import, ast.ImportFrom))
    return any(name.partition(".")[0] in _FRAME_NAMES for name in names)


def declared(cases: str) -> dict[str, object]:
    """Returns the constants that a case part sets besides `CASES`: `FAILURE`, `SIGNAL`, `COMPARE`, `EXACT`, …"""
    names: dict[str, object] = {}
    for node in parsed(cases).body:
        if isinstance(node, ast.Assign) and set(_defines(node)) & set(_DECLARED):
            names[_defines(node)[0]] = ast.literal_eval(node.value)
    return names


def versions_of(platform: ScriptPlatform) -> dict[str, str]:
    """Returns the versions of torch and of the runtime's packages, as a script prints them."""
    runner = runner_of(platform)
    names = ["torch", *(runner.packages if runner is not None else ())]
    if platform.versions is not None:
        given = {name.replace("_", "-"): text for name, text in platform.versions.items()}
        return {name: given[name.replace("_", "-")] for name in names if name.replace("_", "-") in given}
    versions = {name: _version(name) for name in names}
    return {name: text for name, text in versions.items() if text}


def processor() -> str:
    """Returns the processor's name, empty where the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return ""
    match = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return match[1].strip() if match else ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _head(form: ScriptForm, runner: ScriptRunner, body: str) -> str:
    """The docstring, the imports and the constants."""
    seen = form.seen or ", ".join(f"{name} {text}" for name, text in versions_of(form.platform).items())
    facts = "".join(f"{text}\n" for text in form.facts if text)
    if form.platform.execution:
        facts += f"{form.platform.name} was not run by hardware ({form.platform.execution}).\n"
    facts += environment_words(form.platform)
    if form.platform.host:
        facts += f"It must run on host {form.platform.host}: another machine may not show it.\n\n"
    lines = [
        f'"""{form.title}\n\n{facts}Seen with {seen}.\n'
        'Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""',
    ]
    own = [text for text in runner.imports if text.split()[1].partition(".")[0] in sys.stdlib_module_names]
    standard = {f"import {name}" for name in _STANDARD if re.search(rf"\b{name}\.", body)}
    standard |= {*own, "import sys"}
    standard |= {"import os"} if form.platform.environment else set()
    plain = sorted(text.removeprefix("import ") for text in standard if text.startswith("import "))
    lines += [f"import {', '.join(plain)}", *sorted(text for text in standard if text.startswith("from "))]
    lines += ["from importlib.metadata import version"]
    if re.search(r"\b(inf|nan)\b", re.sub(r"\b(?:torch|math|np|float)[.(]\W?(?:inf|nan)\b", "", form.cases)):
        lines += ["from math import inf, nan"]
    lines += [HOOK]
    if form.platform.environment:
        lines += [f"os.environ.update({dict(form.platform.environment)!r})  # before PyTorch is imported"]
    # PyTorch first, as users of these runtimes import it.
    others = ["import torch", *(text for text in runner.imports if text not in own)]
    together = [text.removeprefix("import ") for text in others if text.startswith("import ")]
    lines += [f"import {', '.join(together)}", *(text for text in others if text.startswith("from "))]
    lines += [f"PACKAGES = {('torch', *runner.packages)!r}"]
    lines += [f"PROPERTIES = {dict(runner.properties)!r}"] if "PROPERTIES" in runner.run else []
    constants: dict[str, object] = {"LIMIT_S": max(1, round(form.limit_s))} if form.kind in ("crashes", "hangs") else {}
    if form.kind == "fails":
        constants["FAILURE"] = form.failure or ("not known yet", "")
    if form.kind == "crashes":
        constants["SIGNAL"] = form.signal
    given = declared(form.cases)
    lines += [f"{name} = {value!r}" for name, value in constants.items() if name not in given]
    return "\n".join(lines)


def environment_words(platform: ScriptPlatform) -> str:
    """How a reader without such a processor makes the environment of an emulated one; empty for another platform."""
    if not platform.made_by:
        return ""
    python = Path(platform.python)
    shown = f"~/{python.relative_to(Path.home())}" if python.is_relative_to(Path.home()) else python
    return (
        f"On another machine, mindgap makes an environment with {platform.execution}, whose interpreter runs this "
        f"script:\n\n    {platform.made_by}\n    {shown} SCRIPT.py\n\n"
    )


def _is_exact(form: ScriptForm) -> bool:
    """Whether the model runs in float64 too."""
    return form.exact and form.compare != "equal"


def _filled(main: str, form: ScriptForm, runner: ScriptRunner) -> str:
    """The statements behind the functions, for one form."""
    run = "run(Model().eval(), fresh)"
    if form.bounded:
        run = "run(Boundary(Model(), fresh()).eval(), lambda: tuple(map(plain, fresh())))"
        if form.kind in ("wrong", "shape"):
            run = f"[*map(convert, {run}, [each.dtype for each in eager])]"
    if form.kind == "wrong":
        exact, reference = _is_exact(form), form.wrong == "reference"
        mine, other, right = ("e", "a", "x") if reference and _is_exact(form) else ("a", "e", "x")
        eps = "torch.finfo(torch.result_type(e, 1.0)).eps"
        limited = f"max(off({other}, x).max().item(), {eps})"
        if form.wrong == "undecided" or not exact:
            right, limited = "e", eps
        for old, new in () if exact else EXACT:
            main = main.replace(old, new)
        main = main.replace("LIMITED", limited)
        main = main.replace("MINE", mine).replace("RIGHT", right)
    if form.kind == "fails" and runner.diagnostics:
        for old, new in DIAGNOSED:
            main = main.replace(old, new)
    if form.kind in ("crashes", "hangs"):
        main = main.replace("fault = False\n", f"{versions_source(runner.hardware)}\nfault = False\n")
    return main.replace("RUN", run).replace("PLATFORM", form.platform.name)
