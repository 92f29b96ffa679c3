"""Reads the findings of a campaign from its store: grouped by cause, and the rows of one case."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from mindgap.graph import MindgapError
from mindgap.graph.compare.verdict import FINDINGS
from mindgap.platforms.name import PlatformName, recorded
from mindgap_campaign.campaign.state.directory import CampaignDirectory
from mindgap_campaign.campaign.state.resume_state import finding_key

#: Rows of the campaign and of its runs on other machines.
_OURS: Final = "(v.run = $run OR starts_with(v.run, $run || '-'))"
_ROWS: Final = f"""
SELECT v.run, v.model, v.platform, v.word, v.blame, v.culprit_node, v.culprit_op, v.max_abs, v.detail, o.signature,
  o.message, m.position
FROM verdicts v JOIN models m ON m.run = v.run AND m.model = v.model
  JOIN outcomes o ON o.run = v.run AND o.model = v.model AND o.graph = v.graph AND o.platform = v.platform
WHERE {_OURS} AND list_contains($words, v.word) AND ($platform = '' OR v.platform = $platform)
ORDER BY m.position, v.run, v.platform
"""
_OF_CASE: Final = f"""
SELECT v.*, m.position, o.signature, o.message, o.op, o.outputs
FROM verdicts v JOIN models m ON m.run = v.run AND m.model = v.model
  JOIN outcomes o ON o.run = v.run AND o.model = v.model AND o.graph = v.graph AND o.platform = v.platform
WHERE {_OURS} AND v.model = $case AND ($platform = '' OR v.platform = $platform) ORDER BY v.run, v.platform
"""


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings with the same platform, verdict, and culprit (or failure signature).

    `run`: the run that found them. `case`: the first case. `detail`: the detail of its row.
    """

    run: str
    platform: PlatformName
    word: str
    culprit: str
    count: int
    case: str
    blame: str
    max_abs: float | None
    detail: str
    cases: tuple[str, ...]


def findings_of(directory: CampaignDirectory, words: Sequence[str] = (), platform: str = "") -> list[FindingGroup]:
    """Returns groups of findings, by platform, then the worst verdict, then the most frequent.

    Raises `MindgapError` for a word that is no finding and for a platform that the campaign has no row of.
    """
    for word in words:
        if word not in FINDINGS:
            raise MindgapError(f"--word {word}: it takes one of {', '.join(FINDINGS)}")
    if platform:
        _require_platform(directory, platform)
    parameters = {"run": directory.run, "words": list(words or FINDINGS), "platform": platform}
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in directory.store.rows(_ROWS, parameters):
        key = finding_key(row["platform"], row["word"], row["culprit_op"], row["signature"] or "")
        groups.setdefault((row["run"], key), []).append(row)
    groups_found = [_group(rows) for rows in groups.values()]
    return sorted(groups_found, key=lambda g: (g.platform, FINDINGS.index(g.word), -g.count, g.case))  # pyright: ignore[reportArgumentType] # a word of FINDINGS


def rows_of_case(directory: CampaignDirectory, case: str, platform: str = "") -> list[Mapping[str, Any]]:
    """Returns the rows of a case: `verdicts` joined with `outcomes`. Raises `MindgapError` if it has none."""
    rows = directory.store.rows(_OF_CASE, {"run": directory.run, "case": case, "platform": platform})
    if rows:
        return list(rows)
    if platform:
        others = [row["platform"] for row in rows_of_case(directory, case)]
        raise MindgapError(f"case {case} has no row on {platform}; it has some on {', '.join(others)}")
    raise MindgapError(
        f"{directory.path} has no row of a case {case}: `mindgap campaign findings {directory.path}` lists cases, "
        "which are called v000000, v000001, …"
    )


def as_json(groups: Sequence[FindingGroup]) -> str:
    """Returns a JSON array with one object for each group."""
    return json.dumps([asdict(group) for group in groups], indent=1)


def _group(rows: Sequence[Mapping[str, Any]]) -> FindingGroup:
    first = rows[0]
    return FindingGroup(
        run=first["run"],
        platform=recorded(first["platform"]),
        word=first["word"],
        culprit=first["culprit_op"] or first["signature"] or "",
        count=len(rows),
        case=first["model"],
        blame=first["blame"] or "",
        max_abs=first["max_abs"],
        detail=first["detail"] or first["message"] or "",
        cases=tuple(row["model"] for row in rows),
    )


def _require_platform(directory: CampaignDirectory, platform: str) -> None:
    rows = directory.store.rows(f"SELECT DISTINCT platform FROM verdicts v WHERE {_OURS}", {"run": directory.run})
    names = sorted(row["platform"] for row in rows)
    if platform not in names:
        raise MindgapError(f"{directory.path} has no row on {platform}; it has some on {', '.join(names) or 'none'}")
