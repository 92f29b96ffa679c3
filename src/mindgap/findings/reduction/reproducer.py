"""A short script that shows a finding without mindgap, run before it is shown; and a report for an issue tracker."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from mindgap.findings.reduction.stage import StageAtFault
from mindgap.findings.script.form import FAULT, RAISED, Kind, NoShortScript, ScriptForm, script_source
from mindgap.findings.script.frame import Compare
from mindgap.findings.script.script_platform import ScriptPlatform, TwoResults
from mindgap.findings.script.short import ShownCase, with_cases
from mindgap.graph import Graph
from mindgap.graph.operators import traits
from mindgap.platforms.environments import HostProblem, find_host
from mindgap.platforms.environments.host_connection import run_script_there
from mindgap.platforms.name import PlatformName
from mindgap.results.rows import Row

Array = np.ndarray[Any, np.dtype[Any]]

#: How often a script must show the fault, each time in a new process.
RUNS: Final = 2
#: The share of a message's words that another report of the same failure has at least.
_COMMON: Final = 0.3
#: Longer than a short script's own limit for a platform that crashes.
_TIMEOUT_S: Final = 400.0
#: Characters that are kept of what a reproducer prints.
PRINTED: Final = 8000
#: Seconds that a short script gives a platform that crashes.
CRASH_LIMIT_S: Final = 150.0
#: Status of an outcome whose process did not end by itself -> what the short script looks for.
ENDS: Final[Mapping[str, Kind]] = {"timeout": "hangs", "crash": "crashes"}
#: Characters of a message that a script looks for, at least and at most.
_SHORTEST: Final = 8
_LONGEST: Final = 90
#: A warning as Python prints it, and the line of code below.
_WARNING: Final = re.compile(r"^.*: \w*Warning: .*\n?(?:^ +\S.*\n?)?", re.MULTILINE)
#: What is not stable in a message: numbers, addresses, paths, quoted names, and names of nodes that a number ends.
_UNSTABLE: Final = re.compile(
    r"""0x[0-9a-fA-F]+|[\w./-]*/[\w./-]+|\w*\d[\w.]*|[\r\n]+|<[^>]*>|\[[^\]]*\]|"[^"]*"|'[^']*'"""
)
#: Runs a file as a program in which mindgap cannot be imported.
_WITHOUT_MINDGAP: Final = (
    "import runpy, sys; sys.modules['mindgap'] = None; sys.argv = sys.argv[1:]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


#: How Python reports an exception that ends a program.
_UNCAUGHT: Final = re.compile(
    r'^Traceback \(most recent call last\):\n  File "[^"]+", line \d+, in <module>', re.MULTILINE
)
_SIGNAL: Final = re.compile(r"\bkilled by (SIG[A-Z]+)\b")
#: What the exit status of a script means.
Shown = Literal["fault", "no fault", "could not be checked"]


@dataclass(frozen=True, slots=True)
class VersionRun:
    """One run of a script in the environment of one version. `platform`: the name of the platform of that version.

    `versions`: the first line that it printed. `printed`: all of it, at most 8,000 characters.
    """

    platform: PlatformName
    shown: Shown
    versions: str
    printed: str


@dataclass(frozen=True, slots=True)
class Reproducer:
    """What shows a finding: a short script, or where there is none a model file, which mindgap runs.

    `text`: the script; empty: there is none, for the reason `reason`. `command`: of a model file, the arguments of
    mindgap that follow the file's name (`model_file.py`). `verified`: it showed the finding, a script each of two times
    in a process without mindgap. `printed`: what it printed the last time, at most 8,000 characters. `runs`: of a
    script for two versions of a platform, what it did in the environment of each, the one at fault first; it is then
    verified where it showed the fault in that one, and none in the other. `title`: of such a script.
    """

    text: str
    verified: bool
    printed: str
    runs: tuple[VersionRun, ...] = ()
    title: str = ""
    reason: str = ""
    command: tuple[str, ...] = ()


def short_reproducer(
    graph: Graph, inputs: Sequence[Array], platform: ScriptPlatform, reference: ScriptPlatform, row: Row,
    limit_s: float = CRASH_LIMIT_S, natural: Sequence[ShownCase] = (),
) -> Reproducer:  # fmt: skip
    """The short script that shows the fault, verified; without text where there is none.

    `row`: of this graph, as it was judged; its platform and verdict are named in the script. `limit_s`: of a crash or
    a hang: seconds that the short script gives the platform. `natural`: further cases that show it, of ordinary size.
    """
    if reference.device_mode != "cpu/eager" or reference.options:
        reason = f"a script compares with eager PyTorch, and the reference here is {reference.name}"
        return Reproducer("", False, "", reason=reason)
    reason, printed = "", ""
    shown = (ShownCase("smallest", graph, inputs), *natural)
    # Without the case of ordinary size where that one does not show the fault outside mindgap.
    for cases in (shown, shown[:1]) if natural else (shown,):
        try:
            for form in short_forms(cases, platform, row, limit_s):
                made = verified_script(form, row)
                if made.verified:
                    return made
                reason, printed = made.reason, made.printed
        except NoShortScript as none:
            reason = str(none)
    return Reproducer("", False, printed, reason=reason)


def short_forms(
    cases: Sequence[ShownCase], platform: ScriptPlatform, row: Row, limit_s: float, title: str = "",
    two: TwoResults | None = None,
) -> Iterator[ScriptForm]:  # fmt: skip
    """Yields the forms of a script that may show what `row` found, the plainest first. `two`: for two versions.

    Raises `NoShortScript` where there is none at all.
    """
    # A failure may end the process where the user's exporter wrote the model.
    kinds: tuple[Kind, ...] = ("shape",) if row.verdict == "structural" else ("wrong",)
    if row.verdict in ("failed", None):
        kinds = (ENDS[row.status],) if row.status in ENDS else ("fails", "crashes")
    graph = cases[0].graph
    none: NoShortScript | None = None
    count = 0
    for kind, compare, held, public in itertools.product(kinds, _comparisons(graph, row), (False, True), (True, False)):
        form = ScriptForm(
            title or title_of(graph, row), platform, kind=kind, wrong=row.blame or "undecided", compare=compare,
            limit_s=limit_s,
        )  # fmt: skip
        try:
            form = with_cases(form, cases, public=public, held=held, two=two)
        except NoShortScript as error:
            none = none or error
            continue
        count += 1
        yield form
    if none is not None and not count:
        raise none


def verified_script(form: ScriptForm, row: Row) -> Reproducer:
    """The script of a form with its signature, run in fresh processes: verified where it shows what `row` found.

    Of a failure the script runs once without a signature. The type and the stable part of the message that it prints
    are its signature, if they are those of the row.
    """
    if form.kind == "fails" and form.failure is None:
        _, printed, errors = run_alone(script_source(form), form.platform.python, form.platform.host)
        raised = re.search(rf"{RAISED} (\w+) ([\s\S]*)", printed)
        if raised is None or not is_the_failure(printed + errors, row):
            return Reproducer("", False, printed, reason=_reason(printed))
        form = replace(form, failure=(raised[1], stable_part(raised[2])))
    text = script_source(form)
    shown, printed, errors = verify(text, form.platform.python, form.platform.host)
    # A compiler reports what is wrong on standard error, and raises an exception that does not repeat it.
    shows = (form.kind in ("crashes", "hangs") and row.status != "crash") or is_the_failure(printed + errors, row)
    if shown and printed.rstrip().endswith(f"\n{FAULT}") and shows and every_case_shows(printed):
        return Reproducer(text, True, printed)
    return Reproducer("", False, printed, reason=_reason(printed))


def every_case_shows(printed: str) -> bool:
    """Whether no case of a script that shows its fault is without it, by what the script printed."""
    cases: dict[str, bool] = {}
    for name, line in re.findall(r"^(\S[^:,\n]*), output \d+: (.*)$", printed, re.MULTILINE):
        cases[name] = cases.get(name, False) or line.endswith(": wrong")
    runs = re.search(r"^[^:\n]+: \S+ runs it$", printed, re.MULTILINE)
    return all(cases.values()) and runs is None


def _reason(printed: str) -> str:
    """Why a script shows nothing, with the last line that it printed."""
    last = next(iter(printed.strip().splitlines()[-1:]), "it printed nothing")
    return f"run without mindgap, a script of it does not show the finding: {last[:200]}"


def stable_part(message: str) -> str:
    """The longest part of a message without numbers, paths and quoted names, at most 90 characters; "" without one.

    Python's warnings are no part of it: they are printed where nothing fails too.
    """
    text = _WARNING.sub("", message.partition("\nIt is another failure")[0])
    parts = [part.strip(" :.,;()=") for part in _UNSTABLE.split(text)]
    longest = max(parts, key=len, default="")[:_LONGEST].strip()
    return longest if len(longest) >= _SHORTEST else ""


def _comparisons(graph: Graph, row: Row) -> tuple[Compare, ...]:
    """How short scripts of a finding may compare. The error of a small element among large ones shows only relative
    to that element; that of a cast, which is rounded once, only in whether it is equal."""
    if row.verdict != "discrepant":
        return ("largest",)
    known = [traits(node.op) for node in graph.nodes]
    exact = all(each.casts or each.moves_data or each.hands_on or each.depends_on_dtype for each in known)
    return ("largest", "element", "equal") if exact and row.blame != "reference" else ("largest", "element")


def is_the_failure(printed: str, row: Row) -> bool:
    """Whether a script failed in words of the recorded message. True for rows that are no failure.

    A script may fail for another reason, such as an input that the runtime's call does not take. Of a signal the
    name counts: what a library prints before it ends depends on the program around it.
    """
    if row.verdict != "failed":
        return True
    killed = _SIGNAL.search(row.message) if row.status == "crash" else None
    if killed:
        return killed[1] in printed
    recorded, shown = _words(row.message), _words(printed)
    return not recorded or len(recorded & shown) >= _COMMON * min(len(recorded), len(shown))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]{4,}", text))


def verify(text: str, python: str = "", host: str = "") -> tuple[bool, str, str]:
    """Whether the script ends with status 1 in each of two fresh processes without mindgap, and what it printed.

    That is what it printed the last time, on standard output and on standard error.

    `python`: the interpreter, empty for this one. `host`: the name of the host to run it on, empty for this machine.
    """
    printed = errors = ""
    for _ in range(RUNS):
        status, printed, errors = run_alone(text, python, host)
        if status != 1:
            return False, printed, errors
    return True, printed, errors


def run_alone(text: str, python: str, host: str = "") -> tuple[int, str, str]:
    """Runs a script in a fresh process without mindgap. Returns its exit status, 2 where the script itself did not tell
    it, and what it printed on standard output and on standard error. A host that cannot run it is such an end."""
    if host:
        try:
            result = run_script_there(find_host(host), text, _WITHOUT_MINDGAP, _TIMEOUT_S)
        except HostProblem as problem:
            result = 2, str(problem), ""
        return _script_result(*result)
    with tempfile.TemporaryDirectory(prefix="mindgap-") as folder:
        file = Path(folder, "reproducer.py")
        file.write_text(text)
        command = [python or sys.executable, "-c", _WITHOUT_MINDGAP, str(file)]
        status, printed, errors = run_script(command, folder)
    return _script_result(status, printed, errors)


def _script_result(status: int, printed: str, errors: str) -> tuple[int, str, str]:
    if status == 0 or says_fault(status, printed, errors) or (status == 1 and not _UNCAUGHT.search(errors)):
        return status, printed[-PRINTED:], errors[-PRINTED:]
    return 2, (printed + errors)[-PRINTED:], errors[-PRINTED:]


def says_fault(status: int, printed: str, errors: str) -> bool:
    """Whether a short script shows its fault: status 1, and the last line has it. An exception ends with 1 as well."""
    return status == 1 and printed.splitlines()[-1:] == [FAULT] and not _UNCAUGHT.search(errors)


def run_script(command: Sequence[str], folder: str, timeout_s: float = _TIMEOUT_S) -> tuple[int, str, str]:
    """Runs a program: exit status, standard output, standard error. One that hangs is ended with its children.

    Raises `OSError` where it cannot be started.
    """
    child = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, err = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return -signal.SIGKILL, f"no end within {timeout_s:.0f} s", ""
    return child.returncode, out, err


def title_of(graph: Graph, row: Row) -> str:
    """One line: the side at fault, the operators, their dtype, and what happens."""
    ops = row.culprit.op if row.culprit is not None and row.culprit.op else "+".join(node.op for node in graph.nodes)
    if row.verdict == "failed" and len(graph.nodes) == 1:
        ops = graph.nodes[0].op
    dtypes = sorted({given.spec.dtype for given in graph.inputs})
    what = HAPPENS.get(row.word, row.word)
    return f"{side_at_fault(row)}: {ops} of {', '.join(dtypes) or 'no inputs'}: {what}"


def side_at_fault(row: Row) -> str:
    """The side that a title names: eager PyTorch where the reference is wrong."""
    return "eager PyTorch" if row.blame == "reference" else row.platform


#: What a finding of each verdict does, in a title.
HAPPENS: Final = {
    "failed": "fails",
    "structural": "gives another shape or dtype",
    "exceptional": "gives NaN or infinity, or loses it",
    "discrepant": "gives a wrong result",
    "reduced_precision": "computes in less precision than its dtype",
    "reference_failed": "eager PyTorch fails",
    "unsupported": "is refused",
}


def verified_text(verified: bool, *, both: bool = False, script: bool = True) -> str:
    """One line: whether a reproducer has shown its fault. `both`: it is for two versions of a platform. `script`: it is
    one, and no model file."""
    if not script:
        return (
            "Verified: mindgap ran the model file, and found the same"
            if verified
            else "NOT VERIFIED: it is not found again"
        )
    if both:
        shown = "shows the fault twice with one version, and none with the other, without mindgap"
        return f"Verified: {shown}" if verified else "NOT VERIFIED: it does not tell the two versions apart"
    return "Verified: ran twice in fresh processes without mindgap" if verified else "NOT VERIFIED outside mindgap"


def _both(runs: Sequence[VersionRun]) -> list[str]:
    """What a script did in the environments of two versions, as a table."""
    if not runs:
        return []
    rows = [f"| {run.platform} | {run.versions} | {run.shown} |" for run in runs]
    return ["## In both versions", "", "| platform | versions | the script shows |", "|---|---|---|", *rows, ""]


def report(
    graph: Graph, row: Row, made: Reproducer, stage: StageAtFault, seen: str = "", command: str = ""
) -> str:  # fmt: skip
    """A Markdown report for an issue tracker. `seen`: how often and where the finding was met. `command`: what runs the
    model file, where there is no script."""
    wrong = {"platform": row.platform, "reference": "eager PyTorch"}.get(row.blame or "", "undecided")
    if made.runs and wrong != "undecided":
        wrong = made.runs[0].platform
    lines = [
        f"# {made.title or title_of(graph, row)}",
        "",
        f"- Wrong side: {wrong}",
        f"- Verdict: {row.word}" + (f" ({row.detail})" if row.detail else ""),
        f"- Operators: {', '.join(node.op for node in graph.nodes)}",
        f"- Stage at fault: {stage.stage}",
        *(f"  - {sentence}" for sentence in stage.evidence),
        *([f"- Seen: {seen}"] if seen else []),
        f"- {verified_text(made.verified, both=bool(made.runs), script=bool(made.text))}",
        *([] if made.text else [f"- No short script: {made.reason}"]),
        "",
        *_both(made.runs),
        "## To reproduce",
        "",
        "```python" if made.text else "```sh",
        made.text.rstrip() or command,
        "```",
        "",
        "## What it prints",
        "",
        "```",
        made.printed.rstrip(),
        "```",
    ]
    return "\n".join(lines) + "\n"
