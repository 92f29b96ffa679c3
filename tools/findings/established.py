"""Joins what stands of a listed cause in several files: the campaign's finding, facts, counts, runs and upstream.

`causes.json` of the directory holds what only the campaign knows, with the title, the damage, the severity and the
stage that follow from the rest (`kept`). All else is joined when a page or a table is made (`read_established`).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Final

from facts import Facts, read_facts

from mindgap.findings.causes import FILE_NAME, Cause, read_causes
from mindgap.findings.causes.ledger import Ledger
from mindgap.findings.causes.severity import ConditionUse, severity_of
from mindgap.findings.script.script_platform import ScriptPlatform, runner_of
from mindgap.platforms.listing import package_versions

COUNTS: Final = "counts.json"


def read_established(directory: Path) -> list[Cause]:
    """The listed causes with all that was established of them, in the order of the file."""
    counts = json.loads((directory / COUNTS).read_text(encoding="utf-8"))["causes"]
    return established(read_causes(directory / FILE_NAME), directory, read_facts(directory), counts)


def established(
    causes: Sequence[Cause], directory: Path, facts: Mapping[str, Facts], counts: Mapping[str, Any]
) -> list[Cause]:
    """The causes with facts, severity, versions, what is the same, and what upstream knows. `counts`: by script."""
    runs = json.loads((directory / "runs.json").read_text(encoding="utf-8"))
    left_out = tomllib.loads((directory / "left_out.toml").read_text(encoding="utf-8")).get("cause", [])
    ledger = Ledger.load(directory / "upstream.toml")
    review = ledger.review(causes, (), lambda platform: package_versions(platform, ledger.packages), date.today())
    found: list[Cause] = []
    for cause in (replace(each, state="") for each in review.causes):
        script = cause.findings[0].script
        same = [f"{each['what']}: {each['reason']}" for each in left_out if each.get("same_as") == script]
        known = script in facts
        found.append(with_facts(cause, facts[script], runs.get(script, {}), counts[script], same) if known else cause)
    return found


def kept(cause: Cause) -> Cause:
    """The part of a cause that `causes.json` holds: what stands in no other file, and how a list names the cause."""
    findings = tuple(
        replace(
            finding, title=cause.title, stage="unknown", stage_evidence=(), mechanism="", condition="", right_for=""
        )
        for finding in cause.findings
    )
    return replace(
        cause, findings=findings, severity_reason="", stage_evidence=(), upstream=None, state="", condition="",
        right_for="", mechanism="", native="", error="", uses="", versions=(), merged=(),
    )  # fmt: skip


def with_facts(
    cause: Cause, facts: Facts, runs: Mapping[str, Any], counts: Mapping[str, Any], merged: Sequence[str]
) -> Cause:
    """The cause with what was established of it, and the severity that follows. `merged`: causes that are the same.

    `counts`: how many zoo models and everyday programs meet the condition.
    """
    errors = [float(text) for text in re.findall(r", error ([\d.e+-]+|inf|nan),", runs.get("printed", ""))]
    severity, reason = severity_of(
        facts.damage, [cause.operators], use=facts.use or ConditionUse((), "", facts.condition),
        error=max(errors, default=None), outside=facts.outside, programs=counts.get("everyday", 0),
    )  # type: ignore[arg-type]  # fmt: skip
    side = cause.findings[0].platform.device_mode
    return replace(
        cause,
        title=f"{side}: {facts.title}",
        damage=facts.damage,  # type: ignore[arg-type]
        severity=severity,
        severity_reason=reason,
        stage=facts.stage,
        stage_evidence=facts.stage_evidence,
        condition=facts.condition,
        right_for=facts.right_for,
        mechanism=facts.mechanism,
        native=f"{Path(cause.findings[0].script).parent}/{facts.native}" if facts.native else "",
        error=facts.error,
        uses="" if facts.use is None else facts.use.text,
        versions=tuple(filter(None, [versions_text(_answers(runs), package_of_code(cause, facts))])),
        merged=tuple(merged),
    )


def _answers(runs: Mapping[str, Any]) -> dict[str, str]:
    first = next(iter(str(runs.get("printed", "")).splitlines()), "")
    return {first: runs.get("answer", ""), **runs.get("versions", {})}


def package_of_code(cause: Cause, facts: Facts) -> str:
    """The package whose versions count: that of the code at fault."""
    if facts.package:
        return facts.package
    device = cause.findings[0].platform.device
    if cause.stage == "exporter" or (device == "jax" and cause.stage == "front end"):
        return "onnxscript" if cause.stage == "exporter" else "torchax"
    runner = runner_of(ScriptPlatform.of(cause.findings[0].platform))
    return (*(runner.packages if runner is not None else ()), "torch")[0]


def versions_text(answers: Mapping[str, str], package: str) -> str:
    """The first and the last version of a package in which a script showed its fault, and those in which it did not.

    `answers`: the line of versions that the script printed -> its answer.
    """
    by_version = {_version(line, package): answer for line, answer in answers.items() if _version(line, package)}
    there = sorted((version for version, answer in by_version.items() if answer.startswith("fault")), key=_order)
    gone = sorted((version for version, answer in by_version.items() if answer == "no fault"), key=_order)
    text = f"{package} {there[0]}" + (f" to {there[-1]}" if len(there) > 1 else "") if there else ""
    return text + (f"; not in {', '.join(gone)}" if gone else "")


def _version(line: str, package: str) -> str:
    match = re.search(rf"(?:^|, ){re.escape(package)},? ([^, ]+)", line)
    return match[1] if match else ""


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))
