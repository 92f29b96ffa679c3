"""Takes blocks through their queues: the reference once per case, every platform once, a judge where outputs differ.

Each platform has a queue, so that a slow one does not hold up the others. Rows are recorded as soon as they
are known.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Protocol

from mindgap.judge.pipeline.outcome_rows import compare_outcomes, is_traced, model_of, row_of_reference
from mindgap.platforms.name import PlatformName
from mindgap.results.recording import Recording
from mindgap.results.rows import Row
from mindgap.run.outcome import Outcome
from mindgap_campaign.campaign.cases.case import Case
from mindgap_campaign.campaign.judging.judge_process import JudgeProcess
from mindgap_campaign.campaign.plan import Plan
from mindgap_campaign.campaign.schedule.block import OpenBlock
from mindgap_campaign.campaign.schedule.case_runner import CaseRunner, CpuBudget
from mindgap_campaign.campaign.state.resume_state import FinishedPair, finding_key

_log = logging.getLogger(__name__)

#: Rows under way at a time of the platforms that get every variant: few enough that workers still hold the program of a
#: variant, and judges what they know of it, when its turn comes again. The others, mostly slower, delay no other.
_AHEAD: Final = 256


class RowProgress(Protocol):
    """Counts what becomes of a block's cases and rows. Thread-safe."""

    def case(self) -> None:
        """Counts a case that the reference has run."""
        ...

    def row(self, row: Row) -> None: ...

    def finished(self) -> None:
        """Counts a pair of case and platform that has its row or is left out."""
        ...

    def judge(self, change: int) -> None:
        """Adds `change` to the number of rows that wait for a judge."""
        ...


@dataclass(frozen=True)
class BlockContext:
    """What the blocks of a campaign are run with.

    `runner`: gives the outcomes of cases. `spent`: gets which cases a platform that does not run every case really
    ran, and returns the features that are new to it. `budgets`: of the platforms that have one, or compile batches.
    `owns_judges`: whether the judges end when the queues fail; not where other queues use them too.
    """

    plan: Plan
    platforms: Sequence[PlatformName]
    runner: CaseRunner
    judges: Sequence[JudgeProcess]
    record: Recording
    progress: RowProgress
    spent: Callable[[PlatformName, Sequence[Case]], list[str]]
    budgets: Mapping[PlatformName, CpuBudget]
    owns_judges: bool = True


class BlockQueues:
    """Runs and judges the pairs of open blocks. The first error of any thread ends all queues (`error`)."""

    def __init__(
        self, context: BlockContext, done: Callable[[OpenBlock], None], stopped: Callable[[], bool] = lambda: False
    ) -> None:
        """`done`: receives each block whose last pair has its row. `stopped`: whether queued work is left undone."""
        self._context, self._done, self._stopped = context, done, stopped
        self.plan = context.plan
        self.error: BaseException | None = None
        self._closing = False
        #: Outcomes that wait for a judge, by the index of their case.
        self._waiting: dict[int, deque[Outcome]] = {}
        self._guard = threading.Lock()
        self._ahead = threading.BoundedSemaphore(_AHEAD)
        everything = {name for name, platform in self.plan.platforms.items() if platform.everything}
        self._rate_limited = everything - {self.plan.reference, *context.budgets}
        names = dict.fromkeys([self.plan.reference, *context.platforms])
        self._queues = {name: ThreadPoolExecutor(1, f"mindgap-{name}") for name in names}
        self._judge_queues = [ThreadPoolExecutor(1, f"mindgap-judge-{index}") for index in range(len(context.judges))]

    def open(self, block: OpenBlock, cases: Sequence[Case]) -> None:
        """Begins a block that has pairs to run."""
        reference = self._queues[self.plan.reference]
        gathered: dict[PlatformName, dict[int, Outcome]] = {platform: {} for platform in self._context.budgets}
        for case in block.order(cases):
            reference.submit(self._guarded, self._reference, block, case, gathered)
        for platform, outcomes in gathered.items():
            # In the reference's queue: when its turn comes, every outcome of the block is there.
            reference.submit(self._guarded, self._gathered, block, platform, outcomes)

    def halted(self) -> bool:
        """Tells whether queued work is left for a resume."""
        return self._closing or self._stopped()

    def acquire(self, room: threading.Semaphore) -> bool:
        """Waits for room. Returns False if the queues end first."""
        while not self.halted():
            if room.acquire(timeout=0.2):
                return True
        return False

    def fail(self, error: BaseException) -> None:
        """Ends the queues for this reason, unless they end already."""
        if not self._closing:
            self.error, self._closing = error, True

    @property
    def closing(self) -> bool:
        """Whether the queues end, and record nothing more."""
        return self._closing

    def close(self) -> None:
        """Waits for running work. If the queues failed, ends it instead and records none of it."""
        queues: Iterable[ThreadPoolExecutor] = (*self._queues.values(), *self._judge_queues)
        if self._closing:
            for judge in self._context.judges if self._context.owns_judges else ():
                judge.close()
            self._context.runner.close()
        # Queues feed each other in this order: the reference's, the platforms', the judges'.
        for queue in queues:
            queue.shutdown(wait=True)

    # What follows runs in the queues.

    def _reference(self, block: OpenBlock, case: Case, gathered: dict[PlatformName, dict[int, Outcome]]) -> None:
        """Runs the reference on one case, then queues its platforms; those with a budget when the block is done.

        Where platforms were added, the reference has run: a judge runs it again only where it needs values.
        """
        platforms = block.platforms_of(case)
        waiting = [platform for platform in platforms if block.known(case, platform) is None]
        outcome: Outcome | None = None
        if waiting:
            outcome = block.references.get(case.name)
            if outcome is None:
                outcome = self._context.runner.run(self.plan.reference, case)
                if self._closing:
                    return
                self._record_case(case, outcome)
        self._context.progress.case()
        for platform in platforms:
            if platform in gathered:
                if outcome is not None:
                    gathered[platform][case.index] = outcome
            elif platform == self.plan.reference:
                self._itself(block, case, outcome)
            elif platform not in self._rate_limited or self.acquire(self._ahead):
                self._queues[platform].submit(self._guarded, self._case, block, platform, case, outcome)

    def _itself(self, block: OpenBlock, case: Case, outcome: Outcome | None) -> None:
        """Records the reference's row, where the reference is also one of the platforms. It is not run again."""
        known = block.known(case, self.plan.reference)
        if known is not None:
            self._known(block, self.plan.reference, known)
        elif outcome is not None:
            self._row(block, case, row_of_reference(case.name, outcome), None)

    def _gathered(self, block: OpenBlock, platform: PlatformName, outcomes: dict[int, Outcome]) -> None:
        self._queues[platform].submit(self._guarded, self._budgeted, block, platform, outcomes)

    def _case(self, block: OpenBlock, platform: PlatformName, case: Case, reference: Outcome | None) -> None:
        """Runs one case on one platform."""
        known = block.known(case, platform)
        if known is not None:
            self._known(block, platform, known)
            return
        assert reference is not None, "the reference runs whatever a platform has still to run"
        outcome = self._context.runner.run(platform, case)
        if not self._closing:
            self._decide(block, case, outcome, reference)

    def _budgeted(self, block: OpenBlock, platform: PlatformName, references: dict[int, Outcome]) -> None:
        """Runs a block's cases on a platform with a budget, most novel first, until the block's part is spent."""
        budget, size = self._context.budgets[platform], self.plan.platforms[platform].batch
        order = block.selection.orders[platform]
        for first in range(0, len(order), size):
            batch = order[first : first + size]
            known = [(case, pair) for case in batch if (pair := block.known(case, platform)) is not None]
            fresh = [case for case in batch if block.known(case, platform) is None]
            runs = bool(fresh) and budget.left(block.position) > 0
            # Before anything of it can end the block, whose row holds it.
            given = [case for case, _ in known] + (fresh if runs else [])
            block.selection.given[platform] = block.selection.given.get(platform, []) + self._context.spent(
                platform, given
            )
            for _, pair in known:
                self._known(block, platform, pair)
            if not runs:
                for _ in fresh:
                    self._finished(block, platform, block.leave(platform))
                continue
            for case, outcome in self._context.runner.run_together(platform, fresh):
                if self._closing:
                    return
                budget.spent += outcome.timings.get("cpu", 0.0)
                self._decide(block, case, outcome, references[case.index])
            if self.halted():
                return

    def _known(self, block: OpenBlock, platform: PlatformName, pair: FinishedPair) -> None:
        """Counts a pair that an earlier session finished like one that ran now."""
        if pair.word == "failed":
            block.follows(platform, pair.signature, pair.op)
        self._finished(block, platform, block.finish(pair.finding))

    def _decide(self, block: OpenBlock, case: Case, outcome: Outcome, reference: Outcome) -> None:
        """Records the row if it needs no judge; else puts it into the judge queue."""
        row = compare_outcomes(case.name, outcome, reference)
        traced = (
            row is not None
            and is_traced(row, self.plan.limits.trace)
            and block.follows(outcome.platform, outcome.signature, outcome.op)
        )
        if row is not None and not traced:
            self._row(block, case, row, outcome)
            return
        # One judge for all platforms of a case, and all that differ in a row: it keeps what it knows of the graph.
        queue = int(case.digest[:8], 16) % len(self._context.judges)
        self._context.progress.judge(1)
        with self._guard:
            first = case.index not in self._waiting
            self._waiting.setdefault(case.index, deque()).append(outcome)
        if first:
            self._judge_queues[queue].submit(self._guarded, self._judge, block, case, reference, queue)

    def _judge(self, block: OpenBlock, case: Case, reference: Outcome, queue: int) -> None:
        """Judges a case on every platform in its queue, including platforms that join meanwhile."""
        while not self.halted():
            with self._guard:
                if not self._waiting[case.index]:
                    del self._waiting[case.index]
                    return
                outcome = self._waiting[case.index].popleft()
            row = self._context.judges[queue].row(case, outcome, reference)
            self._context.progress.judge(-1)
            if not self._closing:
                self._row(block, case, row, outcome)

    def _row(self, block: OpenBlock, case: Case, row: Row, outcome: Outcome | None) -> None:
        if row.finding or row.broken:
            self._context.record.keep(case.digest, case.data)
        self._context.record.row(case.digest, row, outcome)
        self._context.progress.row(row)
        culprit = row.culprit.op if row.culprit else None
        key = finding_key(row.platform, row.word, culprit, row.signature) if row.finding else ""
        self._finished(block, row.platform, block.finish(key))

    def _finished(self, block: OpenBlock, platform: PlatformName, last: bool) -> None:
        self._context.progress.finished()
        if platform in self._rate_limited:
            self._ahead.release()
        if last:
            self._done(block)

    def _record_case(self, case: Case, outcome: Outcome) -> None:
        if not case.description:
            self._context.record.keep(case.digest, case.data)
        graph = case.graph
        self._context.record.variant(case.name, graph, case.description)
        self._context.record.model(case.index, model_of(case.name, graph, outcome, {}), outcome)

    def _guarded(self, work: Callable[..., None], *arguments: Any) -> None:
        """Runs a task unless the session is ending. An exception of the task ends the session."""
        if self.halted():
            return
        try:
            work(*arguments)
        except BaseException as error:
            self.fail(error)
