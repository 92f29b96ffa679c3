"""Reads what was established of listed causes beyond their reduction, and makes the form of their scripts.

`FOLDER/facts.toml` in the directory of findings has an entry `[[cause]]` for each listed script: title, condition,
neighbours that are right, mechanism, stage with evidence, second reproducer, and which calls of models meet the
condition. Each statement of it was run, or read in the source of the runtime that is named.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.findings.causes import Cause
from mindgap.findings.causes.severity import ConditionUse
from mindgap.findings.script.culprit_script import script_platform_of
from mindgap.findings.script.form import Kind, ScriptForm, case_part, declared, script_runner, versions_of
from mindgap.findings.script.script_platform import ScriptPlatform
from mindgap.graph import MindgapError
from mindgap.platforms.name import recorded
from mindgap.platforms.script_runner import ScriptRunner

FILE: Final = "facts.toml"
#: What decides that a cause on a simulated or emulated target is not a fault of the simulator's or emulator's
#: arithmetic -> how a page says it. `host` decides that it is the simulator's; `open`: nothing decides.
DECIDED: Final = {
    "build": "the maker's compiler or runtime: the model is refused, rewritten or ended before anything is computed",
    "source": "the maker's kernel or lowering: the wrong formula was read in its source, or in the code that it writes",
    "elsewhere": "the maker's compiler or kernel: the same simulator is right for the operator in another shape, form "
    "or place",
    "arithmetic": "the maker's kernel: the operations that it needs are right on the same simulator, also beyond the "
    "limits of the format",
    "code": "the maker's compiler: the code that it generates is wrong as it stands, whatever runs it",
    "host": "the simulator's own code, which reads the inputs: no kernel runs",
    "open": "not decided",
}
_WIDTH: Final = 118


@dataclass(frozen=True, slots=True)
class Uses:
    """Which calls meet the condition: one of `functions`, where the predicate `where` holds."""

    functions: tuple[str, ...] = ()
    where: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """An entry of a facts file.

    `script`: relative to the directory of findings. `title`, `condition`, `right_for`, `mechanism`, `stage`,
    `stage_evidence`, `error`: as in `Cause`. `native`: the file of the second reproducer beside the script;
    `native_reason`: why there is none. `functions`: public functions that users call. `uses`, `values_only`,
    `ordinary_values`: as in `ConditionUse`. `outside`: memory outside a tensor is read. `damage`: what a user gets in
    the case of ordinary size. `known`: what the runtime's documentation or maintainers say. `platform`: what the script
    runs, if it is not the platform of the cause. `package`: the code at fault, whose versions count, if the stage does
    not tell it. `own_call`: the platform's call is shorter in this script than in others, and stays. `decided`: of a
    simulated or emulated target, a key of `DECIDED`; empty for other targets.

    Of an entry that no campaign found (`by_hand.py`): `platform`, `operators`, overloads; `dtypes`, of the inputs;
    `signature`, of a failure its message, of another shape `A becomes B`; `verdict`, by default that of the damage;
    `blame`; `found`, how it was found.
    """

    script: str
    title: str
    condition: str
    stage: str
    damage: str
    right_for: str = ""
    mechanism: str = ""
    stage_evidence: tuple[str, ...] = ()
    native: str = ""
    native_reason: str = ""
    functions: tuple[str, ...] = ()
    uses: Uses = Uses()
    values_only: bool = False
    ordinary_values: bool = False
    outside: bool = False
    error: str = ""
    known: str = ""
    platform: str = ""
    package: str = ""
    own_call: bool = False
    decided: str = ""
    operators: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    signature: str = ""
    verdict: str = ""
    blame: str = "platform"
    found: str = ""

    @property
    def use(self) -> ConditionUse | None:
        """What of the condition can be counted in models."""
        if not self.uses.functions:
            return None
        return ConditionUse(
            self.uses.functions, self.uses.where, self.condition, self.values_only, self.ordinary_values
        )


def read_facts(directory: Path) -> Mapping[str, Facts]:
    """The facts by script. Raises `MindgapError` where an entry has an unknown field or lacks one."""
    found: dict[str, Facts] = {}
    for file in sorted(directory.glob(f"*/{FILE}")):
        for entry in tomllib.loads(file.read_text(encoding="utf-8")).get("cause", []):
            try:
                facts = _facts(entry)
            except TypeError as error:
                raise MindgapError(f"{file}: {entry.get('script')}: {error}") from None
            if facts.decided and facts.decided not in DECIDED:
                raise MindgapError(f"{file}: {facts.script}: decided = {facts.decided!r} is none of {[*DECIDED]}")
            found[facts.script] = facts
    return found


def form_of(cause: Cause, facts: Facts, script: str) -> ScriptForm:
    """The form of a listed script, from its own case part. `script`: its source."""
    cases, name = case_part(script), recorded(facts.platform or cause.findings[0].platform)
    given = declared(cases)
    kind: Kind = (
        "fails" if "FAILURE" in given else "crashes" if "SIGNAL" in given
        else "hangs" if facts.damage == "hang"
        else "shape" if facts.damage == "shape" and "COMPARE" not in given else "wrong"
    )  # fmt: skip
    platform, seen = script_platform_of(name), re.search(r"^Seen with (.+)\.$", script, re.MULTILINE)
    installed = len(versions_of(platform)) > len(script_runner(platform).packages)
    return ScriptForm(
        f"{name.device_mode}: {facts.title}",
        platform,
        cases,
        kind,
        facts=[_paragraph(f"Condition: {facts.condition}.")],
        wrong=cause.blame if cause.blame in ("platform", "reference") else "undecided",  # type: ignore[arg-type]
        compare=given.get("COMPARE", "largest"),  # type: ignore[arg-type]
        exact=bool(given.get("EXACT", True)),
        limit_s=float(str(given.get("LIMIT_S", 150))),
        seen="" if installed or seen is None else seen[1],
        runner=_own_runner(platform, script) if facts.own_call else None,
        bounded=name.device not in ("cpu", "xla") and _needs_boundary(cases),
    )


def _own_runner(platform: ScriptPlatform, script: str) -> ScriptRunner:
    """How the script itself calls the platform: its function `run`, the page that it opens, and its imports."""
    nodes, lines = ast.parse(script).body, script.splitlines()
    kept = [
        "\n".join(lines[node.lineno - 1 : node.end_lineno])
        for node in nodes
        if getattr(node, "name", "") == "run" or ast.unparse(node).startswith("PAGE = ")
    ]
    imports = [
        ast.unparse(ast.ImportFrom(node.module, [each], 0) if isinstance(node, ast.ImportFrom) else ast.Import([each]))
        for node in nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for each in node.names
        if (getattr(node, "module", None) or each.name) not in ("torch", "importlib.metadata", "math", "sys")
    ]
    return replace(script_runner(platform), run="\n\n".join(kept), imports=tuple(imports))


def _paragraph(text: str) -> str:
    """The text in lines, with one full stop where two meet."""
    return "\n".join(textwrap.wrap(re.sub(r"(?<!\.)\.\.(?!\.)", ".", text), _WIDTH, break_long_words=False))


def _facts(entry: Mapping[str, Any]) -> Facts:
    data = dict(entry)
    uses = data.pop("uses", {})
    for name in ("stage_evidence", "functions", "operators", "dtypes"):
        data[name] = tuple(data.get(name, ()))
    return Facts(**data, uses=Uses(tuple(uses.get("functions", ())), uses.get("where", "")))


def _needs_boundary(cases: str) -> bool:
    """Whether an operand or a result of a case, run in eager PyTorch, has a dtype that numpy does not hold."""
    names: dict[str, Any] = {"torch": torch}
    exec("from math import inf, nan", names)
    exec(cases, names)
    for model, fresh in names["CASES"].values():
        found = model().eval()(*fresh())
        values = (*fresh(), *(found if isinstance(found, tuple | list) else (found,)))
        if any(each.is_complex() or str(each.dtype).startswith(("torch.bfloat16", "torch.float8")) for each in values):
            return True
    return False
