"""Decides which graphs a platform is given: not those with operators that it refuses, nor gradients where it is
for inference only. The answers are copied when the campaign begins and do not change afterwards."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path

from mindgap.aten.gradient_operators import is_gradient_operator
from mindgap.campaign.plan import Plan
from mindgap.graph import Graph
from mindgap.platforms.protocol import INFERENCE_ONLY
from mindgap.run.local import fingerprint_of
from mindgap.run.pool import WorkerPool
from mindgap.store import Store
from mindgap.support.answers import SupportTable, read_support, rows_of


class Eligibility:
    """Answers by the names of platforms, for those that are today what they were when they were asked."""

    def __init__(self, support: SupportTable, inference_only: Set[str] = frozenset()) -> None:
        """`inference_only`: platforms that are given no graph with a gradient operator."""
        self._support, self._inference_only = support, inference_only

    @property
    def platforms(self) -> frozenset[str]:
        """Those that have been asked."""
        return frozenset(name for name, each in self._support.platforms.items() if self._support.answers(each))

    def refuses(self, platform: str, graph: Graph) -> str | None:
        """Why the platform is not given the graph: the operator that it lacks, or a gradient operator where it runs
        inference only. None where it is given the graph."""
        if platform in self._inference_only:
            for node in graph.nodes:
                if is_gradient_operator(node.op):
                    return f"{node.op}: a gradient operator, and the platform runs inference only"
        fingerprint = self._support.platforms.get(platform)
        return None if fingerprint is None else self._support.refuses(fingerprint, graph)


def read_eligibility(
    store: Store, elsewhere: Path | None, pool: WorkerPool, plan: Plan, platforms: Sequence[str], *, fresh: bool
) -> Eligibility:
    """What the campaign's store knows of the platforms as they are.

    `fresh`: the campaign begins, and what the store `elsewhere` knows is copied. A resume must choose as before: it
    takes nothing over. Raises `StoreError` for a damaged store.
    """
    prints = {platform: fingerprint_of(pool.describe(platform)) for platform in dict.fromkeys(platforms)}
    if fresh and elsewhere is not None and elsewhere.is_dir():
        there = read_support(Store(elsewhere, create=False), prints)
        for platform, fingerprint in prints.items():
            rows = list(rows_of(platform, fingerprint, there.answers(fingerprint).values()))
            if rows:
                store.append("support", rows)
    return Eligibility(read_support(store, prints), frozenset(p for p in prints if _inference_only(pool, plan, p)))


def _inference_only(pool: WorkerPool, plan: Plan, platform: str) -> bool:
    """Whether the campaign gives the platform no gradient operators: as the plan says, or else as the platform does."""
    asked = plan.platforms[platform].gradients if platform in plan.platforms else None
    return bool(pool.describe(platform).get(INFERENCE_ONLY)) if asked is None else not asked
