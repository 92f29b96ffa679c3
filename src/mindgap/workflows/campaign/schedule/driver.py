"""Drives the blocks of a campaign: the reference once per case, every platform once, a judge where outputs differ.

Each platform has a queue and a worker of its own. A few blocks are open at a time, so that a slow platform does not
hold up the others. Rows go to the store as soon as they are known.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from mindgap.graph import MindgapError
from mindgap.judge.pipeline.outcome_rows import compare_outcomes, is_traced, model_of, row_of_reference
from mindgap.platforms.name import PlatformName
from mindgap.results.recording import Recording
from mindgap.results.rows import Row
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool
from mindgap.workflows.campaign.cases.case import BLOCK, Case, CaseSource
from mindgap.workflows.campaign.judging.judge_process import JudgeProcess, case_job
from mindgap.workflows.campaign.schedule.block import OpenBlock, Saturation
from mindgap.workflows.campaign.schedule.selection import BlockSelector
from mindgap.workflows.campaign.state.directory import CampaignDirectory
from mindgap.workflows.campaign.state.expenses import Expenses
from mindgap.workflows.campaign.state.progress import Progress
from mindgap.workflows.campaign.state.references import StoredReferences
from mindgap.workflows.campaign.state.resume_state import FinishedPair, ResumeState, finding_key


class CpuBudget:
    """Spreads processor seconds evenly over the blocks of a campaign. Later blocks get what earlier ones left."""

    def __init__(self, seconds: float, blocks: int, spent: float = 0.0) -> None:
        self._seconds, self._blocks, self.spent = seconds, max(blocks, 1), spent

    def left(self, position: int) -> float:
        """Returns the seconds that the block at `position` (from 0) may still take."""
        return self._seconds * min(position + 1, self._blocks) / self._blocks - self.spent


#: So many cases that are loaded together have one more deadline.
_SHARED: Final = 4


def run_batch(pool: WorkerPool, batch: Sequence[tuple[Case, Job]]) -> Iterator[tuple[Case, Outcome]]:
    """Runs a batch and yields each case with its outcome. The timing `cpu` is in processor seconds.

    The time to load several cases together is divided evenly among them. If the worker ends during the batch, elapsed
    seconds replace its processor seconds.
    """
    if not batch:
        return
    platform = batch[0][1].platform
    meter = pool.meter(platform)
    started = time.monotonic()
    if len(batch) == 1:
        outcomes = [pool.run(batch[0][1])]
    else:
        # Loaded together they take less than one by one; a hang must not cost the sum of all deadlines.
        deadline_s = batch[0][1].deadline_s * (1 + len(batch) / _SHARED)
        outcomes = pool.run_together([job for _, job in batch], deadline_s)
    ended = any(outcome.status in ("crash", "timeout", "oom") for outcome in outcomes)
    taken = max(meter.read(), time.monotonic() - started if ended else 0.0) / len(batch)
    for (case, _), outcome in zip(batch, outcomes, strict=True):
        yield case, dataclasses.replace(outcome, timings={**outcome.timings, "cpu": taken})


_log = logging.getLogger(__name__)

#: Blocks that are under way at a time: while a slow platform is at its part of one, others go on.
_OPEN: Final = 8
#: Rows under way at a time of the platforms that get every variant: few enough that workers still hold the program of a
#: variant, and judges what they know of it, when its turn comes again. The others, mostly slower, hold nobody up.
_AHEAD: Final = 256
#: After so many blocks the store's small segments are put together.
_COMPACT: Final = 50


@dataclass(frozen=True)
class DriverContext:
    """The parts that the driver of one session uses. `budgets`: of the platforms that have one, or compile batches.
    `references`: what the reference gave in blocks that added platforms have still to run."""

    directory: CampaignDirectory
    case_source: CaseSource
    platforms: Sequence[PlatformName]
    pool: WorkerPool
    judges: Sequence[JudgeProcess]
    record: Recording
    selector: BlockSelector
    resume_state: ResumeState
    progress: Progress
    expenses: Expenses
    budgets: dict[PlatformName, CpuBudget] = field(default_factory=dict[PlatformName, CpuBudget])
    references: StoredReferences | None = None


class CampaignDriver:
    """Runs one session of a campaign."""

    def __init__(self, context: DriverContext) -> None:
        self._context = context
        self.plan = context.directory.plan
        self.numbers = list(context.directory.shard.blocks(self.plan.count))
        #: Why no further block begins; empty while there is no reason.
        self.stopped = ""
        self._started = time.monotonic()
        self._error: BaseException | None = None
        self._window = threading.BoundedSemaphore(_OPEN)
        #: Outcomes that wait for a judge, by the index of their case.
        self._waiting: dict[int, deque[Outcome]] = {}
        self._guard = threading.Lock()
        self._ahead = threading.BoundedSemaphore(_AHEAD)
        everything = {name for name, platform in self.plan.platforms.items() if platform.everything}
        self._rate_limited = everything - {self.plan.reference, *context.budgets}
        self._closing = False
        self._lacking = context.resume_state.lacking
        self._saturation = Saturation(self.numbers)
        #: The rows of blocks that only added platforms have still to run.
        self._before = {row["block"]: row for row in context.resume_state.blocks if row["block"] in self._lacking}
        for row in context.resume_state.finished_blocks:
            self._saturation.add(row["block"], row["features"] or (), row["found"] or ())
        names = dict.fromkeys([self.plan.reference, *context.platforms])
        self._queues = {name: ThreadPoolExecutor(1, f"mindgap-{name}") for name in names}
        self._judge_queues = [ThreadPoolExecutor(1, f"mindgap-judge-{index}") for index in range(len(context.judges))]

    def run(self) -> None:
        """Runs the unfinished blocks. Raises the first error of any thread, such as a full disk or an empty pool."""
        todo = [(at, number) for at, number in enumerate(self.numbers) if number not in self._context.resume_state.done]
        supplier = ThreadPoolExecutor(1, "mindgap-cases")
        try:
            ahead: Future[list[Case]] | None = None
            for step, (position, number) in enumerate(todo):
                if not self._room(number):
                    break
                ahead = ahead or supplier.submit(self._draw, number)
                cases = ahead.result()[: max(0, self.plan.count - number * BLOCK)]
                ahead = supplier.submit(self._draw, todo[step + 1][1]) if step + 1 < len(todo) else None
                if not cases and step == 0:
                    raise nothing_to_run(self._context.case_source)
                self._open(number, position, cases)
            for _ in range(_OPEN):
                self._acquire(self._window)
        except BaseException as error:
            self._fail(error)
        finally:
            self._close()
            supplier.shutdown(cancel_futures=True)
        if self._error is not None:
            raise self._error

    def _draw(self, number: int) -> list[Case]:
        return self._context.expenses.drawing(lambda: self._context.case_source.block(number))

    def _room(self, number: int) -> bool:
        """Waits until this block may begin. Returns False if it may not."""
        if not self._acquire(self._window):
            return False
        if number not in self._lacking and 0 < self.plan.stop.saturation <= self._saturation.idle:
            self.stopped = f"the last {self._saturation.idle} blocks brought nothing new"
            self._window.release()
            return False
        return True

    def _acquire(self, room: threading.Semaphore) -> bool:
        """Waits for room. Returns False if the session ends first."""
        while not self._halted():
            if room.acquire(timeout=0.2):
                return True
        return False

    def _halted(self) -> bool:
        """Tells whether queued work is left for a resume."""
        minutes = self.plan.stop.minutes
        if minutes and not self._closing and time.monotonic() - self._started > 60 * minutes:
            self.stopped = f"{minutes:g} minutes are over"
            return True
        return self._closing

    def _open(self, number: int, position: int, cases: list[Case]) -> None:
        selection = self._context.selector.choose(number, cases, self._lacking.get(number))
        for name in self._context.directory.added.keys() & selection.orders.keys():
            # The block's row tells by this which added platforms have run it.
            selection.given.setdefault(name, [])
        _log.info("block %d: %d cases, %d new features", number, len(cases), len(selection.features))
        block = OpenBlock(
            number, position, cases, selection, self._context.resume_state.pairs, self._before.get(number),
            self._context.references.block(number) if self._context.references and number in self._lacking else {},
        )  # fmt: skip
        self._context.progress.block(
            number, len(cases), block.pairs, len(self._context.selector.covered), len(selection.features)
        )
        if number not in self._lacking:
            self._context.record.block(block.row(self._context.directory.shard, finished=False))
        if block.empty:
            self._done(block)
            return
        reference = self._queues[self.plan.reference]
        gathered: dict[PlatformName, dict[int, Outcome]] = {platform: {} for platform in self._context.budgets}
        for case in block.order(cases):
            reference.submit(self._guarded, self._reference, block, case, gathered)
        for platform, outcomes in gathered.items():
            # In the reference's queue: when its turn comes, every outcome of the block is there.
            reference.submit(self._guarded, self._gathered, block, platform, outcomes)

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
                outcome = self._context.pool.run(case_job(self.plan, self.plan.reference, case.graph))
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
            elif platform not in self._rate_limited or self._acquire(self._ahead):
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
        outcome = self._context.pool.run(case_job(self.plan, platform, case.graph))
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
            block.selection.given[platform] = block.selection.given.get(platform, []) + self._context.selector.spent(
                platform, given
            )
            for _, pair in known:
                self._known(block, platform, pair)
            if not runs:
                for _ in fresh:
                    self._finished(block, platform, block.leave(platform))
                continue
            for case, outcome in run_batch(
                self._context.pool, [(case, case_job(self.plan, platform, case.graph)) for case in fresh]
            ):
                if self._closing:
                    return
                budget.spent += outcome.timings.get("cpu", 0.0)
                self._decide(block, case, outcome, references[case.index])
            if self._halted():
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
        while not self._halted():
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
        found = finding_key(row.platform, row.word, culprit, row.signature) if row.finding else ""
        self._finished(block, row.platform, block.finish(found))

    def _finished(self, block: OpenBlock, platform: PlatformName, last: bool) -> None:
        self._context.progress.finished()
        if platform in self._rate_limited:
            self._ahead.release()
        if last:
            self._done(block)

    def _done(self, block: OpenBlock) -> None:
        self._context.record.block(block.row(self._context.directory.shard, finished=True))
        self._context.record.expenses(self._context.expenses.rows(self._context.record.run, self._context.pool.cpu))
        _log.info("block %d is finished: %d distinct findings", block.number, len(block.found))
        self._saturation.add(block.number, block.selection.features, block.found)
        if block.position and block.position % _COMPACT == 0:
            self._context.directory.store.compact()
        self._window.release()

    def _record_case(self, case: Case, outcome: Outcome) -> None:
        if not case.description:
            self._context.record.keep(case.digest, case.data)
        graph = case.graph
        self._context.record.variant(case.name, graph, case.description)
        self._context.record.model(case.index, model_of(case.name, graph, outcome, {}), outcome)

    def _guarded(self, work: Callable[..., None], *arguments: Any) -> None:
        """Runs a task unless the session is ending. An exception of the task ends the session."""
        if self._halted():
            return
        try:
            work(*arguments)
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self._closing:
            self._error, self._closing = error, True

    def _close(self) -> None:
        """Waits for running work. If the session failed, ends it instead and records none of it."""
        queues: Iterable[ThreadPoolExecutor] = (*self._queues.values(), *self._judge_queues)
        if self._closing:
            for judge in self._context.judges:
                judge.close()
            self._context.pool.close()
        # Queues feed each other in this order: the reference's, the platforms', the judges'.
        for queue in queues:
            queue.shutdown(wait=True)


def nothing_to_run(case_source: CaseSource) -> MindgapError:
    """Returns the error for a case source without cases."""
    return MindgapError(f"no case could be made ({case_source.identity[:12]}): is the catalogue or the pool empty?")
