"""Counts failures by cause (Fig. 3 and Table I)."""

from __future__ import annotations

from functools import cache
from typing import Final, Literal

from mindgap.results.failure_rules import CAUSES, TYPES, Rule, failure_rules
from mindgap_studies.gap.vocabulary import RAN, counted, listed, mode, share
from mindgap_surveys.table import TableQuery


@cache
def classified(wanted: Literal["cause", "type"]) -> str:
    """Returns SQL for the cause or type of a failed outcome, from its columns `status`, `signature` and `message`."""
    cases = "\n         ".join(f"WHEN {_condition(rule)} THEN '{getattr(rule, wanted)}'" for rule in failure_rules())
    return f"CASE {cases}\n         ELSE 'other' END"


def _condition(rule: Rule) -> str:
    parts = [f"status IN {listed(rule.status)}"] if rule.status else []
    for column, patterns in (("signature", rule.signature), ("message", rule.message)):
        if patterns:
            pattern = "|".join(patterns).replace("'", "''")
            parts.append(f"regexp_matches({column}, '{pattern}', 'i')")
    return " AND ".join(parts)


FAILURES: Final = TableQuery(
    name="failures", title="Failures by root cause (Fig. 3)",
    note="Outcomes without outputs, refusals included, the reference's own as well. Causes are told from the "
    "status and the platform's own words by the rules in causes.toml; `signatures` counts distinct words, which "
    "is nearer to the number of defects than the number of failures is.",
    empty="the run holds no outcome: nothing was run",
    query=f"""
WITH classified_rows AS (
  SELECT platform, {mode()} AS mode, {RAN} AS ran, signature,
         CASE WHEN NOT ({RAN}) THEN
         {classified("cause")} END AS cause
  FROM outcomes WHERE run = $run
)
SELECT coalesce(platform, 'all') AS platform, CASE grouping(platform) WHEN 0 THEN any_value(mode) END AS mode,
       count(*) AS outcomes, count(*) FILTER (WHERE ran) AS ran, count(*) FILTER (WHERE NOT ran) AS failed,
       {share("count(*) FILTER (WHERE NOT ran)", "count(*)")} AS share_failed,
       {counted(CAUSES, "cause")},
       count(DISTINCT signature) FILTER (WHERE NOT ran) AS signatures
FROM classified_rows
GROUP BY GROUPING SETS ((platform), ())
HAVING count(*) > 0
ORDER BY grouping(platform), any_value(mode) <> 'eager', platform
""",
)  # fmt: skip

SIGNATURES: Final = TableQuery(
    name="signatures", title="What the platforms said",
    note="Every distinct failure: the platform's words without numbers, paths and addresses, and the cause "
    "they were taken for.",
    empty="no outcome failed: every platform ran every graph that it was given",
    query=f"""
WITH classified_rows AS (
  SELECT platform, status, signature, op, model,
         {classified("cause")} AS cause
  FROM outcomes WHERE run = $run AND NOT ({RAN})
)
SELECT cause, status, signature, count(*) AS outcomes, count(DISTINCT platform) AS on_platforms,
       string_agg(DISTINCT platform, ' ' ORDER BY platform) AS platforms,
       coalesce(any_value(op ORDER BY op), '') AS operator, min(model) AS example
FROM classified_rows
GROUP BY cause, status, signature
ORDER BY outcomes DESC, signature, status, cause
""",
)  # fmt: skip

# The types count where the reference ran: what no side runs says nothing of a compiler.
COMPILE_FAILURES: Final = TableQuery(
    name="compile_failures", title="Compile failures by type (Table I)",
    note="Platforms that take the whole graph (every mode but eager), on models that the reference ran. `stalled` "
    "is a time-out; what the paper calls heap corruption is a `crash`; a failure of running counts as well as one "
    "of compiling, as there.",
    empty="the run has no platform that compiles or converts: all are eager",
    query=f"""
WITH reference AS (
  SELECT model, graph, {RAN} AS ran FROM outcomes
  WHERE run = $run AND platform = (SELECT reference FROM runs WHERE run = $run)
),
classified_rows AS (
  SELECT o.platform, NOT ({RAN}) AS failed, coalesce(r.ran, false) AS comparable,
         CASE WHEN NOT ({RAN}) AND r.ran THEN
         {classified("type")} END AS type
  FROM outcomes AS o LEFT JOIN reference AS r ON r.model = o.model AND r.graph = o.graph
  WHERE o.run = $run AND {mode("o.platform")} <> 'eager'
)
SELECT coalesce(platform, 'all') AS platform, count(*) FILTER (WHERE comparable) AS models,
       count(*) FILTER (WHERE failed AND comparable) AS failed,
       {share("count(*) FILTER (WHERE failed AND comparable)", "count(*) FILTER (WHERE comparable)")} AS share_failed,
       {counted(TYPES, "type")},
       count(*) FILTER (WHERE failed AND NOT comparable) AS reference_failed_too
FROM classified_rows
GROUP BY GROUPING SETS ((platform), ())
HAVING count(*) > 0
ORDER BY grouping(platform), platform
""",
)  # fmt: skip

# What a campaign spared a platform beforehand, counted by its blocks of cases.
NOT_GIVEN: Final = TableQuery(
    name="not_given", title="Not given to a platform",
    note="Cases of a campaign that a platform was not asked to run: a probe had shown what it lacks, or its budget "
    "was spent. They are no outcomes, and in no other table.",
    empty="nothing was held back (`diff` gives every platform every model)",
    query="""
WITH lacking AS (SELECT unnest(refused, recursive := true) FROM blocks WHERE run = $run),
late AS (SELECT unnest(map_entries(left_out), recursive := true) FROM blocks WHERE run = $run)
SELECT platform, 'known to lack' AS why, reason, sum("count")::BIGINT AS cases FROM lacking GROUP BY ALL
UNION ALL
SELECT key AS platform, 'no time left' AS why, '' AS reason, sum(value)::BIGINT AS cases FROM late GROUP BY ALL
HAVING sum(value) > 0
ORDER BY platform, why, cases DESC, reason
""",
)  # fmt: skip
