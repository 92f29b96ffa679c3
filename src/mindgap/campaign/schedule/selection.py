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

from mindgap.campaign.cases.case import BLOCK, Case
from mindgap.campaign.plan import Plan
from mindgap.graph import Graph

#: What a graph costs before its first node, in nodes: a compiler's fixed price.
_FIXED = 50


class GraphFilter(Protocol):
    """Answers whether a platform refuses a graph, before anything runs."""

    def refuses(self, platform: str, graph: Graph) -> str | None:
        """What the platform is known to lack for this graph, None where nothing is known."""
        ...


@dataclass
class BlockSelection:
    """A block's cases by platform, in the order in which they run there.

    `features`: those that no block before had; `given`: by platform that chooses, those that it had not been given;
    `refused`: (platform, what it lacks) -> how many cases are not run there for it.
    """

    orders: dict[str, list[Case]] = field(default_factory=dict[str, list[Case]])
    features: list[str] = field(default_factory=list[str])
    given: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    refused: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])


class BlockSelector:
    """What was covered, and given to whom, so far. Blocks are selection for in the order of their numbers."""

    def __init__(self, plan: Plan, platforms: Sequence[str], support: GraphFilter | None = None) -> None:
        self._plan, self._platforms, self._support = plan, platforms, support
        self.covered: set[str] = set()
        self._given: dict[str, set[str]] = {
            platform: set() for platform in platforms if not plan.platforms[platform].everything
        }

    def restore(self, features: Iterable[str], given: Mapping[str, Iterable[str]]) -> None:
        """Takes up what a block that was selection for earlier brought."""
        self.covered.update(features)
        for platform, names in given.items():
            if platform in self._given:
                self._given[platform].update(names)

    def choose(self, number: int, cases: Sequence[Case]) -> BlockSelection:
        """Each platform's share of a block."""
        found = BlockSelection(features=self._new(self.covered, cases))
        for platform in self._platforms:
            able = self._able(platform, cases, found.refused)
            asked = self._plan.platforms[platform]
            if asked.everything:
                found.orders[platform] = together(able)
                continue
            known = self._given[platform]
            quota = self._quota(platform, number, len(cases)) if asked.variants else len(able)
            taken = novel_first(able, known, quota)
            if asked.cpu_minutes is None:
                found.given[platform] = self._new(known, taken)
                found.orders[platform] = together(taken)
            else:
                # What is given to it is known when its budget has been spent: see `spent`.
                found.orders[platform] = taken
        return found

    def spent(self, platform: str, cases: Sequence[Case]) -> list[str]:
        """Notes what a platform with a budget was really given of a block; says what of it was new."""
        return self._new(self._given[platform], cases)

    def _able(self, platform: str, cases: Sequence[Case], refused: Counter[tuple[str, str]]) -> list[Case]:
        if self._support is None:
            return list(cases)
        able: list[Case] = []
        for case in cases:
            reason = self._support.refuses(platform, case.graph)
            if reason is None:
                able.append(case)
            else:
                refused[platform, reason] += 1
        return able

    def _quota(self, platform: str, number: int, cases: int) -> int:
        """The block's part of the platform's `variants`, spread evenly over all blocks of the campaign."""
        count, most = self._plan.variants.count, self._plan.platforms[platform].variants or 0
        first = number * BLOCK
        return most * min(first + cases, count) // count - most * first // count

    @staticmethod
    def _new(known: set[str], cases: Iterable[Case]) -> list[str]:
        new = [name for name in dict.fromkeys(name for case in cases for name in case.features) if name not in known]
        known.update(new)
        return new


def together(cases: Iterable[Case]) -> list[Case]:
    """Cases of one base one after the other, for the inputs that they share."""
    return sorted(cases, key=lambda case: (case.base, case.index))


def cost(case: Case) -> float:
    """Roughly what a case takes, in any unit."""
    return case.nodes + _FIXED


def novel_first(cases: Sequence[Case], known: set[str], quota: int) -> list[Case]:
    """The `quota` cases that bring the most new features for what they cost, the best first; ties by number.

    Greedy: what a case brings is counted again once those before it have been taken, which never makes it more.
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
