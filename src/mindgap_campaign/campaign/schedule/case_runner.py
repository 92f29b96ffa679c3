"""Runs the cases of a block on platforms, one by one or loaded together, within budgets of processor time."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from mindgap.platforms.name import PlatformName
from mindgap.run.cpu import CpuMeter
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool
from mindgap_campaign.campaign.cases.case import Case
from mindgap_campaign.campaign.judging.judge_process import case_job
from mindgap_campaign.campaign.plan import Plan

#: So many cases that are loaded together have one more deadline.
_SHARED: Final = 4


@dataclass(frozen=True)
class BudgetState:
    """A budget at one moment: `spent` of `seconds` for all `blocks`. `batch`: cases that are loaded together."""

    seconds: float
    blocks: int
    spent: float = 0.0
    batch: int = 1


class CpuBudget:
    """Spreads processor seconds evenly over the blocks of a campaign. Later blocks get what earlier ones left."""

    def __init__(self, seconds: float, blocks: int, spent: float = 0.0) -> None:
        self._seconds, self._blocks, self.spent = seconds, max(blocks, 1), spent

    def left(self, position: int) -> float:
        """Returns the seconds that the block at `position` (from 0) may still take."""
        return self._seconds * min(position + 1, self._blocks) / self._blocks - self.spent

    @property
    def now(self) -> BudgetState:
        """The budget as it is, to be sent elsewhere."""
        return BudgetState(self._seconds, self._blocks, self.spent)


def run_within(
    runner: CaseRunner, platform: PlatformName, order: Sequence[Case], batch: int, budget: CpuBudget, position: int
) -> dict[int, Outcome]:
    """Runs cases in their order, `batch` at a time, until the block's part of the budget is spent. Returns outcomes by
    the index of the case. `position`: of the block, from 0."""
    outcomes: dict[int, Outcome] = {}
    for first in range(0, len(order), batch):
        if budget.left(position) <= 0:
            break
        for case, outcome in runner.run_together(platform, order[first : first + batch]):
            budget.spent += outcome.timings.get("cpu", 0.0)
            outcomes[case.index] = outcome
    return outcomes


class CaseRunner(Protocol):
    """Gives the outcomes of cases on platforms. Thread-safe."""

    def run(self, platform: PlatformName, case: Case) -> Outcome:
        """Returns the outcome of one case. Raises `MindgapError` for bad input only."""
        ...

    def run_together(self, platform: PlatformName, cases: Sequence[Case]) -> Iterator[tuple[Case, Outcome]]:
        """Yields each case with its outcome. The timing `cpu` is in processor seconds."""
        ...

    def close(self) -> None:
        """Ends what runs."""
        ...


@dataclass(frozen=True)
class PoolRunner:
    """Runs cases in the workers of a pool."""

    plan: Plan
    pool: WorkerPool

    def run(self, platform: PlatformName, case: Case) -> Outcome:
        return self.pool.run(case_job(self.plan, platform, case.graph))

    def run_together(self, platform: PlatformName, cases: Sequence[Case]) -> Iterator[tuple[Case, Outcome]]:
        """The time to load several cases together is divided evenly among them. If the worker ends during the batch,
        elapsed seconds replace its processor seconds."""
        if not cases:
            return
        jobs = [case_job(self.plan, platform, case.graph) for case in cases]
        meter = CpuMeter(self.pool.cpu, platform)
        started = time.monotonic()
        outcomes = self._outcomes(jobs)
        ended = any(outcome.status in ("crash", "timeout", "oom") for outcome in outcomes)
        taken = max(meter.read(), time.monotonic() - started if ended else 0.0) / len(cases)
        for case, outcome in zip(cases, outcomes, strict=True):
            yield case, dataclasses.replace(outcome, timings={**outcome.timings, "cpu": taken})

    def close(self) -> None:
        self.pool.close()

    def _outcomes(self, jobs: Sequence[Job]) -> list[Outcome]:
        if len(jobs) == 1:
            return [self.pool.run(jobs[0])]
        # Loaded together they take less than one by one; a hang must not cost the sum of all deadlines.
        return self.pool.run_together(jobs, jobs[0].deadline_s * (1 + len(jobs) / _SHARED))
