"""The judge's decision on one outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mindgap.compare.culprit import Culprit
from mindgap.compare.row_metrics import RowMetrics
from mindgap.compare.verdict import Blame, Verdict
from mindgap.compare.weakness import Weakness
from mindgap.trace.roles import Role


@dataclass(frozen=True)
class Judgement:
    """Verdict, blame, culprit and metrics of one outcome.

    `verdicts`: each output's own. `profiles`: whether each fixed tolerance passes. `detail`: one sentence for a person.
    `nodes`: (node of the captured graph, operator, role) for each node that the difference reaches. `weaknesses`:
    operators judged on weaker evidence.
    """

    verdict: Verdict
    blame: Blame | None = None
    culprit: Culprit | None = None
    metrics: RowMetrics = field(default_factory=RowMetrics)
    detail: str = ""
    nodes: tuple[tuple[int, str, Role], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    profiles: Mapping[str, bool] = field(default_factory=dict[str, bool])
    weaknesses: tuple[Weakness, ...] = ()
