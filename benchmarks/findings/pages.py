"""Writes the page of a listed cause: what a maintainer needs, and a text ready to file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from facts import DECIDED, Facts

from mindgap.findings.causes import Cause

#: What a user gets -> how a report says it.
_GETS: Final = {
    "values": "wrong values", "special values": "NaN or infinity where it does not belong, or none where it does",
    "shape": "another shape or dtype", "precision": "fewer correct bits than the dtype has", "failure": "a failure",
    "crash": "the end of the process", "hang": "no end",
}  # fmt: skip


def page_of(cause: Cause, facts: Facts, runs: Mapping[str, Any], directory: Path) -> str:
    """The page in Markdown. `runs`: what its scripts printed (`runs.json`)."""
    script = directory / cause.findings[0].script
    known = cause.upstream
    upstream = "not looked up" if known is None else known.link or "looked for, not found"
    note = "" if known is None else known.note
    lines = [
        f"# {cause.title}",
        "",
        f"| | |\n|---|---|\n| severity | {cause.severity}: {cause.severity_reason} |",
        f"| what a user gets | {_GETS[cause.damage]}{f'; {facts.error}' if facts.error else ''} |",
        f"| condition | {cause.condition} |",
        *([f"| right for | {cause.right_for} |"] if cause.right_for else []),
        f"| public functions | {', '.join(f'`{name}`' for name in facts.functions)} |",
        f"| models that meet it | {cause.uses or 'not counted'} |",
        f"| stage | {cause.stage} |",
        *([f"| kernel or simulator | {DECIDED[facts.decided]} |"] if facts.decided else []),
        *([f"| on hardware | {on_hardware(runs)} |"] if runs.get("hardware") else []),
        f"| platform | {', '.join(f'`{name}`' for name in cause.platforms)} |",
        f"| versions | {_versions(cause, runs)} |",
        f"| upstream | {upstream} |",
        *([f"| found | {facts.found} |"] if facts.found else []),
        "",
        *_section("Mechanism", [cause.mechanism]),
        *_section("Evidence for the stage", [f"- {text}" for text in cause.stage_evidence]),
        *_section("The same cause", [f"- {text}" for text in cause.merged]),
        *_section("What is known", [text for text in (facts.known, note) if text]),
        "## Reproducers",
        "",
        f"[{script.name}]({script.name}) imports torch and the runtime only. It prints:",
        "",
        *_block(runs.get("printed", "")),
        *_second(runs),
        *_native(facts, runs),
        "## Text to file",
        "",
        "````markdown",
        *_report(cause, facts, runs, script),
        "````",
    ]
    return "\n".join(lines).rstrip() + "\n"


def on_hardware(runs: Mapping[str, Any]) -> str:
    """What the scripts answered on the devices themselves, of a target that is simulated or emulated here."""
    said: list[str] = []
    for device, found in runs["hardware"].items():
        answers = [*found["answers"], *found.get("native_answers", [])]
        count = f"{answers.count('fault')} of {len(answers)} runs"
        first = next(iter(found["printed"].splitlines()), "nothing printed")
        said.append(f"{device}: the fault in {count}, with {first}")
    return "; ".join(said)


def versions_text(answers: Mapping[str, str], package: str) -> str:
    """The first and the last version of a package in which a script showed its fault, and those in which it did not.

    `answers`: the line of versions that the script printed -> its answer.
    """
    found = {_version(line, package): answer for line, answer in answers.items() if _version(line, package)}
    there = sorted((version for version, answer in found.items() if answer.startswith("fault")), key=_order)
    gone = sorted((version for version, answer in found.items() if answer == "no fault"), key=_order)
    text = f"{package} {there[0]}" + (f" to {there[-1]}" if len(there) > 1 else "") if there else ""
    return text + (f"; not in {', '.join(gone)}" if gone else "")


def _version(line: str, package: str) -> str:
    found = re.search(rf"(?:^|, ){re.escape(package)} ([^, ]+)", line)
    return found[1] if found else ""


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def _versions(cause: Cause, runs: Mapping[str, Any]) -> str:
    first = next(iter(str(runs.get("printed", "")).splitlines()), "")
    return "; ".join([*cause.versions, f"run with {first}" if first else "not run"])


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [f"## {title}", "", *lines, ""] if any(lines) else []


def _block(text: str) -> list[str]:
    return ["```", text.strip() or "(not run)", "```", ""]


def _second(runs: Mapping[str, Any]) -> list[str]:
    """What the second process of a script did, where both were recorded."""
    answers = runs.get("answers", [])
    if len(answers) < 2:
        return []
    if "printed_again" not in runs:
        return [f"A second process printed the same ({answers[1]}).", ""]
    return [f"A second process ({answers[1]}) printed:", "", *_block(runs["printed_again"])]


def _native(facts: Facts, runs: Mapping[str, Any]) -> list[str]:
    if not facts.native:
        reason = facts.native_reason or "none was made"
        return [f"No reproducer in the runtime's own format: {reason.rstrip('.')}.", ""]
    first = f"[{facts.native}]({facts.native}) is in the runtime's own format. It prints:"
    return [first, "", *_block(runs.get("native_printed", ""))]


def _report(cause: Cause, facts: Facts, runs: Mapping[str, Any], script: Path) -> list[str]:
    """The text for an issue tracker: the reproducer in the runtime's own format where there is one."""
    file = script.parent / facts.native if facts.native else script
    printed = runs.get("native_printed" if facts.native else "printed", "")
    _, _, title = cause.title.partition(": ")
    return [
        f"**{title}**",
        "",
        f"It happens for: {cause.condition}." + (f" Right for: {cause.right_for}." if cause.right_for else ""),
        *(["", cause.mechanism] if cause.mechanism else []),
        "",
        "To reproduce:" if not facts.native else "To reproduce, without PyTorch's exporter:",
        "",
        "```python",
        file.read_text(encoding="utf-8").rstrip(),
        "```",
        "",
        "It prints:",
        "",
        *_block(printed),
    ]
