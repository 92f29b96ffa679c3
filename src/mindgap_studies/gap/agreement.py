"""Measures agreement of platforms without verdicts: classes of equal bits, and remaining precision."""

from __future__ import annotations

from typing import Final

from mindgap_studies.gap.vocabulary import CALM, RAN, VERDICTS, WRONG, answer, listed, mode, share
from mindgap_surveys.table import TableQuery

CLASSES: Final = TableQuery(
    name="classes", title="Equivalence classes",
    note="For each model that ran on two platforms or more: into how many classes of bitwise equal outputs its "
    "platforms fall, the reference among them. One that answers differently every time counts by its first.",
    empty="no model ran on two platforms",
    query=f"""
WITH answers AS (
  SELECT model, graph, platform, {answer()} AS answer
  FROM outcomes WHERE run = $run AND {RAN}
),
models AS (
  SELECT model, graph, count(*) AS platforms, count(DISTINCT answer) AS classes
  FROM answers GROUP BY ALL HAVING count(*) > 1
)
SELECT classes, count(*) AS models, {share("count(*)", "sum(count(*)) OVER ()")} AS share,
       median(platforms) AS median_platforms, max(platforms) AS most_platforms, min(model) AS example
FROM models GROUP BY classes ORDER BY classes
""",
)  # fmt: skip

PRECISION: Final = TableQuery(
    name="precision", title="Remaining precision",
    note="Bits of the significand that agree with the reference in the worst element of the worst output, for "
    "models whose outputs differ. No figure: outputs that hold no floating-point number, or have another shape.",
    empty="no output differs from the reference's",
    query=f"""
SELECT platform, remaining_precision AS bits, count(*) AS models,
       count(*) FILTER (WHERE word IN {listed(WRONG)}) AS wrong
{VERDICTS} AND word IN {listed((*CALM[1:], *WRONG))}
GROUP BY platform, remaining_precision
ORDER BY {mode()} <> 'eager', platform, bits NULLS LAST
""",
)  # fmt: skip
