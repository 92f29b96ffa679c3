"""What is known of platforms before a campaign runs, taken over when it begins and unchanged from then on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mindgap.campaign.support import Support, read_support, rows_of
from mindgap.graph import Graph
from mindgap.run.local import fingerprint_of
from mindgap.run.pool import WorkerPool
from mindgap.store import Store


class KnownSupport:
    """Answers by the names of platforms, for those that are today what they were when they were asked."""

    def __init__(self, support: Support) -> None:
        self._support = support

    @property
    def platforms(self) -> frozenset[str]:
        """Those that have been asked."""
        return frozenset(name for name, each in self._support.platforms.items() if self._support.answers(each))

    def refuses(self, platform: str, graph: Graph) -> str | None:
        """What the platform lacks for the graph, None where nothing says that it lacks any."""
        fingerprint = self._support.platforms.get(platform)
        return None if fingerprint is None else self._support.refuses(fingerprint, graph)


def known_support(
    store: Store, elsewhere: Path | None, pool: WorkerPool, platforms: Sequence[str], *, fresh: bool
) -> KnownSupport:
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
    return KnownSupport(read_support(store, prints))
