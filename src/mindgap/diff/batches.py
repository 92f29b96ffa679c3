"""Loads the graphs of several subjects together, on platforms that do that faster than one by one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final

from mindgap.diff.large_models import is_large
from mindgap.diff.subject_runner import CapturedSubject
from mindgap.graph import Graph
from mindgap.graph.sizes import input_bytes
from mindgap.pipeline.time_budget import TimeBudget
from mindgap.run.backend_lookup import batch_of
from mindgap.run.outcome import Prepared
from mindgap.run.pool import WorkerPool

#: The most operators of graphs that are loaded together. What a compiler does once for a batch costs little beside
#: more than these.
_OPERATORS: Final = 2000
#: The most bytes of their inputs: fewer than a worker keeps.
_INPUT_BYTES: Final = 512 << 20
#: So many graphs that are loaded together have one more deadline.
_SHARED: Final = 4


@dataclass(frozen=True, slots=True)
class Batches:
    """Groups subjects, and loads the graphs of a group in the workers of those `platforms` that load many at once.

    `platforms`: how many graphs each is best given together.
    """

    pool: WorkerPool
    platforms: Mapping[str, int]
    deadline_s: float
    budget: TimeBudget

    @classmethod
    def of(cls, pool: WorkerPool, platforms: Iterable[str], deadline_s: float, budget: TimeBudget) -> Batches:
        """Returns those of platforms that load many at once."""
        sizes = {platform: batch_of(platform) for platform in platforms}
        return cls(pool, {name: size for name, size in sizes.items() if size > 1}, deadline_s, budget)

    @property
    def size(self) -> int:
        """How many subjects are captured before the first of them runs."""
        return min(self.platforms.values(), default=1)

    def groups(self, captured: Sequence[CapturedSubject]) -> Iterator[list[CapturedSubject]]:
        """Yields the subjects in their order, in groups that are small enough to be loaded together. A large graph is
        a group of its own."""
        group: list[CapturedSubject] = []
        operators = held = 0
        for each in captured:
            nodes, size = len(each.graph.nodes), input_bytes(each.graph)
            full = operators + nodes > _OPERATORS or held + size > _INPUT_BYTES
            if group and (full or is_large(each.graph) or is_large(group[-1].graph)):
                yield group
                group, operators, held = [], 0, 0
            group.append(each)
            operators, held = operators + nodes, held + size
        if group:
            yield group

    def loaded(self, graphs: Sequence[Graph], threads: Executor) -> bool:
        """Loads the graphs on each of the platforms. Returns whether all workers survived that: where one did not, a
        smaller group may be loaded. A graph that cannot be loaded fails when it runs."""
        deadline_s = self.deadline_s * (1 + len(graphs) / _SHARED)
        if self.budget.until is not None:
            deadline_s = min(deadline_s, self.budget.until - time.monotonic())
        if deadline_s <= 0:
            # Its jobs say that the budget is used up.
            return True

        def prepare(platform: str) -> Prepared:
            return self.pool.prepare(platform, graphs, deadline_s)

        found = [*threads.map(prepare, self.platforms)]
        return all(prepared.status == "ok" for prepared in found) or self.budget.over
