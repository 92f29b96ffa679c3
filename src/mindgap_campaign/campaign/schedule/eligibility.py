"""Decides which graphs a platform runs: none with operators that it refuses, and no gradient operators on an
inference-only platform. The answers are copied when the campaign begins and do not change afterwards."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path

from mindgap.aten.operators import is_gradient_operator
from mindgap.platforms.name import PlatformName
from mindgap.platforms.protocol import INFERENCE_ONLY
from mindgap.results.store import Store
from mindgap.results.support_answers import SupportTable, read_support, rows_of
from mindgap.run.local import fingerprint_of
from mindgap.run.pool import JobRunner
from mindgap_campaign.campaign.cases.case import Case
from mindgap_campaign.campaign.plan import Plan


class Eligibility:
    """Looks up refusals by platform name. Answers count only for the platform's current fingerprint."""

    def __init__(self, support: SupportTable, inference_only: Set[PlatformName] = frozenset()) -> None:
        """`inference_only`: platforms that run no graph with a gradient operator."""
        self._support, self._inference_only = support, inference_only

    @property
    def platforms(self) -> frozenset[PlatformName]:
        """Returns the platforms that were surveyed."""
        return frozenset(name for name, each in self._support.platforms.items() if self._support.answers(each))

    def refuses(self, platform: PlatformName, case: Case) -> str | None:
        """Returns the operator for which the platform does not run the case's graph; None if it runs it.

        That is an operator that it refuses, or a gradient operator on an inference-only platform.
        """
        graph = case.graph
        if platform in self._inference_only:
            for node in graph.nodes:
                if is_gradient_operator(node.op):
                    return f"{node.op}: a gradient operator, and the platform runs inference only"
        fingerprint = self._support.platforms.get(platform)
        return None if fingerprint is None else self._support.refuses(fingerprint, graph)


def read_eligibility(
    store: Store,
    known_support: Path | None,
    pool: JobRunner,
    plan: Plan,
    platforms: Sequence[PlatformName],
    *,
    fresh: Sequence[PlatformName],
) -> Eligibility:
    """Reads the answers for the platforms' current fingerprints from the campaign's store.

    `fresh`: platforms that are new to the campaign: the answers of the store `known_support` are copied for them first.
    A resume copies none, so that it selects the same cases. Raises `StoreError` for a damaged store.
    """
    prints = {platform: fingerprint_of(pool.describe(platform)) for platform in dict.fromkeys(platforms)}
    if fresh and known_support is not None and known_support.is_dir():
        there = read_support(Store(known_support, create=False), {name: prints[name] for name in fresh})
        for platform, fingerprint in ((name, prints[name]) for name in fresh):
            rows = list(rows_of(platform, fingerprint, there.answers(fingerprint).values()))
            if rows:
                store.append("support", rows)
    return Eligibility(read_support(store, prints), frozenset(p for p in prints if _inference_only(pool, plan, p)))


def _inference_only(pool: JobRunner, plan: Plan, platform: PlatformName) -> bool:
    """Tells whether the platform runs no gradient operators: by the plan, else by its description."""
    wanted = plan.platforms[platform].gradients if platform in plan.platforms else None
    return bool(pool.describe(platform).get(INFERENCE_ONLY)) if wanted is None else not wanted
