"""Selects which platform runs which cases of a block.

Most platforms run every case. A platform with a quota or a budget runs the cases first that bring the most features it
has not seen, for their cost. What a platform was given is kept in the table `blocks`, so that a resumed campaign
selects the same cases.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mindgap.platforms.name import PlatformName
from mindgap_campaign.campaign.cases.case import BLOCK, Case
from mindgap_campaign.campaign.plan import Plan

#: What a graph costs before its first node, in nodes: a compiler's fixed price.
_FIXED = 50


class CaseFilter(Protocol):
    """Tells whether a platform refuses a case, before it runs."""

    def refuses(self, platform: PlatformName, case: Case) -> str | None:
        """Returns the operator of the case's graph that the platform is known to lack; None if none is known."""
        ...


@dataclass
class BlockSelection:
    """A block's cases by platform, in the order in which they run.

    `features`: features that no earlier block had. `given`: features that are new to a platform with a quota or budget.
    `refused`: (platform, missing operator) -> number of cases that it does not run.
    """

    orders: dict[PlatformName, list[Case]] = field(default_factory=dict[PlatformName, list[Case]])
    features: list[str] = field(default_factory=list[str])
    given: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    refused: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    def note_added(self, added: Iterable[PlatformName]) -> None:
        """Enters added platforms that run the block into `given`: its row shows by this which of them have run it."""
        for name in added:
            if name in self.orders:
                self.given.setdefault(name, [])


class BlockSelector:
    """Selects the cases of each block. Keeps the features covered so far, overall and by platform.

    Blocks must be passed in the order of their numbers.
    """

    def __init__(self, plan: Plan, platforms: Sequence[PlatformName], support: CaseFilter | None = None) -> None:
        self._plan, self._platforms, self._support = plan, platforms, support
        self.covered: set[str] = set()
        self._given: dict[PlatformName, set[str]] = {
            platform: set() for platform in platforms if not plan.platforms[platform].everything
        }

    def restore(self, features: Iterable[str], given: Mapping[str, Iterable[str]]) -> None:
        """Adds the features of a block that an earlier session selected."""
        self.covered.update(features)
        for platform, known in self._given.items():
            known.update(given.get(platform, ()))

    def choose(
        self,
        number: int,
        cases: Sequence[Case],
        platforms: Sequence[PlatformName] | None = None,
        support: CaseFilter | None = None,
    ) -> BlockSelection:
        """Selects each platform's cases of a block. `platforms`: only these. `support`: for this block, in place of the
        selector's."""
        support = support or self._support
        selection = BlockSelection(features=self._new(self.covered, cases))
        for platform in self._platforms if platforms is None else [p for p in self._platforms if p in platforms]:
            able = _able(platform, cases, selection.refused, support)
            wanted = self._plan.platforms[platform]
            if wanted.everything:
                selection.orders[platform] = together(able)
                continue
            known = self._given[platform]
            quota = self._quota(platform, number, len(cases)) if wanted.variants else len(able)
            taken = novel_first(able, known, quota)
            if wanted.cpu_minutes is None:
                selection.given[platform] = self._new(known, taken)
                selection.orders[platform] = together(taken)
            else:
                # What is given to it is known when its budget has been spent: see `spent`.
                selection.orders[platform] = taken
        return selection

    def spent(self, platform: PlatformName, cases: Sequence[Case]) -> list[str]:
        """Records the cases that a platform with a budget really ran. Returns features that are new to it.

        Features are counted for platforms that do not run every case.
        """
        return self._new(self._given[platform], cases) if platform in self._given else []

    def _quota(self, platform: PlatformName, number: int, cases: int) -> int:
        """Returns the block's part of the platform's `variants`, spread evenly over all blocks of the campaign."""
        count, most = self._plan.variants.count, self._plan.platforms[platform].variants or 0
        first = number * BLOCK
        return most * min(first + cases, count) // count - most * first // count

    @staticmethod
    def _new(known: set[str], cases: Iterable[Case]) -> list[str]:
        new = [name for name in dict.fromkeys(name for case in cases for name in case.features) if name not in known]
        known.update(new)
        return new


def _able(
    platform: PlatformName, cases: Sequence[Case], refused: Counter[tuple[str, str]], support: CaseFilter | None
) -> list[Case]:
    if support is None:
        return list(cases)
    able: list[Case] = []
    for case in cases:
        reason = support.refuses(platform, case)
        if reason is None:
            able.append(case)
        else:
            refused[platform, reason] += 1
    return able


def together(cases: Iterable[Case]) -> list[Case]:
    """Orders cases so that those of one base, which share inputs, are adjacent."""
    return sorted(cases, key=lambda case: (case.base, case.index))


def cost(case: Case) -> float:
    """Estimates the relative run time of a case."""
    return case.nodes + _FIXED


def novel_first(cases: Sequence[Case], known: set[str], quota: int) -> list[Case]:
    """Returns the `quota` cases with the most new features per cost, the best first; ties by number.

    Greedy: a case's new features are counted again after each choice, and their number never grows.
    """
    seen = set(known)

    def worth(case: Case) -> float:
        return sum(name not in seen for name in set(case.features)) / cost(case)

    heap = [(-worth(case), case.index, position) for position, case in enumerate(cases)]
    heapq.heapify(heap)
    taken: list[Case] = []
    while heap and len(taken) < quota:
        was, index, position = heapq.heappop(heap)
        case = cases[position]
        now = -worth(case)
        if now > was:
            heapq.heappush(heap, (now, index, position))
            continue
        taken.append(case)
        seen.update(case.features)
    return taken
