"""Compares compiled graphs with the eager mode of the same device (Fig. 5)."""

from __future__ import annotations

from typing import Final

from mindgap_studies.gap.vocabulary import CALM, RAN, VERDICTS, WRONG, answer, counted, device, listed, mode, share
from mindgap_surveys.table import TableQuery

_DIFFER: Final = (*CALM[1:], *WRONG)
#: NaN on one side where the other has an infinity: other counts of both, and as many elements that are neither.
_SWAPPED: Final = """len(list_filter(list_zip(c.outputs, e.outputs), lambda p:
           p[1].nan <> p[2].nan
           AND p[1].nan + p[1].pos_inf + p[1].neg_inf = p[2].nan + p[2].pos_inf + p[2].neg_inf)) > 0"""
_SAME: Final = f"""c.status = 'ok' AND e.status = 'ok'
           AND {answer("c.outputs")} = {answer("e.outputs")}"""
_DIFFERS: Final = f"count(*) FILTER (WHERE word IN {listed(_DIFFER)})"
_IS_WRONG: Final = f"count(*) FILTER (WHERE word IN {listed(WRONG)})"
_SWAPS: Final = f"count(*) FILTER (WHERE swapped AND word IN {listed(_DIFFER)})"
_HAS_OUTPUTS: Final = f"count(*) FILTER (WHERE word IN {listed((*CALM, *WRONG))})"

# The eager counterpart has the same options, or else the fewest. Where it is not the reference, its own verdict says
# whether it is consistent, and a compiled output that differs from it has the word that it got against the reference.
COMPILED: Final = TableQuery(
    name="compiled", title="Compiled against eager (Fig. 5)",
    note="Each compiled platform beside the eager one of the same device, on models that are consistent in eager. "
    "`nan_for_inf`: in some output that differs, NaN stands for infinities or the reverse, as many elements being "
    "neither. Runtimes without an eager mode of their own (`onnxruntime/cpu`) are in Fig. 4 alone.",
    empty="the run has no platform that compiles on a device whose eager mode ran as well",
    query=f"""
WITH given AS (
  SELECT platform, {device()} AS device, {mode()} AS mode, split_part(platform, '@', 2) AS options
  FROM outcomes WHERE run = $run GROUP BY platform
),
pairs AS (
  SELECT c.platform, c.mode, e.platform AS eager
  FROM given AS c JOIN given AS e ON e.device = c.device AND e.mode = 'eager' AND c.mode <> 'eager'
  QUALIFY row_number() OVER (
    PARTITION BY c.platform ORDER BY c.options <> e.options, length(e.options), e.platform) = 1
),
said AS (SELECT model, graph, platform, word {VERDICTS}),
pairwise AS (
  SELECT p.platform, p.mode, p.eager, c.{RAN} AS ran, c.status,
         e.{RAN} AND (p.eager = (SELECT reference FROM runs WHERE run = $run)
                      OR coalesce(w.word IN {listed(CALM)}, false)) AS comparable,
         {_SAME} AS same,
         CASE v.word WHEN 'identical' THEN coalesce(nullif(w.word, 'identical'), 'rounding') ELSE v.word END AS word,
         {_SWAPPED} AS swapped
  FROM pairs AS p
  JOIN outcomes AS c ON c.run = $run AND c.platform = p.platform
  JOIN outcomes AS e ON e.run = $run AND e.platform = p.eager AND e.model = c.model AND e.graph = c.graph
  LEFT JOIN said AS v ON v.platform = c.platform AND v.model = c.model AND v.graph = c.graph
  LEFT JOIN said AS w ON w.platform = e.platform AND w.model = c.model AND w.graph = c.graph
),
classified_rows AS (
  SELECT platform, mode, eager, comparable, swapped,
         CASE WHEN NOT comparable THEN NULL WHEN status = 'unsupported' THEN 'unsupported' WHEN NOT ran THEN 'failed'
              WHEN same THEN 'identical' WHEN word IN {listed(_DIFFER)} THEN word
              WHEN word = 'unjudged' THEN word ELSE 'not_judged' END AS word
  FROM pairwise
)
SELECT coalesce(platform, 'all') AS platform, CASE grouping(platform) WHEN 0 THEN any_value(mode) END AS mode,
       CASE grouping(platform) WHEN 0 THEN any_value(eager) END AS eager, count(*) AS given,
       count(word) AS consistent_in_eager,
       {counted(("unsupported", "failed", "identical", *_DIFFER, "unjudged", "not_judged"), "word")},
       {_DIFFERS} AS differ,
       {_IS_WRONG} AS wrong,
       {share(_IS_WRONG, _HAS_OUTPUTS)} AS share_wrong,
       {_SWAPS} AS nan_for_inf,
       {share(_SWAPS, _DIFFERS)} AS share_nan_for_inf
FROM classified_rows
GROUP BY GROUPING SETS ((platform), ())
HAVING count(*) > 0
ORDER BY grouping(platform), platform
""",
)  # fmt: skip
