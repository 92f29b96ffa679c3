"""Adds the causes of reduced campaigns to a directory of findings, and writes its tables and its counts.

    python tools/findings/publish.py docs/findings [OUT…]

Each OUT is what `mindgap campaign reduce` wrote; without one only the tables, the counts and what upstream knows are
renewed. A cause is added if a short script of it showed the fault twice without mindgap, if public functions make its
calls, and if `left_out.toml` of the directory does not name it. A cause that is listed already keeps its script. An
entry of a facts file that names operators makes a cause by itself (`by_hand.py`). What was established of a cause
stands in `FOLDER/facts.toml` (`facts.py`), what its scripts printed in `runs.json` (`run_scripts.py`), what upstream
knows in `upstream.toml`. Two tables go between marks in README.md: `runtimes`, and `decided`, what decides between
kernel and simulator. The causes go into causes.json, the counts of models and programs into counts.json. The pages are
made with the site (`pages.py`).
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from by_hand import with_causes_by_hand
from counts import counts_of
from established import COUNTS, established, kept
from facts import DECIDED, Facts, read_facts
from listing import Listed, read_listing

from mindgap.findings.causes import FILE_NAME, Cause, ReducedGroup, causes_of, causes_text, read_causes
from mindgap.findings.causes.cause import SEVERITIES
from mindgap.findings.causes.clusters import severity_order
from mindgap.findings.reduction.files import Summary
from mindgap.graph import MindgapError

#: Where the packages of the machine lie that showed a fault.
_FOLDER = re.compile(r"(?:/[\w.+-]+)+/site-packages/")
_ENDINGS = {
    "values": "wrong", "special values": "nan", "shape": "shape", "precision": "precision", "failure": "fails",
    "crash": "crashes", "hang": "hangs",
}  # fmt: skip


def groups_of(causes: Iterable[Cause], folder: Path) -> list[ReducedGroup]:
    """The findings of causes, with scripts as absolute paths. The rows of a cause count once, with its first."""
    return [
        ReducedGroup(
            replace(finding, script=str((folder / finding.script).resolve())), cause.rows if index == 0 else 0, ()
        )
        for cause in causes
        for index, finding in enumerate(cause.findings)
    ]


def shown(cause: Cause, listed: Path) -> Summary | None:
    """The finding to show: one that is listed already, else the first that is short and verified."""
    good = [finding for finding in cause.findings if finding.short and finding.verified]
    old = [finding for finding in good if Path(finding.script).is_relative_to(listed)]
    return (old or good or [None])[0]


def published(cause: Cause, finding: Summary, listed: Path) -> Summary:
    """The finding with its script in the directory, under a name that says what it shows."""
    script = Path(finding.script)
    if not script.is_relative_to(listed):
        folder = re.sub(r"[^\w]+", "-", finding.platform.partition("@")[0])
        folder += "-onnx-frontend" if "frontend=onnx" in finding.platform else ""
        packets = "-".join(dict.fromkeys(op.split(".")[1].strip("_") for op in finding.operators[:3]))
        name = f"{packets}_{_ENDINGS[cause.damage]}"
        target, count = listed / folder / f"{name}.py", 1
        while target.exists():
            count += 1
            target = listed / folder / f"{name}_{count}.py"
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(script, target)
        script = target
    return replace(finding, script=str(script.relative_to(listed)))


def runtimes_table(listed: Sequence[Listed]) -> str:
    """The runtimes with their causes by severity, those with the most first. Each links to its folder."""
    lines = [
        "| runtime | causes | " + " | ".join(SEVERITIES) + " | silent and natural |",
        "|---|---|" + "---|" * (len(SEVERITIES) + 1),
    ]
    folders = Counter(each.folder for each in listed)
    for folder, count in folders.most_common():
        chosen = [each for each in listed if each.folder == folder]
        ranks = Counter(each.cause.severity for each in chosen)
        natural = sum(each.nature == "silent, natural" for each in chosen)
        cells = [f"[{chosen[0].runtime}]({folder}/)", count, *(ranks[each] for each in SEVERITIES), natural]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def decided_table(causes: Sequence[Cause], facts: Mapping[str, Facts], runs: Mapping[str, Any]) -> str:
    """The causes on simulated and emulated targets, counted by what decides, with the undecided ones by name."""
    by_target = dict[str, list[str]]()
    for cause in causes:
        script = cause.findings[0].script
        if script in facts and facts[script].decided:
            by_target.setdefault(cause.findings[0].platform.device_mode, []).append(script)
    keys = [*DECIDED]
    lines = [f"| target | causes | {' | '.join(keys)} | shown by two processes | on hardware |"]
    lines.append(f"|---|---|{'---|' * len(keys)}---|---|")
    for name, scripts in [
        *sorted(by_target.items()),
        ("all", [script for each in by_target.values() for script in each]),
    ]:
        counts = Counter(facts[script].decided for script in scripts)
        twice = sum(runs.get(script, {}).get("answers") == ["fault"] * 2 for script in scripts)
        real = sum(
            any(found["answers"] == ["fault"] * 2 for found in runs.get(script, {}).get("hardware", {}).values())
            for script in scripts
        )
        lines.append(f"| {name} | {len(scripts)} | {' | '.join(str(counts[key]) for key in keys)} | {twice} | {real} |")
    left = [
        f"[{script}]({script})"
        for scripts in by_target.values()
        for script in scripts
        if facts[script].decided == "open"
    ]
    meaning = "\n".join(f"- `{key}`: {words}." for key, words in DECIDED.items())
    return "\n".join([*lines, "", meaning, "", f"Not decided: {', '.join(left) or 'none'}."])


def with_table(page: str, name: str, table: str) -> str:
    """The page with a table between the marks of that name. Raises `MindgapError` where the page lacks them."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if begin not in page or end not in page:
        raise MindgapError(f"README.md of the findings has no marks {begin} … {end}")
    return f"{page.partition(begin)[0]}{begin}\n{table}\n{page.partition(end)[1]}{page.partition(end)[2]}"


def added(
    listed: Path, causes: Sequence[Cause], folders: Sequence[Path], left_out: Sequence[Mapping[str, str]]
) -> list[Cause]:
    """The listed causes, and those of reduced campaigns that are not known yet."""
    groups = groups_of(causes, listed)
    for folder in folders:
        groups += groups_of(read_causes(folder / FILE_NAME), folder)
    out = {each["id"] for each in left_out}
    found: list[Cause] = []
    for cause in causes_of(groups):
        finding = shown(cause, listed)
        if finding is None or cause.id in out or finding.refused:
            print(f"not listed: {cause.id} {cause.title}")
        else:
            found.append(replace(cause, findings=(published(cause, finding, listed),)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("listed", type=Path)
    parser.add_argument("found", type=Path, nargs="*")
    arguments = parser.parse_args()
    listed = arguments.listed.resolve()
    causes = list(read_causes(listed / FILE_NAME))
    left_out = tomllib.loads((listed / "left_out.toml").read_text()).get("cause", [])
    if arguments.found:
        causes = added(listed, causes, arguments.found, left_out)
    facts, runs = read_facts(listed), json.loads((listed / "runs.json").read_text())
    counts = counts_of(facts)
    causes = established(with_causes_by_hand(causes, facts), listed, facts, counts["causes"])
    for cause in causes:
        if cause.findings[0].script not in facts:
            print(f"no facts: {cause.findings[0].script}")
    causes.sort(key=severity_order)
    (listed / FILE_NAME).write_text(_FOLDER.sub("site-packages/", causes_text([*map(kept, causes)])))
    (listed / COUNTS).write_text(json.dumps(counts, indent=1) + "\n")
    page = listed / "README.md"
    text = with_table(page.read_text(), "runtimes", runtimes_table(read_listing(listed)[0]))
    text = with_table(text, "decided", decided_table(causes, facts, runs))
    page.write_text(text)
    known = sum(cause.upstream is not None and bool(cause.upstream.link) for cause in causes)
    stages = sum(cause.stage == "unknown" for cause in causes)
    print(f"{len(causes)} causes listed, {known} with an upstream link, {stages} of unknown stage")
    for cause in causes:
        answer = runs.get(cause.findings[0].script, {}).get("answer", "not run")
        if cause.upstream is None or answer != "fault":
            print(f"{'not looked up' if cause.upstream is None else answer}: {cause.findings[0].script}")


if __name__ == "__main__":
    main()
