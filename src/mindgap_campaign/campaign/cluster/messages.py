"""Defines the messages between the driver and the nodes of a cluster. Their size does not depend on the graphs of a
block, except that of the outcomes, which go from node to node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mindgap.platforms.name import PlatformName
from mindgap.results.rows import PlatformFacts
from mindgap_campaign.campaign.cases.case import Case, CaseSourceFactory, Shard
from mindgap_campaign.campaign.plan import Plan
from mindgap_campaign.campaign.schedule.case_runner import BudgetState
from mindgap_campaign.campaign.schedule.eligibility import Eligibility


@dataclass(frozen=True)
class ClusterSetup:
    """What every node needs before it can do anything; sent once to each.

    `session`: a name of this driver's session that no other has. `files`: what the case source is opened from, by name.
    `code`: the digest of mindgap's source files. `store`: the directory or URL of the rows. `after`: rows get later
    stamps than this. `jobs`: workers of a node that run at the same time (None: one per core).
    """

    session: str
    plan: Plan
    run: str
    shard: Shard
    store: str
    factory: CaseSourceFactory
    files: Mapping[str, bytes]
    identity: str
    code: str
    after: int = 0
    jobs: int | None = None


@dataclass(frozen=True)
class NodeReport:
    """Describes a node: its host's name, and the facts and the description of each of the plan's platforms
    that it was started with."""

    host: str
    facts: Mapping[PlatformName, PlatformFacts] = field(default_factory=dict[PlatformName, PlatformFacts])
    descriptions: Mapping[PlatformName, Mapping[str, Any]] = field(
        default_factory=dict[PlatformName, Mapping[str, Any]]
    )


@dataclass(frozen=True)
class SessionTerms:
    """What holds for a session once all platforms are known, on every node.

    `fingerprints` and `descriptions`: of each platform, equal on all nodes that have it. `support`: what platforms
    refuse.
    """

    platforms: tuple[PlatformName, ...]
    fingerprints: Mapping[PlatformName, str]
    descriptions: Mapping[PlatformName, Mapping[str, Any]]
    support: Eligibility


@dataclass(frozen=True)
class BlockOutline:
    """The cases of a block without their graphs, and why platforms do not run some: (platform, index) -> reason."""

    cases: list[Case]
    refused: Mapping[tuple[PlatformName, int], str]

    def refuses(self, platform: PlatformName, case: Case) -> str | None:
        """Returns the operator for which the platform does not run the case; None if it runs it."""
        return self.refused.get((platform, case.index))


@dataclass(frozen=True)
class BlockChoice:
    """What a block is to run: indices of cases by platform, in their order; then what its row in the store holds."""

    number: int
    position: int
    orders: Mapping[PlatformName, tuple[int, ...]]
    features: tuple[str, ...]
    given: Mapping[str, list[str]]
    refused: Mapping[tuple[str, str], int]
    budgets: Mapping[PlatformName, BudgetState]


@dataclass(frozen=True)
class CasesRun:
    """The result of a platform's part of a block: the indices of the cases that ran, and their processor seconds."""

    platform: PlatformName
    indices: tuple[int, ...]
    cpu_seconds: float


@dataclass(frozen=True)
class JudgedBlock:
    """A block whose rows are committed. `found`: the keys of its findings. `words`, `statuses`: its rows, counted by
    (platform, word). `mine`: False where another driver's rows count."""

    number: int
    found: tuple[str, ...]
    cases: int = 0
    words: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    statuses: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    mine: bool = True
