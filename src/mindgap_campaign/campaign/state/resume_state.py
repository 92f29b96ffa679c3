"""Reads the resume state of a campaign from its store, so that no finished work is repeated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from mindgap.graph.compare.verdict import FINDINGS
from mindgap.platforms.name import PlatformName
from mindgap.results.store import Store
from mindgap_campaign.campaign.cases.case import BLOCK
from mindgap_campaign.campaign.state.directory import CampaignDirectory

#: A pair is finished when its verdict is there: outcomes are published before verdicts, verdicts before blocks.
_PAIRS: Final = """
SELECT v.model, v.platform, v.word, v.verdict, v.culprit_op, o.signature, o.op
FROM verdicts v JOIN models m USING (run, model)
LEFT JOIN outcomes o ON o.run = v.run AND o.model = v.model AND o.graph = v.graph AND o.platform = v.platform
WHERE v.run = $run AND (m.position // $block NOT IN
  (SELECT block FROM blocks WHERE run = $run AND seconds IS NOT NULL)
  OR list_contains($lacking, m.position // $block) AND list_contains($added, v.platform))
"""
_BLOCKS: Final = """
SELECT block, cases, features, given, left_out, refused, found, seconds FROM blocks WHERE run = ? AND shard = ?
ORDER BY block
"""
_CPU: Final = """
SELECT platform, sum(element_at(timings, 'cpu')[1]) AS seconds FROM outcomes WHERE run = ? GROUP BY platform
"""


@dataclass(frozen=True, slots=True)
class FinishedPair:
    """The row of a case on a platform. `signature`: failure signature. `op`: the operator that the message names."""

    word: str
    finding: str
    signature: str
    op: str | None = None


@dataclass(frozen=True)
class ResumeState:
    """The work that earlier sessions of a campaign have done.

    `created`: when the run began; None if it has not. `seconds`: duration of the sessions that ended regularly.
    `platforms`: those that had rows or were to get some.

    `done`: numbers of finished blocks. `lacking`: for blocks that were finished before platforms were added, those that
    have still to run them. `pairs`: finished pairs of other blocks, by case and platform. `blocks`: rows of the shard's
    blocks in order. `cpu`: processor seconds by platform, for platforms with a budget.
    """

    created: datetime | None = None
    seconds: float = 0.0
    platforms: tuple[str, ...] = ()
    done: frozenset[int] = frozenset()
    lacking: Mapping[int, tuple[PlatformName, ...]] = field(default_factory=dict[int, tuple[PlatformName, ...]])
    pairs: Mapping[str, Mapping[str, FinishedPair]] = field(default_factory=dict[str, Mapping[str, FinishedPair]])
    blocks: tuple[Mapping[str, Any], ...] = ()
    cpu: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def finished_blocks(self) -> list[Mapping[str, Any]]:
        """Returns the rows of the blocks that were finished at some time, in order."""
        return [row for row in self.blocks if row["seconds"] is not None]


def finding_key(platform: PlatformName, word: str, culprit: str | None, signature: str) -> str:
    """Returns the key by which findings count as distinct: a failure's signature, else the culprit."""
    return f"{platform} {word} {culprit or signature}"


def read_resume_state(store: Store, directory: CampaignDirectory) -> ResumeState:
    """Reads the resume state of this campaign and shard. Raises `StoreError` for a damaged store."""
    known = store.rows("SELECT created, seconds, settings FROM runs WHERE run = ?", [directory.run])
    if not known:
        return ResumeState()
    settings = json.loads(known[0]["settings"])
    blocks = store.rows(_BLOCKS, [directory.run, str(directory.shard)])
    lacking = {row["block"]: names for row in blocks if (names := _lacking(row, directory))}
    pairs: dict[str, dict[str, FinishedPair]] = {}
    parameters = {"run": directory.run, "block": BLOCK, "lacking": list(lacking), "added": list(directory.added)}
    for row in store.rows(_PAIRS, parameters):
        finding = _finding(row)
        pair = FinishedPair(row["word"], finding, row["signature"] or "", row["op"] or None)
        pairs.setdefault(row["model"], {})[row["platform"]] = pair
    return ResumeState(
        created=known[0]["created"],
        seconds=known[0]["seconds"] or settings.get("seconds_before", 0.0),
        platforms=tuple(settings["platforms"]),
        done=frozenset(row["block"] for row in blocks if row["seconds"] is not None and row["block"] not in lacking),
        lacking=lacking,
        pairs=pairs,
        blocks=tuple(blocks),
        cpu={row["platform"]: row["seconds"] for row in store.rows(_CPU, [directory.run]) if row["seconds"]},
    )


def _lacking(row: Mapping[str, Any], directory: CampaignDirectory) -> tuple[PlatformName, ...]:
    """Returns the added platforms that have not run a finished block: a block that they ran names them."""
    if row["seconds"] is None:
        return ()
    return tuple(name for name in directory.added if name not in (row["given"] or {}))


def _finding(row: Mapping[str, Any]) -> str:
    if row["verdict"] not in FINDINGS:
        return ""
    return finding_key(row["platform"], row["word"], row["culprit_op"], row["signature"] or "")
