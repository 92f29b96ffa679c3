"""Groups findings by cause, one group per bug report."""

from __future__ import annotations

from typing import Final

from mindgap.graph.compare.verdict import FINDINGS
from mindgap.results.store import Store
from mindgap.studies.gap.vocabulary import VERDICTS, listed
from mindgap.studies.table import StudyTable, query_table

_RANK: Final = f"list_position([{', '.join(repr(str(word)) for word in FINDINGS)}], word)"
_FINDINGS: Final = f"""
WITH found AS (
  SELECT v.word, coalesce(v.blame, '') AS blame, v.platform, v.graph, v.model,
         coalesce(v.culprit_op, left(split_part(o.signature, chr(10), 1), 120), '') AS culprit
  FROM (SELECT * {VERDICTS} AND word IN {listed(FINDINGS)}) AS v
  LEFT JOIN outcomes AS o
    ON o.run = v.run AND o.model = v.model AND o.graph = v.graph AND o.platform = v.platform AND v.broken = ''
)
SELECT word AS verdict, culprit, blame, platform, count(*) AS findings,
       count(DISTINCT graph) AS graphs, min(model) AS example
FROM found
GROUP BY word, culprit, blame, platform
ORDER BY {_RANK}, findings DESC, culprit, blame, platform
""".strip()


def findings(store: Store, run: str) -> StudyTable:
    """Counts findings by verdict, culprit operator, blame and platform."""
    return query_table(
        store, run, name="findings", title="Findings by culprit", query=_FINDINGS,
        note="The operator at fault; where none is known, the platform's own words. Blame: which side is wrong when "
        "the operator is checked against an independent formulation.",
        empty="nothing was found: no platform did anything that rounding or a refusal does not explain",
    )  # fmt: skip
