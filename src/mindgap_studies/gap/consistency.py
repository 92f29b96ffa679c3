"""Counts consistent outputs: under the paper's tolerance, under PyTorch's, and by our verdict (Fig. 4)."""

from __future__ import annotations

from typing import Final

from mindgap_studies.gap.vocabulary import CALM, RAN, VERDICTS, WRONG, counted, listed, mode, share, within
from mindgap_surveys.table import TableQuery

_WRONG: Final = f"count(*) FILTER (WHERE word IN {listed(WRONG)})"
_COMPARED: Final = "count(*) FILTER (WHERE word <> 'unjudged')"

# A platform that was given only a few models (an expensive compiler) would leave few that ran everywhere.
CONSISTENCY: Final = TableQuery(
    name="consistency", title="Output consistency (Fig. 4)",
    note="`everywhere`: models that ran on the reference and on every platform that was given at least nine tenths "
    "of what the busiest was given, as the paper counts. `both`: models that ran on the reference and on this "
    "platform. "
    "`wrong` is our verdict; `ill_conditioned` counts as consistent, and says that nothing can be said; so does "
    "`internal`: only results differ that no public function returns. "
    "`unjudged` differs, was not judged, and counts nowhere else. `beyond` a profile: some element lies "
    "outside its tolerance.",
    empty="no output was compared: no platform ran a model that the reference ran as well",
    query=f"""
WITH sent AS (SELECT platform, count(*) AS n FROM outcomes WHERE run = $run GROUP BY platform),
broad AS (SELECT platform FROM sent WHERE n >= 0.9 * (SELECT max(n) FROM sent)),
everywhere AS (
  SELECT model, graph FROM outcomes SEMI JOIN broad USING (platform) WHERE run = $run AND {RAN}
  GROUP BY ALL HAVING count(*) = (SELECT count(*) FROM broad)
),
compared AS (
  SELECT model, graph, platform, word, blame, {within("paper")} AS paper, {within("assert_close")} AS assert_close
  {VERDICTS} AND word IN {listed((*CALM, *WRONG, "unjudged"))}
),
based AS (
  SELECT 'both' AS base, * FROM compared
  UNION ALL
  SELECT 'everywhere' AS base, compared.* FROM compared SEMI JOIN everywhere USING (model, graph)
                                          SEMI JOIN broad USING (platform)
)
SELECT base, coalesce(platform, 'all') AS platform, {_COMPARED} AS compared,
       count(*) FILTER (WHERE word = 'unjudged') AS unjudged,
       {_COMPARED} - {_WRONG} AS consistent, {_WRONG} AS wrong,
       {share(_WRONG, _COMPARED)} AS share_wrong,
       count(*) FILTER (WHERE word IN {listed(WRONG)} AND blame = 'reference') AS wrong_is_the_reference,
       count(*) FILTER (WHERE NOT paper) AS beyond_paper,
       {share("count(*) FILTER (WHERE NOT paper)", "count(paper)")} AS share_beyond_paper,
       count(*) FILTER (WHERE NOT assert_close) AS beyond_assert_close,
       {share("count(*) FILTER (WHERE NOT assert_close)", "count(assert_close)")} AS share_beyond_assert_close,
       {counted((*CALM, *WRONG), "word")}
FROM based
GROUP BY GROUPING SETS ((base, platform), (base))
HAVING count(*) > 0
ORDER BY base DESC, grouping(platform), {mode()} <> 'eager', platform
""",
)  # fmt: skip

TOLERANCES: Final = TableQuery(
    name="tolerances", title="A tolerance against a verdict",
    note="Both ways in which a fixed tolerance errs, on all outputs that were compared: it calls a bug what "
    "rounding explains (`only_the_tolerance_alarms`), and it passes what is wrong (`the_tolerance_misses`).",
    empty="no output was compared: no platform ran a model that the reference ran as well",
    query=f"""
WITH compared AS (
  SELECT platform, word, word IN {listed(WRONG)} AS wrong, unnest([
           {{'profile': 'paper', 'within': {within("paper")}}},
           {{'profile': 'assert_close', 'within': {within("assert_close")}}}], recursive := true)
  {VERDICTS} AND word IN {listed((*CALM, *WRONG))}
)
SELECT profile, coalesce(platform, 'all') AS platform, count(*) AS compared,
       count(*) FILTER (WHERE within AND NOT wrong) AS agree_consistent,
       count(*) FILTER (WHERE NOT within AND wrong) AS agree_wrong,
       count(*) FILTER (WHERE NOT within AND NOT wrong) AS only_the_tolerance_alarms,
       count(*) FILTER (WHERE NOT within AND word IN ('identical', 'rounding')) AS alarm_is_rounding,
       count(*) FILTER (WHERE NOT within AND word = 'ill_conditioned') AS alarm_is_ill_conditioned,
       count(*) FILTER (WHERE NOT within AND word = 'undefined') AS alarm_is_undefined,
       count(*) FILTER (WHERE NOT within AND word = 'internal') AS alarm_is_internal,
       count(*) FILTER (WHERE within AND wrong) AS the_tolerance_misses,
       count(*) FILTER (WHERE within IS NULL) AS not_asked,
       {share("count(*) FILTER (WHERE NOT within AND NOT wrong)", "count(*) FILTER (WHERE NOT within)")}
         AS share_of_alarms_false,
       {share("count(*) FILTER (WHERE within AND wrong)", "count(*) FILTER (WHERE wrong)")} AS share_of_wrong_missed
FROM compared
GROUP BY GROUPING SETS ((profile, platform), (profile))
HAVING count(*) > 0
ORDER BY profile DESC, grouping(platform), {mode()} <> 'eager', platform
""",
)  # fmt: skip
