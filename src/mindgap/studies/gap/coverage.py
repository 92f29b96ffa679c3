"""Which operators really ran, per platform, and which never did."""

from __future__ import annotations

from typing import Final

from mindgap.store import Store
from mindgap.studies.gap.vocabulary import RAN, mode, share
from mindgap.studies.table import Table, asked

_PACKET: Final = "regexp_extract(op, '^[^.]+[.][^.]+')"
#: Operators of gradients go by their names.
_BACKWARD: Final = "contains(op, '_backward')"

# Operators are unnested per platform and graph once, not per model.
_USES: Final = f"""
seen AS (
  SELECT graph, platform, bool_or({RAN}) AS ran FROM outcomes WHERE run = $run GROUP BY ALL
),
uses AS (
  SELECT platform, op, bool_or(ran) AS ran, count(*) AS graphs
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


_COVERAGE: Final = f"""
WITH {_USES}
SELECT coalesce(platform, 'all') AS platform,
       {_columns()}
FROM uses
GROUP BY GROUPING SETS ((platform), ())
HAVING count(*) > 0
ORDER BY grouping(platform), {mode()} <> 'eager', platform
""".strip()

_NEVER_RAN: Final = f"""
WITH {_USES},
packets AS (
  SELECT platform, {_PACKET} AS operator, bool_or(ran) AS ran, max(graphs) AS graphs FROM uses GROUP BY ALL
),
failed AS (
  SELECT o.platform, o.graph, o.signature, regexp_extract(o.op, '^[^.]+[.][^.]+') AS named
  FROM outcomes AS o WHERE o.run = $run AND NOT (o.{RAN})
),
why AS (
  SELECT f.platform, {_PACKET} AS operator, mode(f.signature ORDER BY f.signature) AS signature,
         count(*) FILTER (WHERE f.named = {_PACKET}) AS named
  FROM (SELECT failed.*, unnest(g.operators) AS op FROM failed JOIN graphs AS g USING (graph)) AS f GROUP BY ALL
),
-- Said of this very operator, where a platform names it.
said AS (SELECT platform, named AS operator, mode(signature ORDER BY signature) AS signature FROM failed
         WHERE named <> '' GROUP BY ALL)
SELECT packets.platform, packets.operator, graphs AS graphs_given, coalesce(why.named, 0) AS refusals_naming_it,
       coalesce(said.signature, why.signature) AS signature
FROM packets LEFT JOIN why USING (platform, operator) LEFT JOIN said USING (platform, operator)
WHERE NOT packets.ran
ORDER BY refusals_naming_it DESC, platform, operator
""".strip()


# A feature is `operator|dtype|layout|size`, `operator>operator` or `kind:mutation`.
_BREADTH: Final = """
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
""".strip()


def coverage(store: Store, run: str) -> Table:
    """Operators in graphs that ran, of those in graphs that were given, per platform."""
    return asked(
        store, run, name="coverage", title="Operator coverage", query=_COVERAGE,
        note="Overload packets (`aten.add`) and overloads (`aten.add.Tensor`) in graphs that a platform was given, and "
        "in graphs of which it gave outputs. Backward operators are those whose names say so. `all`: on any platform. "
        "What no graph of the run holds is not counted as known here.",
        empty="the run ran no graph whose operators the store knows",
    )  # fmt: skip


def never_ran(store: Store, run: str) -> Table:
    """Operators that a platform was given and that ran in no graph there."""
    return asked(
        store, run, name="never_ran", title="Operators that never ran", query=_NEVER_RAN,
        note="Overload packets of graphs that a platform was given, in none of which it gave outputs: because it lacks "
        "them (`refusals_naming_it`), or because something beside them failed. With each the commonest words "
        "of the failures.",
        empty="every operator that a platform was given ran there in some graph",
    )  # fmt: skip


def breadth(store: Store, run: str) -> Table:
    """Operators by dtype, layout and size class of what they were called with."""
    return asked(
        store, run, name="breadth", title="Breadth of a campaign", query=_BREADTH,
        note="Of all cases together: how many overloads were called with a first operand of each dtype, layout and "
        "class of size; under `all` the distinct combinations, and the distinct pairs of which one reads the other.",
        empty="only campaigns record it",
    )  # fmt: skip
