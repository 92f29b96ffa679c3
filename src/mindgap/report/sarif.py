"""Writes findings as SARIF 2.1.0 for code-scanning systems: a rule per verdict, a result per finding or cause."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from mindgap.findings.causes import Cause, causes_of_rows
from mindgap.findings.causes.cause import CauseState, Severity
from mindgap.report.finding_blocks import LINE, source_file
from mindgap.report.words import MEANINGS, explain
from mindgap.workflows.diff import Report, Row

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_FINGERPRINT: Final = "mindgapCause/v1"
_LEVELS: Final[Mapping[Severity, str]] = {"critical": "error", "high": "error", "medium": "warning", "low": "note"}
_STATES: Final[Mapping[CauseState, str]] = {"new": "new", "back": "new", "known": "unchanged", "gone": "absent"}


def sarif_of_report(report: Report) -> str:
    """SARIF of a report: a result for each fault of each finding.

    It is located at the line of the user's program that its culprit came from, else at the start of the model's file;
    the finding in a model without a file has the model's name alone.
    """
    files = {model.name: source_file(report, model.name) for model in report.models}
    results: list[dict[str, Any]] = []
    for cause, rows in causes_of_rows(each for row in report.findings for each in row.by_fault):
        for row in rows:
            text = f"{row.model} on {row.platform}: {explain(row)}"
            state = "known" if row.known else cause.state
            results.append(
                _result(cause, row.word, text, _place_of(row, files.get(row.model, "")), state, [row.platform])
            )
    return sarif_log(results, report.version)


def sarif_of_causes(causes: Sequence[Cause], version: str) -> str:
    """SARIF of reduced causes: a result for each, located at its script."""
    results = [
        _result(
            cause, cause.verdict, f"{cause.title}. {cause.severity_reason}",
            location_of(" ".join([*cause.operators, cause.findings[0].origin]).strip(), cause.findings[0].script),
            cause.state, cause.platforms,
        )
        for cause in causes if cause.findings
    ]  # fmt: skip
    return sarif_log(results, version)


def _place_of(row: Row, file: str) -> dict[str, Any]:
    label = row.culprit.label if row.culprit is not None else ""
    match = LINE.search(label)
    name = f"{row.model} {label}".strip()
    if match is None:
        return location_of(name, file)
    # A label has the name of the file and not its folder.
    same = file.rpartition("/")[2] == match["file"]
    return location_of(name, file if same else match["file"], int(match["line"]))


def _result(
    cause: Cause, rule: str, text: str, location: dict[str, Any], state: CauseState, platforms: Sequence[str]
) -> dict[str, Any]:  # fmt: skip
    result: dict[str, Any] = {
        "ruleId": rule,
        "level": _LEVELS[cause.severity],
        "message": {"text": text},
        "locations": [location],
        "partialFingerprints": {_FINGERPRINT: cause.id},
        "properties": {
            "severity": cause.severity,
            "severityReason": cause.severity_reason,
            "class": cause.kind,
            "blame": cause.blame,
            "stage": cause.stage,
            "platforms": list(platforms),
            "operators": list(cause.operators),
        },
    }
    if state:
        result["baselineState"] = _STATES[state]
    if state == "known":
        result["suppressions"] = [{"kind": "external", "justification": f"known issue: {cause.upstream_text}"}]
    return result


def location_of(name: str, uri: str, line: int = 1) -> dict[str, Any]:
    """A place in a file; without one, a name alone."""
    location: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": name}]}
    if uri:
        uri = f"file://{quote(uri)}" if uri.startswith("/") else quote(uri.removeprefix("./"))
        location["physicalLocation"] = {"artifactLocation": {"uri": uri}, "region": {"startLine": max(1, line)}}
    return location


def sarif_log(results: list[dict[str, Any]], version: str, meanings: Mapping[str, str] | None = None) -> str:
    """Returns a log of results. `meanings`: of their rules; those of verdicts by default."""
    used = dict.fromkeys(result["ruleId"] for result in results)
    texts = meanings or {word: MEANINGS[word][1] for word in used}
    rules = [{"id": word, "shortDescription": {"text": texts[word]}} for word in used]
    driver = {"name": "mindgap", "semanticVersion": version or "0", "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1, ensure_ascii=False) + "\n"
