"""Counts the graphs of a run and its rows by verdict. All other tables must add up to these."""

from __future__ import annotations

from typing import Final

from mindgap.graph.compare.verdict import FINDINGS
from mindgap_studies.gap.vocabulary import RAN, VERDICTS, WORDS, counted, listed, mode, share, size
from mindgap_surveys.table import TableQuery

# A graph that is a variant says in JSON how it is made; its own word for its kind comes first.
_KIND: Final = """CASE WHEN coalesce(variant, '') = '' THEN 'captured'
         ELSE coalesce(variant ->> '$.kind',
                       CASE WHEN json_array_length(variant, '$.parts') > 1 THEN 'merged'
                            WHEN json_array_length(variant, '$.parts') = 1 THEN 'region' ELSE 'variant' END) END"""
TOTALS: Final = TableQuery(
    name="totals", title="Totals",
    note="A row is one model on one platform against the reference. `ran` has outputs; `unsupported` is a refusal "
    "in words, `no_reference` has nothing to be compared with, "
    "`unjudged` differs and was not judged, `not_judged` is a failure of mindgap itself.",
    empty="no platform besides the reference was judged in this run",
    query=f"""
SELECT coalesce(platform, 'all') AS platform, count(*) AS rows, count(*) FILTER (WHERE {RAN}) AS ran,
       count(*) FILTER (WHERE word IN {listed(FINDINGS)}) AS findings,
       {counted(WORDS, "word")}
{VERDICTS}
GROUP BY GROUPING SETS ((platform), ())
HAVING count(*) > 0
ORDER BY grouping(platform), {mode()} <> 'eager', platform
""",
)  # fmt: skip

MAKEUP: Final = TableQuery(
    name="makeup", title="What was run",
    note="Models by how their graphs came to be (captured from a program, or how a variant was made) and by their "
    "number of nodes; and how many of them the reference ran.",
    empty="the run recorded no model",
    query=f"""
WITH made AS (
  SELECT m.model, m.nodes, {size("m.nodes")} AS size, o.status,
         {_KIND} AS kind
  FROM models AS m
  LEFT JOIN graphs AS g ON g.graph = m.graph
  LEFT JOIN outcomes AS o
    ON o.run = m.run AND o.model = m.model AND o.graph = m.graph
       AND o.platform = (SELECT reference FROM runs WHERE run = $run)
  WHERE m.run = $run
)
SELECT coalesce(kind, 'all') AS kind, CASE grouping(size) WHEN 0 THEN size ELSE 'all' END AS size,
       count(*) AS models, count(*) FILTER (WHERE {RAN}) AS ran_on_reference,
       {share(f"count(*) FILTER (WHERE {RAN})", "count(*)")} AS share_ran,
       median(nodes) AS median_nodes, max(nodes) AS largest
FROM made
GROUP BY GROUPING SETS ((kind, size), (kind), ())
HAVING count(*) > 0
ORDER BY grouping(kind), kind, grouping(size), min(nodes)
""",
)  # fmt: skip
