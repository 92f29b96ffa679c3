"""Compares the run time of platforms with the reference."""

from __future__ import annotations

from typing import Final

from mindgap.results.store import Store
from mindgap.studies.gap.vocabulary import RAN, mode, size
from mindgap.studies.table import StudyTable, query_table

#: The second run, where there was one: the first may hold what is done once only.
_SECONDS: Final = "coalesce(timings['second_run'], timings['run'])"
_SLOWDOWN: Final = f"""
WITH ran AS (
  SELECT model, graph, platform, {_SECONDS} AS seconds, timings['load'] AS load
  FROM outcomes WHERE run = $run AND {RAN}
),
ratios AS (
  SELECT p.platform, m.nodes, p.load, p.seconds, p.seconds / r.seconds AS ratio
  FROM ran AS p JOIN ran AS r USING (model, graph)
  JOIN (SELECT model, graph, nodes FROM models WHERE run = $run) AS m USING (model, graph)
  WHERE r.platform = (SELECT reference FROM runs WHERE run = $run) AND p.platform <> r.platform
    AND p.seconds > 0 AND r.seconds > 0
)
SELECT platform, CASE grouping(size) WHEN 0 THEN size ELSE 'all' END AS size, count(*) AS models,
       median(ratio) AS median_slowdown, quantile_cont(ratio, 0.9) AS p90_slowdown,
       count(*) FILTER (WHERE ratio > 10) AS over_ten_times, median(seconds) AS median_seconds,
       median(load) AS median_load_seconds
FROM (SELECT *, {size()} AS size FROM ratios)
GROUP BY GROUPING SETS ((platform, size), (platform))
ORDER BY {mode()} <> 'eager', platform, grouping(size), min(nodes)
""".strip()


def slowdown(store: Store, run: str) -> StudyTable:
    """Compares run time with the reference's, by platform and size."""
    return query_table(
        store, run, name="slowdown", title="Slow-down", query=_SLOWDOWN,
        note="Seconds of a run over the reference's for the same graph (the second run where there is one, so that "
        "what happens once is not in it; `load` is). Wall-clock on whatever machine and beside whatever else ran.",
        empty="no platform ran a model that the reference ran as well, or nobody measured the time",
    )  # fmt: skip
