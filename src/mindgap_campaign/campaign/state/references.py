"""Reads what the reference of a campaign gave, for platforms that are added after the reference has run."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false
# (pyarrow has no types)

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import groupby

import pyarrow as pa

from mindgap.graph import MindgapError
from mindgap.results.store import outcome_of
from mindgap.run.outcome import Outcome
from mindgap_campaign.campaign.cases.case import BLOCK
from mindgap_campaign.campaign.state.directory import CampaignDirectory

#: One query for a session: each further one would look at all segments that have come meanwhile.
_OUTCOMES = """
SELECT m.position // $block AS block, o.* FROM models m JOIN outcomes o USING (run, model)
WHERE run = $run AND o.platform = $reference AND list_contains($blocks, m.position // $block) ORDER BY m.position
"""


class StoredReferences:
    """The outcomes of the reference in some blocks: digests and sketches, no whole outputs."""

    def __init__(self, outcomes: pa.Table) -> None:
        """`outcomes`: rows of the table `outcomes` and the number of their `block`, those of a block together."""
        self._outcomes = outcomes
        #: The first row of each block, and how many it has.
        self._places: dict[int, tuple[int, int]] = {}
        first = 0
        for number, rows in groupby(outcomes["block"].to_pylist()):
            count = sum(1 for _ in rows)
            self._places[number] = first, count
            first += count

    def check(self, fingerprint: str, platform: str) -> None:
        """Raises `MindgapError` if some ran on another reference than the one with this fingerprint."""
        others = sum(each != fingerprint for each in self._outcomes["fingerprint"].to_pylist())
        if others:
            raise MindgapError(
                f"the reference {platform} has changed (versions, hardware or settings) since {others:,} of "
                f"{len(self._outcomes):,} cases ran on it: what is added now would be compared with another reference "
                "than the rest; add it where the campaign ran, or begin another campaign"
            )

    def block(self, number: int) -> Mapping[str, Outcome]:
        """Returns the outcomes of a block by the names of their cases."""
        rows = self._outcomes.slice(*self._places.get(number, (0, 0)))
        return {row["model"]: outcome_of(row) for row in rows.to_pylist(maps_as_pydicts="strict")}


def read_references(directory: CampaignDirectory, blocks: Collection[int]) -> StoredReferences:
    """Reads the outcomes of the reference in these blocks. Raises `StoreError` for a damaged store."""
    parameters = {"block": BLOCK, "run": directory.run, "reference": directory.plan.reference, "blocks": list(blocks)}
    return StoredReferences(directory.store.query(_OUTCOMES, parameters))
