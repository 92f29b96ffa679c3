"""A script for two versions of one platform, which is run in the environment of each.

Such a script holds what each version gave. It runs the platform only, and finds which of the two the result is like.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mindgap.findings.reduction.reproducer import (
    CRASH_LIMIT_S,
    Array,
    Reproducer,
    Shown,
    VersionRun,
    is_the_failure,
    run_alone,
    short_forms,
    stable_part,
    title_of,
)
from mindgap.findings.script.form import RAISED, NoShortScript, script_source
from mindgap.findings.script.script_platform import ScriptPlatform, TwoResults, packages_of
from mindgap.findings.script.short import ShownCase
from mindgap.graph import Graph
from mindgap.platforms.name import PlatformName
from mindgap.results.rows import Row

#: Characters of the line with versions.
_FIRST: Final = 300
#: What the exit status of a script means.
_SHOWN: Final[Mapping[int, Shown]] = {0: "no fault", 1: "fault"}


@dataclass(frozen=True, slots=True)
class Version:
    """One of two versions of a platform. `platform`: its name, with the environment. `runs_on`: as a script runs it.

    `words`: the packages of which the two have different versions: `torch 2.14.1`. `outputs`: what it gave, empty where
    one of the two fails.
    """

    platform: PlatformName
    runs_on: ScriptPlatform
    words: str
    outputs: Sequence[Array] = ()


def are_versions(one: ScriptPlatform, other: ScriptPlatform) -> bool:
    """Whether the two are one platform, in two environments or on two machines."""
    return (one.python, one.host) != (other.python, other.host) and one.name == other.name


def version_words(script_platform: ScriptPlatform, other: ScriptPlatform) -> str:
    """The packages of a platform that another version of it has in another version, with Python where it is all; and
    the processor, where one of the two is emulated."""
    mine, theirs = script_platform.versions or {}, other.versions or {}
    place = "another environment"
    if script_platform.execution != other.execution:
        place = script_platform.execution.partition(",")[0] or platform.machine()
    elif script_platform.host or other.host:
        place = f"host {script_platform.host}" if script_platform.host else "this machine"
    for names in (packages_of(script_platform.device_mode), ("python",)):
        versions = [f"{name} {mine[name]}" for name in names if name in mine and mine[name] != theirs.get(name)]
        if versions:
            words = ", ".join(versions).replace("python", "Python")
            return words if script_platform.execution == other.execution else f"{words} on {place}"
    return place


def version_reproducer(
    graph: Graph, inputs: Sequence[Array], faulty: Version, expected: Version, row: Row, limit_s: float = CRASH_LIMIT_S
) -> Reproducer:
    """A script that runs in the environments of two versions of one platform, and shows the fault in one of them.

    Where none of them does, the first that was tried, not verified; without text where there is no short form. `row`:
    of this graph; no verdict where the version at fault refuses it.
    """
    title = _title(graph, row, faulty)
    two = TwoResults(expected.words, faulty.words, expected.outputs, faulty.outputs, expected.runs_on)
    made = Reproducer("", False, "", title=title, reason="the version at fault does not fail in a script")
    try:
        for form in short_forms([ShownCase("smallest", graph, inputs)], faulty.runs_on, row, limit_s, title, two):
            text = script_source(form)
            if form.kind == "fails":
                _, printed, _ = run_alone(text, faulty.runs_on.python, faulty.runs_on.host)
                raised = re.search(rf"{RAISED} (\w+) ([\s\S]*)", printed)
                if raised is None:
                    continue
                text = script_source(replace(form, failure=(raised[1], stable_part(raised[2]))))
            tried = replace(_run_in_both(text, faulty, expected), title=title)
            if tried.verified and is_the_failure(tried.printed, row):
                return tried
            made = made if made.text else replace(tried, verified=False)
    except NoShortScript as none:
        made = replace(made, reason=str(none))
    return made


def _run_in_both(text: str, faulty: Version, expected: Version) -> Reproducer:
    """Runs a script with the version at fault, twice where it shows the fault, and with the other one."""
    first, printed, _ = run_alone(text, faulty.runs_on.python, faulty.runs_on.host)
    status = first
    if first == 1:
        status, printed, _ = run_alone(text, faulty.runs_on.python, faulty.runs_on.host)
    right, other, _ = run_alone(text, expected.runs_on.python, expected.runs_on.host)
    results = ((faulty, status if status == first else 2, printed), (expected, right, other))
    runs = tuple(VersionRun(one.platform, _SHOWN.get(end, "could not be checked"), out.partition("\n")[0][:_FIRST], out)
                 for one, end, out in results)  # fmt: skip
    return Reproducer(text, (first, status, right) == (1, 1, 0), printed, runs)


def _title(graph: Graph, row: Row, faulty: Version) -> str:
    """The title of a change between two versions: it names the version at fault instead of a side."""
    _, _, rest = title_of(graph, row).partition(": ")
    return f"{faulty.runs_on.name} of {faulty.words}: {rest}"
