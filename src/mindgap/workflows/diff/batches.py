"""Loads the graphs of several subjects together, on platforms that do that faster than one by one."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final, cast

from mindgap.graph import Graph
from mindgap.graph.sizes import input_bytes
from mindgap.judge.pipeline.time_budget import TimeBudget
from mindgap.platforms.name import PlatformName
from mindgap.platforms.other_environment import BackendInEnvironment
from mindgap.platforms.protocol import Batching, PlatformError
from mindgap.platforms.registry import find
from mindgap.run.pool import WorkerPool
from mindgap.workflows.diff.large_models import is_large
from mindgap.workflows.diff.subject_runner import CapturedSubject

_log = logging.getLogger(__name__)
#: The most operators of graphs that are loaded together. For more of them the compilation itself takes nearly all of
#: the time, so a larger batch saves little.
_OPERATORS: Final = 2000
#: The most bytes of their inputs: half of those of the graphs that a worker keeps.
_INPUT_BYTES: Final = 512 << 20
#: Graphs that are loaded together have so many times the deadline of one.
_DEADLINES: Final = 2
#: Loading together may take this share of the time that is left of a budget: what is loaded is to run as well.
_OF_BUDGET: Final = 0.5


@dataclass(frozen=True, slots=True)
class Batches:
    """Groups subjects, and loads the graphs of a group in the workers of those `platforms` that load many at once.

    `platforms`: how many graphs each is best given together.
    """

    pool: WorkerPool
    platforms: Mapping[PlatformName, int]
    deadline_s: float
    budget: TimeBudget

    @classmethod
    def of(cls, pool: WorkerPool, platforms: Iterable[PlatformName], deadline_s: float, budget: TimeBudget) -> Batches:
        """Takes those of the platforms that load many at once. Raises `PlatformError`."""
        sizes = {platform: _batch_of(platform) for platform in platforms}
        return cls(pool, {name: size for name, size in sizes.items() if size > 1}, deadline_s, budget)

    @property
    def size(self) -> int:
        """How many subjects are captured before the first of them runs."""
        return min(self.platforms.values(), default=1)

    def groups(self, captured: Sequence[CapturedSubject]) -> Iterator[list[CapturedSubject]]:
        """Yields the subjects in their order, in groups that are small enough to be loaded together. A large graph is
        a separate group."""
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

    def load(self, graphs: Sequence[Graph], threads: Executor) -> None:
        """Loads the graphs on each of the platforms. What is not loaded then, because the worker ended or took too
        long, is loaded one by one when it runs."""
        deadline_s, until = _DEADLINES * self.deadline_s, None
        if self.budget.until is not None:
            now = time.monotonic()
            until = now + _OF_BUDGET * (self.budget.until - now)

        def prepare(platform: PlatformName) -> None:
            answers = self.pool.prepare(platform, graphs, deadline_s, until)
            if answers.held < len(graphs):
                held = f"{answers.held} of {len(graphs)} graphs were loaded together"
                _log.info("%s: %s; the others are loaded one by one: %s", platform, held, answers.message)

        for _ in threads.map(prepare, self.platforms):
            pass


def _batch_of(platform: PlatformName) -> int:
    """Returns how many small graphs the platform is best given together; 1 if it loads them one by one.

    Raises `PlatformError`, also for a backend whose `batch` is no positive integer.
    """
    backend, _ = find(platform)
    if isinstance(backend, BackendInEnvironment):
        backend = backend.backend
    if not isinstance(backend, Batching):
        return 1
    size = cast("object", backend.batch)
    if not isinstance(size, int) or size < 1:
        raise PlatformError(f"platform {platform!r}: its backend's `batch` is {size!r}, not a positive integer")
    return size
