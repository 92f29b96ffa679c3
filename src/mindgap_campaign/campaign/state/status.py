"""Computes the status of a campaign from its directory: running, killed or finished."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mindgap.graph import MindgapError
from mindgap.graph.compare.verdict import FINDINGS
from mindgap.platforms.name import PlatformName, recorded
from mindgap.results.from_store import totals
from mindgap.results.rows import Totals
from mindgap.results.store import Store
from mindgap_campaign.campaign.cases.case import BLOCK, Shard
from mindgap_campaign.campaign.plan import Plan
from mindgap_campaign.campaign.state.bundle_transfer import agreement
from mindgap_campaign.campaign.state.directory import CampaignDirectory, begun
from mindgap_campaign.campaign.state.expenses import CpuSpent, spent
from mindgap_campaign.campaign.state.session_file import RunningSession, running

_PLATFORMS: Final = """
WITH counted AS (
  SELECT platform, word, status, count(*) AS n, sum(judge_seconds) AS judge FROM verdicts WHERE run = $run
  GROUP BY platform, word, status)
SELECT platform, sum(n)::BIGINT AS rows, sum(judge) AS judge_seconds,
  (SELECT map(list(word ORDER BY word), list(n ORDER BY word)) FROM
     (SELECT word, sum(n)::BIGINT AS n FROM counted i WHERE i.platform = o.platform GROUP BY word)) AS words,
  (SELECT map(list(status ORDER BY status), list(n ORDER BY status)) FROM
     (SELECT status, sum(n)::BIGINT AS n FROM counted i WHERE i.platform = o.platform GROUP BY status)) AS statuses
FROM counted o GROUP BY platform
"""
_BLOCKS: Final = """
SELECT count(*) AS begun,
  count(*) FILTER (seconds IS NOT NULL AND ($added = [] OR list_has_all(map_keys(given), $added))) AS done,
  (SELECT count(DISTINCT feature) FROM (SELECT unnest(features) AS feature FROM blocks WHERE run = $run)) AS features,
  (SELECT list(DISTINCT shard ORDER BY shard) FROM blocks WHERE run = $run) AS shards
FROM blocks WHERE run = $run
"""
_LEFT: Final = """
SELECT key AS platform, sum(value)::BIGINT AS n
FROM (SELECT unnest(map_entries(left_out), recursive := true) FROM blocks WHERE run = ?) GROUP BY key
"""
_REFUSED: Final = """
SELECT platform, reason, sum(count)::BIGINT AS n
FROM (SELECT unnest(refused, recursive := true) FROM blocks WHERE run = ?) GROUP BY ALL ORDER BY n DESC, reason
"""
#: Cases of the last minutes, and how long they took.
_RATE: Final = """
SELECT count(*) AS n, (max(_written) - min(_written)) / 1e6 AS seconds FROM models
WHERE run = $run AND _written > (SELECT max(_written) FROM models WHERE run = $run) - 600e6
"""
#: Distinct findings by `resume_state.finding_key`, over all rows, also those of unfinished blocks.
_KINDS: Final = """
SELECT count(DISTINCT (v.platform, v.word, coalesce(v.culprit_op, o.signature, ''))) AS n FROM verdicts v
LEFT JOIN outcomes o ON o.run = v.run AND o.model = v.model AND o.graph = v.graph AND o.platform = v.platform
WHERE v.run = $run AND list_contains($findings, v.verdict)
"""
_REFERENCE: Final = """
SELECT o.status, count(*) AS n FROM outcomes o JOIN models m USING (run, model)
WHERE o.run = ? AND o.platform = ? GROUP BY o.status ORDER BY o.status
"""


_NOTHING: Final = Totals(
    models=0, platforms=0, rows=0, refused=0, broken=0, words={}, statuses={}, findings=0, known=0, new=0, faults=0,
    new_faults=0,
)  # fmt: skip


@dataclass(frozen=True)
class PlatformStatus:
    """Counts of one platform's rows. `refused`: cases not run because the platform refuses an operator. `left`: cases
    not run because its budget was spent. `judge_seconds`: processor seconds of judging its rows."""

    platform: PlatformName
    rows: int
    words: Mapping[str, int]
    statuses: Mapping[str, int]
    refused: int
    left: int
    judge_seconds: float


@dataclass(frozen=True)
class CampaignStatus:
    """The status of a campaign.

    `state`: `finished`, `running`, or `unfinished`. `running`: the session that runs (None: none does); its counts are
    up to ten seconds ahead of the store's. `eta_s`: its time left. `cases`: of `planned`, those that the reference has
    run. `features`: features that these cases cover. `found`: findings, distinct by platform, verdict, and culprit or
    failure signature. `lacking`: (platform, what it lacks, cases not run for it). `agreement`: of a campaign that came
    in a bundle, for how many cases the reference gave the same bits here and where the bundle was made, and how many
    ran on both. `stopped`: why a session ended before everything ran. `cpu`: what it took of the processor."""

    run: str
    state: str
    shard: str
    shards: Sequence[str]
    blocks: int
    blocks_begun: int
    blocks_done: int
    planned: int
    cases: int
    reference: str
    reference_statuses: Mapping[str, int]
    platforms: Sequence[PlatformStatus]
    totals: Totals = _NOTHING
    features: int = 0
    found: int = 0
    lacking: Sequence[tuple[str, str, int]] = ()
    seconds: float = 0.0
    cases_per_second: float = 0.0
    eta_s: float | None = None
    agreement: tuple[int, int] | None = None
    cpu: CpuSpent = field(default_factory=CpuSpent)
    running: RunningSession | None = None
    stopped: str = ""

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps({**dataclasses.asdict(self), "nothing": warnings_of(self)}, indent=1)


def planned_cases(plan: Plan, shard: Shard) -> int:
    """Returns the number of cases of a shard."""
    return sum(min(BLOCK, plan.count - number * BLOCK) for number in shard.blocks(plan.count))


def campaign_status(directory: CampaignDirectory) -> CampaignStatus:
    """Computes the status of a campaign. Raises `MindgapError` if it has no rows and no session runs."""
    store, run, plan = directory.store, directory.run, directory.plan
    session = running(directory.path)
    known = store.rows("SELECT * FROM runs WHERE run = ?", [run])
    if not known:
        if session is None:
            raise MindgapError(
                f"{directory.path} has nothing in its store yet: `mindgap campaign resume {directory.path}`"
            )
        return _empty(directory, session)
    (about,) = known
    (blocks,) = store.rows(_BLOCKS, {"run": run, "added": list(directory.added)})
    (rate,) = store.rows(_RATE, {"run": run})
    (kinds,) = store.rows(_KINDS, {"run": run, "findings": list(FINDINGS)})
    reference = {row["status"]: row["n"] for row in store.rows(_REFERENCE, [run, plan.reference])}
    # A store that shards were merged into is as wide as all of them.
    shards = [Shard.parse(text) for text in blocks["shards"] or [str(directory.shard)]]
    refused = [(row["platform"], row["reason"], row["n"]) for row in store.rows(_REFUSED, [run])]
    settings = json.loads(about["settings"])
    return dataclasses.replace(
        _empty(directory, session, shards),
        state="running" if session else "finished" if blocks["done"] == _blocks(plan, shards) else "unfinished",
        blocks_begun=blocks["begun"],
        blocks_done=blocks["done"],
        cases=sum(reference.values()),
        reference_statuses=reference,
        platforms=_platforms(store, run, settings["platforms"], refused),
        totals=totals(store, run),
        features=blocks["features"],
        found=kinds["n"],
        lacking=refused,
        seconds=about["seconds"] or settings.get("seconds_before", 0.0),
        cases_per_second=rate["n"] / rate["seconds"] if rate["seconds"] else 0.0,
        agreement=agreement(directory),
        cpu=spent(store, run),
    )


def starting(path: str | Path) -> RunningSession | None:
    """Returns the session that is about to create a campaign in this directory; None if there is none."""
    return None if begun(path) else running(path)


def _empty(
    directory: CampaignDirectory, session: RunningSession | None, shards: Sequence[Shard] = ()
) -> CampaignStatus:
    """Returns the status of a campaign without rows."""
    plan, shards = directory.plan, shards or [directory.shard]
    return CampaignStatus(
        run=directory.run,
        state="running" if session else "unfinished",
        shard=str(directory.shard),
        shards=[str(shard) for shard in shards],
        blocks=_blocks(plan, shards),
        blocks_begun=0,
        blocks_done=0,
        planned=sum(planned_cases(plan, shard) for shard in shards),
        cases=0,
        reference=plan.reference,
        reference_statuses={},
        platforms=[PlatformStatus(name, 0, {}, {}, 0, 0, 0.0) for name in plan.platforms],
        eta_s=session.eta_s if session else None,
        running=session,
    )


def _blocks(plan: Plan, shards: Sequence[Shard]) -> int:
    return sum(len(list(shard.blocks(plan.count))) for shard in shards)


def warnings_of(result: CampaignStatus) -> list[str]:
    """Returns warnings: nothing ran at all, or a platform refused everything. Empty if there are none."""
    if not result.cases:
        return ["NOTHING RAN: the reference was given no case"]
    ran = sum(result.reference_statuses.get(status, 0) for status in ("ok", "nondeterministic"))
    if not ran:
        what = ", ".join(f"{count} {status}" for status, count in result.reference_statuses.items())
        return [f"NOTHING WAS COMPARED: the reference {result.reference} ran none of its cases: {what}"]
    wrong: list[str] = []
    for each in result.platforms:
        said_no = each.statuses.get("unsupported", 0)
        if not each.rows:
            why = f"{each.refused} are known to be refused, {each.left} were left out for its budget"
            wrong.append(f"NOTHING RAN on {each.platform}: {why}")
        elif said_no == each.rows:
            wrong.append(f"NOTHING RAN on {each.platform}: it refused every one of {each.rows} cases")
    return wrong


def _platforms(
    store: Store, run: str, names: Sequence[str], refused: Sequence[tuple[str, str, int]]
) -> list[PlatformStatus]:
    rows = {row["platform"]: row for row in store.rows(_PLATFORMS, {"run": run})}
    left = {row["platform"]: row["n"] for row in store.rows(_LEFT, [run])}
    listed: list[PlatformStatus] = []
    for name in dict.fromkeys([*names, *rows]):
        row: Mapping[str, Any] = rows.get(name, {})
        listed.append(
            PlatformStatus(
                platform=recorded(name),
                rows=row.get("rows", 0),
                words=row.get("words") or {},
                statuses=row.get("statuses") or {},
                refused=sum(count for platform, _, count in refused if platform == name),
                left=left.get(name, 0),
                judge_seconds=row.get("judge_seconds") or 0.0,
            )
        )
    return listed
