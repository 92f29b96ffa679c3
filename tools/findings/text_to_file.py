"""Writes the text of a cause for an issue tracker: title, expected, actual, environment, script."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from listing import Listed
from plain_script import plain, plain_native

#: Characters of a failure that a text quotes.
_QUOTED: Final = 1200


def text_to_file(each: Listed, directory: Path) -> str:
    """The text, with the reproducer in the runtime's own format where there is one."""
    cause, native = each.cause, bool(each.facts.native)
    source = (directory / each.script).read_text(encoding="utf-8")
    own = plain_native((directory / each.folder / each.facts.native).read_text(encoding="utf-8")) if native else ""
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
        *("```python", (own or plain(source)).strip(), "```", "", "## Environment", "", versions or "(not run)"),
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
