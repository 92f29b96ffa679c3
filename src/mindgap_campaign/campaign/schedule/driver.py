"""Drives the blocks of a campaign on this machine: draws and opens them, a few at a time, until none is left."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from mindgap.graph import MindgapError
from mindgap.run.cpu import CpuAccount
from mindgap_campaign.campaign.cases.case import BLOCK, Case, CaseSource
from mindgap_campaign.campaign.schedule.block import OpenBlock, Saturation
from mindgap_campaign.campaign.schedule.block_queues import BlockContext, BlockQueues
from mindgap_campaign.campaign.schedule.selection import BlockSelector
from mindgap_campaign.campaign.state.directory import CampaignDirectory
from mindgap_campaign.campaign.state.expenses import Expenses
from mindgap_campaign.campaign.state.progress import Progress
from mindgap_campaign.campaign.state.references import StoredReferences
from mindgap_campaign.campaign.state.resume_state import ResumeState

_log = logging.getLogger(__name__)

#: Blocks that are under way at a time: while a slow platform is at its part of one, others go on.
_OPEN: Final = 8
#: After so many blocks the store's small segments are put together.
_COMPACT: Final = 50


@dataclass(frozen=True)
class DriverContext:
    """The parts that the driver of one session uses. `account`: the processor time of its workers and judges.
    `references`: what the reference gave in blocks that added platforms have still to run."""

    directory: CampaignDirectory
    case_source: CaseSource
    blocks: BlockContext
    selector: BlockSelector
    resume_state: ResumeState
    progress: Progress
    expenses: Expenses
    account: CpuAccount
    references: StoredReferences | None = None


class CampaignDriver:
    """Runs one session of a campaign."""

    def __init__(self, context: DriverContext) -> None:
        self._context = context
        self.plan = context.directory.plan
        #: Why no further block begins; empty while there is no reason.
        self.stopped = ""
        self._started = time.monotonic()
        self._window = threading.BoundedSemaphore(_OPEN)
        self._lacking = context.resume_state.lacking
        #: The rows of blocks that only added platforms have still to run.
        self._before = {row["block"]: row for row in context.resume_state.blocks if row["block"] in self._lacking}
        self._saturation = saturation_of(context.directory.numbers, context.resume_state)
        self._queues = BlockQueues(context.blocks, self._done, self._over)

    def run(self) -> None:
        """Runs the unfinished blocks. Raises the first error of any thread, such as a full disk or an empty pool."""
        numbers, done = self._context.directory.numbers, self._context.resume_state.done
        todo = [(at, number) for at, number in enumerate(numbers) if number not in done]
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
                    raise nothing_to_run(self._context.case_source.identity)
                self._open(number, position, cases)
            for _ in range(_OPEN):
                self._queues.acquire(self._window)
        except BaseException as error:
            self._queues.fail(error)
        finally:
            self._queues.close()
            supplier.shutdown(cancel_futures=True)
        if self._queues.error is not None:
            raise self._queues.error

    def _draw(self, number: int) -> list[Case]:
        return self._context.expenses.drawing(lambda: self._context.case_source.block(number))

    def _room(self, number: int) -> bool:
        """Waits until this block may begin. Returns False if it may not."""
        if not self._queues.acquire(self._window):
            return False
        if number not in self._lacking:
            self.stopped = self.stopped or saturated(self.plan.stop.saturation, self._saturation)
        if self.stopped:
            self._window.release()
        return not self.stopped

    def _over(self) -> bool:
        over = "" if self._queues.closing else out_of_time(self.plan.stop.minutes, self._started)
        self.stopped = over or self.stopped
        return bool(over)

    def _open(self, number: int, position: int, cases: list[Case]) -> None:
        selection = self._context.selector.choose(number, cases, self._lacking.get(number))
        selection.note_added(self._context.directory.added)
        _log.info("block %d: %d cases, %d new features", number, len(cases), len(selection.features))
        block = OpenBlock(
            number, position, cases, selection, self._context.resume_state.pairs, self._before.get(number),
            self._context.references.block(number) if self._context.references and number in self._lacking else {},
        )  # fmt: skip
        self._context.progress.block(
            number, len(cases), block.pairs, len(self._context.selector.covered), len(selection.features)
        )
        if number not in self._lacking:
            self._context.blocks.record.block(block.row(self._context.directory.shard, finished=False))
        if block.empty:
            self._done(block)
        else:
            self._queues.open(block, cases)

    def _done(self, block: OpenBlock) -> None:
        record = self._context.blocks.record
        record.block(block.row(self._context.directory.shard, finished=True))
        record.expenses(self._context.expenses.rows(record.run, self._context.account))
        _log.info("block %d is finished: %d distinct findings", block.number, len(block.found))
        self._saturation.add(block.number, block.selection.features, block.found)
        if block.position and block.position % _COMPACT == 0:
            self._context.directory.store.compact()
        self._window.release()


def saturation_of(numbers: list[int], resume_state: ResumeState) -> Saturation:
    """Returns the saturation after the blocks that earlier sessions have finished. `numbers`: all blocks, in order."""
    saturation = Saturation(numbers)
    for row in resume_state.finished_blocks:
        saturation.add(row["block"], row["features"] or (), row["found"] or ())
    return saturation


def saturated(most: int, saturation: Saturation) -> str:
    """Returns why no further block begins, if the latest blocks brought nothing new; else an empty string. `most`: so
    many in a row (0: any number)."""
    return f"the last {saturation.idle} blocks brought nothing new" if 0 < most <= saturation.idle else ""


def out_of_time(minutes: float, started: float) -> str:
    """Returns why a session that `started` then (`time.monotonic`) ends, once its minutes are over (0: it has no such
    limit); else an empty string."""
    return f"{minutes:g} minutes are over" if minutes and time.monotonic() - started > 60 * minutes else ""


def nothing_to_run(identity: str) -> MindgapError:
    """Returns the error for a case source without cases."""
    return MindgapError(f"no case could be made ({identity[:12]}): is the catalogue or the pool empty?")
