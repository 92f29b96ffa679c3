"""Counts the operators that ran on each platform, and lists those that never did."""

from __future__ import annotations

from typing import Final

from mindgap_studies.gap.vocabulary import RAN, mode, share
from mindgap_surveys.table import TableQuery

_PACKET: Final = "regexp_extract(op, '^[^.]+[.][^.]+')"
#: Operators of gradients go by their names.
_BACKWARD: Final = "contains(op, '_backward')"

# Operators are unnested per platform and graph once, not per model.
_SEEN: Final = f"""
seen AS (
  SELECT graph, platform, bool_or({RAN}) AS ran FROM outcomes WHERE run = $run GROUP BY ALL
)
""".strip()
_USES: Final = f"""
{_SEEN},
uses AS (
  SELECT platform, op, bool_or(ran) AS ran
  FROM (SELECT platform, ran, unnest(operators) AS op FROM seen JOIN graphs USING (graph)) GROUP BY ALL
)
""".strip()


def _columns() -> str:
    parts: list[str] = []
    for name, what in (("packets", _PACKET), ("overloads", "op")):
        parts += [f"count(DISTINCT {what}) AS {name}_given", f"count(DISTINCT {what}) FILTER (WHERE ran) AS {name}_ran"]
        parts.append(
            f"{share(f'count(DISTINCT {what}) FILTER (WHERE ran)', f'count(DISTINCT {what})')} AS {name}_share"
        )
    for name, of in (("forward", f"NOT {_BACKWARD}"), ("backward", _BACKWARD)):
        parts.append(f"count(DISTINCT {_PACKET}) FILTER (WHERE {of}) AS {name}_given")
        parts.append(f"count(DISTINCT {_PACKET}) FILTER (WHERE ran AND {of}) AS {name}_ran")
    return ",\n       ".join(parts)


# What a probe of its own found a platform to run, where a campaign kept such answers.
_ABLE: Final = f"""
able AS (
  SELECT DISTINCT p.platform, {_PACKET} AS operator
  FROM support AS s JOIN platforms AS p ON p.run = $run AND p.fingerprint = s.fingerprint
  WHERE s.fingerprint <> '' AND s.answer IN ('runs', 'decomposed')
)
""".strip()

COVERAGE: Final = TableQuery(
    name="coverage", title="Operator coverage",
    note="Overload packets (`aten.add`) and overloads (`aten.add.Tensor`) in graphs that a platform was given, and "
    "in graphs of which it gave outputs. Backward operators are those whose names say so. `all`: on any platform. "
    "`supported`: packets that a probe of single operators found the platform to run, where the store holds one.",
    empty="the run ran no graph whose operators the store knows",
    query=f"""
WITH {_USES},
{_ABLE},
supported AS (
  SELECT coalesce(able.platform, 'all') AS platform, count(DISTINCT able.operator) AS supported,
         count(DISTINCT r.operator) AS supported_ran
  FROM able LEFT JOIN (SELECT DISTINCT platform, {_PACKET} AS operator FROM uses WHERE ran) AS r
    ON r.platform = able.platform AND r.operator = able.operator
  GROUP BY GROUPING SETS ((able.platform), ())
  HAVING count(*) > 0
),
counted AS (
  SELECT coalesce(platform, 'all') AS platform, grouping(platform) AS level,
       {_columns()}
  FROM uses
  GROUP BY GROUPING SETS ((platform), ())
  HAVING count(*) > 0
)
SELECT counted.* EXCLUDE (level), supported, supported_ran, {share("supported_ran", "supported")} AS supported_share
FROM counted LEFT JOIN supported USING (platform)
ORDER BY level, {mode()} <> 'eager', platform
""",
)  # fmt: skip

NEVER_RAN: Final = TableQuery(
    name="never_ran", title="Operators that never ran",
    note="Overload packets that a platform was given, or is known to support, and that ran in no graph there: it "
    "lacks them (`refusals_naming_it`), or something beside them failed; with the commonest words of the failures.",
    empty="every operator that a platform was given, or is known to support, ran there in some graph",
    query=f"""
WITH {_SEEN},
{_ABLE},
packets AS (
  SELECT platform, operator, bool_or(ran) AS ran, count(*) AS graphs
  FROM (
    SELECT platform, ran, unnest(list_distinct(list_transform(operators, lambda op: {_PACKET}))) AS operator
    FROM seen JOIN graphs USING (graph)
  )
  GROUP BY ALL
),
failed AS (
  SELECT o.platform, o.graph, o.signature, regexp_extract(o.op, '^[^.]+[.][^.]+') AS named
  FROM outcomes AS o WHERE o.run = $run AND NOT (o.{RAN})
),
-- What was said of this very operator comes before what was said of graphs that hold it.
why AS (
  SELECT f.platform, {_PACKET} AS operator, mode(f.signature ORDER BY f.signature) AS signature,
         mode(f.signature ORDER BY f.signature) FILTER (WHERE f.named = {_PACKET}) AS said,
         count(*) FILTER (WHERE f.named = {_PACKET}) AS named
  FROM (SELECT failed.*, unnest(g.operators) AS op FROM failed JOIN graphs AS g USING (graph)) AS f GROUP BY ALL
)
SELECT platform, operator, coalesce(graphs, 0) AS graphs_given, coalesce(named, 0) AS refusals_naming_it,
       CASE WHEN platform IN (SELECT platform FROM able) THEN able.operator IS NOT NULL END AS supported,
       coalesce(said, signature, 'no graph of the run holds it') AS signature
FROM packets FULL JOIN able USING (platform, operator) LEFT JOIN why USING (platform, operator)
WHERE NOT coalesce(packets.ran, false)
ORDER BY refusals_naming_it DESC, platform, operator
""",
)  # fmt: skip

# A feature is `operator|dtype|layout|size`, `operator>operator` or `kind:mutation`.
BREADTH: Final = TableQuery(
    name="breadth", title="Breadth of a campaign",
    note="Of all cases together: how many overloads were called with a first operand of each dtype, layout and "
    "class of size; under `all` the distinct combinations, and the distinct pairs of which one reads the other.",
    empty="only campaigns record it",
    query="""
WITH covered AS (SELECT DISTINCT unnest(features) AS feature FROM blocks WHERE run = $run),
uses AS (
  SELECT split_part(feature, '|', 1) AS op, split_part(feature, '|', 2) AS dtype, split_part(feature, '|', 3) AS layout,
         split_part(feature, '|', 4) AS size
  FROM covered WHERE contains(feature, '|')
),
classed AS (
  SELECT 'dtype' AS axis, dtype AS class, op FROM uses UNION ALL SELECT 'layout', layout, op FROM uses
  UNION ALL SELECT 'size', size, op FROM uses
)
SELECT axis, class, count(DISTINCT op) AS overloads FROM classed WHERE class <> '' GROUP BY ALL
UNION ALL
SELECT 'all', 'dtype × layout × size', count(*) FROM uses HAVING count(*) > 0
UNION ALL
SELECT 'all', 'pairs along an edge', count(*) FROM covered WHERE contains(feature, '>') HAVING count(*) > 0
UNION ALL
SELECT 'mutation', substr(feature, 6), count(*) FROM covered WHERE feature LIKE 'kind:%' GROUP BY feature
ORDER BY axis, overloads DESC, class
""",
)  # fmt: skip
