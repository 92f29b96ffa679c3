"""Makes the pages of the findings: one of each cause, one of each runtime, and the data of the index.

`python -m mkdocs build` asks for them (`tools/findings_site.py`). None of them is committed: what they show stands in
`facts.toml`, `causes.json`, `counts.json`, `runs.json`, `upstream.toml` and the scripts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from facts import DECIDED
from listing import NATURES, Listed, Totals, read_listing
from text_to_file import text_to_file

from mindgap.findings.causes.cause import SEVERITIES

#: What a user gets -> how a page names it.
GETS: Final = {
    "values": "wrong values", "special values": "NaN or infinity where it does not belong, or none where it does",
    "shape": "another shape or dtype", "precision": "fewer correct bits than the dtype has", "failure": "a failure",
    "crash": "the end of the process", "hang": "no end",
}  # fmt: skip
#: The data of the index, relative to the directory of findings.
INDEX: Final = "findings.json"


def made_files(directory: Path) -> dict[str, str]:
    """All pages and the data of the index: path relative to the directory of findings -> content."""
    listed, totals = read_listing(directory)
    files = {each.page: cause_page(each, totals, directory) for each in listed}
    for folder in sorted({each.folder for each in listed}):
        files[f"{folder}/index.md"] = runtime_page([each for each in listed if each.folder == folder], totals)
    files[INDEX] = json.dumps(index_data(listed, totals), ensure_ascii=False, separators=(",", ":"))
    return files


def index_data(listed: Sequence[Listed], totals: Totals) -> dict[str, Any]:
    """What the index shows and filters, the causes in their order."""
    rows = [
        {
            "runtime": each.runtime, "title": each.title, "severity": each.cause.severity, "nature": each.nature,
            "stage": each.cause.stage, "damage": each.cause.damage, "dtypes": list(each.cause.dtypes),
            "device": _device(each), "upstream": each.upstream,
            "link": each.cause.upstream.link if each.cause.upstream else "",
            "condition": each.cause.condition, "functions": list(each.facts.functions), "zoo": each.counts.zoo,
            "everyday": each.counts.everyday, "bound": each.counts.bound, "page": each.page.removesuffix(".md") + "/",
        }
        for each in listed
    ]  # fmt: skip
    return {"totals": {"zoo": totals.zoo, "everyday": totals.everyday}, "natures": NATURES, "causes": rows}


def _device(each: Listed) -> str:
    """What the scripts ran on: a simulated or emulated target is not the hardware."""
    if not each.facts.decided:
        return "GPU" if each.runtime.startswith("cuda/") else "processor"
    return "simulator and hardware" if each.runs.get("hardware") else "simulator or emulator"


def counts_text(each: Listed, totals: Totals) -> str:
    """How many models and programs meet the condition, in words."""
    counts = each.counts
    if counts.zoo is None:
        return "not counted: no call of an operator shows the condition"
    zoo, everyday = [
        f"{'at most ' if counts.bound and met else ''}{met:,}" for met in (counts.zoo, counts.everyday or 0)
    ]
    words = (
        f"{zoo} of {totals.zoo:,} zoo models ({counts.zoo_calls:,} call the functions), "
        f"{everyday} of {totals.everyday:,} everyday programs ({counts.everyday_calls:,} call them)"
    )
    return words + ("; values of tensors were not counted" if counts.bound else "")


def runtime_page(listed: Sequence[Listed], totals: Totals) -> str:
    """The page of one runtime: its causes in order, by severity and how natural their condition is."""
    name = listed[0].runtime
    lines = [
        f"# Findings: {name}",
        "",
        f"{len(listed)} root causes of `{name}`. Inside a severity, conditions that users meet come first. The counts "
        f"are of {totals.zoo:,} zoo models and {totals.everyday:,} everyday programs "
        "([what they lack](../README.md#how-natural-a-condition-is)). [All runtimes](../README.md).",
        "",
    ]
    for severity in SEVERITIES:
        chosen = [each for each in listed if each.cause.severity == severity]
        if chosen:
            lines += [
                f"## {severity.capitalize()}",
                "",
                "| what happens, and when | condition | stage | zoo | everyday | upstream |",
            ]
            lines += ["|---|---|---|---|---|---|", *map(_row, chosen), ""]
    return "\n".join(lines)


def _row(each: Listed) -> str:
    counts = each.counts
    met = [
        "not counted" if met is None else f"≤\u00a0{met:,}" if counts.bound and met else f"{met:,}"
        for met in (counts.zoo, counts.everyday)
    ]
    link = f"[{each.title}]({Path(each.page).name})"
    return _cells(link, each.nature, each.cause.stage, *met, _upstream(each))


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _upstream(each: Listed) -> str:
    link = each.cause.upstream.link if each.cause.upstream else ""
    if not link:
        return each.upstream
    short = "#".join(re.findall(r"[^/]+/[^/]+(?=/(?:issues|pull))|[0-9]+$", link))
    return f"{each.upstream}: [{short}]({link})"


def cause_page(each: Listed, totals: Totals, directory: Path) -> str:
    """The page of one cause: what a maintainer needs, and a text ready to file."""
    cause, facts, runs = each.cause, each.facts, each.runs
    note = cause.upstream.note if cause.upstream else ""
    rows = {
        "severity": f"{cause.severity}: {cause.severity_reason}",
        "what a user gets": f"{GETS[cause.damage]}{f'; {facts.error}' if facts.error else ''}",
        "condition": cause.condition,
        "right for": cause.right_for,
        "public functions": ", ".join(f"`{name}`" for name in facts.functions),
        "how natural": f"{each.nature}: {counts_text(each, totals)}",
        "predicate": f"`{each.counts.where}`" if each.counts.where else "",
        "stage": cause.stage,
        "kernel or simulator": DECIDED[facts.decided] if facts.decided else "",
        "on hardware": on_hardware(runs) if runs.get("hardware") else "",
        "platform": ", ".join(f"`{name}`" for name in cause.platforms),
        "versions": _versions(cause.versions, runs),
        "upstream": _upstream(each),
        "found": facts.found,
    }
    lines = [
        f"# {cause.title}",
        "",
        "| | |\n|---|---|",
        *(_cells(name, text) for name, text in rows.items() if text),
        "",
        *_section("Mechanism", [cause.mechanism]),
        *_section("Evidence for the stage", [f"- {text}" for text in cause.stage_evidence]),
        *_section("The same cause", [f"- {text}" for text in cause.merged]),
        *_section("What is known", [text for text in (facts.known, note) if text]),
        *_reproducers(each),
        "## Text to file",
        "",
        "````markdown",
        text_to_file(each, directory),
        "````",
        "",
        f"[All of {each.runtime}](index.md) · [all runtimes](../README.md)",
    ]
    return "\n".join(lines).rstrip() + "\n"


def on_hardware(runs: Mapping[str, Any]) -> str:
    """What the scripts answered on the devices themselves, of a target that is simulated or emulated here."""
    words: list[str] = []
    for device, runs_there in runs["hardware"].items():
        answers = [*runs_there["answers"], *runs_there.get("native_answers", [])]
        count = f"{answers.count('fault')} of {len(answers)} runs"
        first = next(iter(runs_there["printed"].splitlines()), "nothing printed")
        words.append(f"{device}: the fault in {count}, with {first}")
    return "; ".join(words)


def _versions(versions: Iterable[str], runs: Mapping[str, Any]) -> str:
    first = next(iter(str(runs.get("printed", "")).splitlines()), "")
    return "; ".join([*versions, f"run with {first}" if first else "not run"])


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [f"## {title}", "", *lines, ""] if any(lines) else []


def _block(text: str) -> list[str]:
    return ["```", text.strip() or "(not run)", "```", ""]


def _reproducers(each: Listed) -> list[str]:
    """Links to the scripts, with what they print."""
    name, facts, runs = Path(each.script).name, each.facts, each.runs
    lines = ["## Reproducers", "", f"[{name}]({name}) imports torch and the runtime only. It prints:", ""]
    lines += _block(runs.get("printed", ""))
    answers = runs.get("answers", [])
    if len(answers) > 1 and "printed_again" not in runs:
        lines += [f"A second process printed the same ({answers[1]}).", ""]
    elif len(answers) > 1:
        lines += [f"A second process ({answers[1]}) printed:", "", *_block(runs["printed_again"])]
    if not facts.native:
        reason = facts.native_reason or "none was made"
        return [*lines, f"No reproducer in the runtime's own format: {reason.rstrip('.')}.", ""]
    first = f"[{facts.native}]({facts.native}) is in the runtime's own format. It prints:"
    return [*lines, first, "", *_block(runs.get("native_printed", ""))]
