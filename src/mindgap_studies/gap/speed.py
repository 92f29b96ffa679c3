"""Compares the run time of platforms with the reference, after compilation, with the verdict beside it."""

from __future__ import annotations

from typing import Final

from mindgap_studies.gap.vocabulary import CALM, RAN, VERDICTS, WRONG, listed, mode, share, size
from mindgap_surveys.table import TableQuery

#: The median of later runs, or the second: the first may hold what is done once only.
_SECONDS: Final = "coalesce(timings['median_run'], timings['second_run'], timings['run'])"
#: A model that ran on a platform and on the reference, with both times and the word of its row.
_RATIOS: Final = f"""
WITH ran AS (
  SELECT model, graph, platform, {_SECONDS} AS seconds, timings['load'] AS load
  FROM outcomes WHERE run = $run AND {RAN}
),
ratios AS (
  SELECT p.model, p.platform, m.nodes, p.load, p.seconds, r.seconds AS reference, p.seconds / r.seconds AS ratio, v.word
  FROM ran AS p JOIN ran AS r USING (model, graph)
  JOIN (SELECT model, graph, nodes FROM models WHERE run = $run) AS m USING (model, graph)
  LEFT JOIN (SELECT model, graph, platform, word {VERDICTS}) AS v
    ON v.model = p.model AND v.graph = p.graph AND v.platform = p.platform
  WHERE r.platform = (SELECT reference FROM runs WHERE run = $run) AND p.platform <> r.platform
    AND p.seconds > 0 AND r.seconds > 0
)
""".strip()
_RIGHT: Final = f"word IN {listed(CALM)}"
_WRONG: Final = f"word IN {listed((*WRONG, 'export'))}"
PORTED: Final = TableQuery(
    name="ported", title="Slower than the reference, and right",
    note="Time of a run after compilation and after the first run. What is fast and gives other results than the "
    "reference, beyond rounding, is not ported. `slower_median_slowdown`: of those that are slower.",
    empty="no platform ran a model that the reference ran as well, or nobody measured the time",
    query=f"""
{_RATIOS}
SELECT platform, count(*) AS models, count(*) FILTER (WHERE ratio > 1) AS slower,
       {share("count(*) FILTER (WHERE ratio > 1)", "count(*)")} AS slower_share,
       median(ratio) FILTER (WHERE ratio > 1) AS slower_median_slowdown, max(ratio) AS worst_slowdown,
       count(*) FILTER (WHERE ratio <= 1 AND {_RIGHT}) AS fast_and_right,
       count(*) FILTER (WHERE ratio > 1 AND {_RIGHT}) AS slow_and_right,
       count(*) FILTER (WHERE ratio <= 1 AND {_WRONG}) AS fast_and_wrong,
       count(*) FILTER (WHERE ratio > 1 AND {_WRONG}) AS slow_and_wrong,
       count(*) FILTER (WHERE word IS NULL OR NOT ({_RIGHT} OR {_WRONG})) AS not_judged
FROM ratios GROUP BY platform ORDER BY {mode()} <> 'eager', platform
""",
)  # fmt: skip

MODEL_TIMES: Final = TableQuery(
    name="model_times", title="Time of each model",
    note="Seconds of a run after compilation, which `load` has: the median of the runs after the first "
    "(`mindgap diff --repeat N`). A campaign's variants are not listed.",
    empty="this is a campaign, or no platform ran a model that the reference ran as well",
    query=f"""
{_RATIOS}
SELECT model, platform, reference AS reference_seconds, seconds, ratio AS slowdown, load AS load_seconds,
       coalesce(word, 'not_judged') AS verdict
FROM ratios WHERE (SELECT kind FROM runs WHERE run = $run) = 'diff'
ORDER BY model, ratio DESC, platform
""",
)  # fmt: skip

SLOWDOWN: Final = TableQuery(
    name="slowdown", title="Slow-down",
    note="Seconds of a run over the reference's for the same graph (the second run where there is one, so that "
    "what happens once is not in it; `load` is). Wall-clock on whatever machine and beside whatever else ran.",
    empty="no platform ran a model that the reference ran as well, or nobody measured the time",
    query=f"""
{_RATIOS}
SELECT platform, CASE grouping(size) WHEN 0 THEN size ELSE 'all' END AS size, count(*) AS models,
       median(ratio) AS median_slowdown, quantile_cont(ratio, 0.9) AS p90_slowdown,
       count(*) FILTER (WHERE ratio > 10) AS over_ten_times, median(seconds) AS median_seconds,
       median(load) AS median_load_seconds
FROM (SELECT *, {size()} AS size FROM ratios)
GROUP BY GROUPING SETS ((platform, size), (platform))
ORDER BY {mode()} <> 'eager', platform, grouping(size), min(nodes)
""",
)  # fmt: skip
