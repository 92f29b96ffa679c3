"""Drives the blocks of a campaign on a cluster: each is a chain of tasks, of which only counts come back.

outline (any node) → selection (here, in the order of the numbers) → cases on the reference and on each platform (nodes
that have it) → judging and commit (any node).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mindgap.platforms.name import PlatformName
from mindgap_campaign.campaign.cluster.messages import BlockChoice, BlockOutline, CasesRun, JudgedBlock
from mindgap_campaign.campaign.cluster.nodes import ClusterNodes
from mindgap_campaign.campaign.cluster.tasks import block_task, cpu_task, task_error
from mindgap_campaign.campaign.schedule.block import OpenBlock
from mindgap_campaign.campaign.schedule.case_runner import BudgetState
from mindgap_campaign.campaign.schedule.driver import nothing_to_run, out_of_time, saturated, saturation_of
from mindgap_campaign.campaign.schedule.selection import BlockSelector
from mindgap_campaign.campaign.state.directory import CampaignDirectory
from mindgap_campaign.campaign.state.progress import Progress
from mindgap_campaign.campaign.state.resume_state import ResumeState
from mindgap_campaign.cluster.messages import checked, pack, unpack

_log = logging.getLogger(__name__)

#: Blocks under way for each that the platform on most nodes can run at a time: the next waits where one ends.
_AHEAD: Final = 2
_FEWEST: Final = 4
_POLL_S: Final = 0.5


@dataclass(frozen=True)
class ClusterContext:
    """The parts of one session on a cluster. `budgets`: (seconds, blocks, spent, batch) of the platforms that have a
    budget, or compile batches; without a limit, the seconds are infinite."""

    directory: CampaignDirectory
    nodes: ClusterNodes
    selector: BlockSelector
    resume_state: ResumeState
    progress: Progress
    budgets: dict[PlatformName, BudgetState] = field(default_factory=dict[PlatformName, BudgetState])


@dataclass
class _Chain:
    """A block under way: its selection, and where the outcomes of the platforms that ran are."""

    block: OpenBlock
    waiting: set[PlatformName]
    orders: dict[PlatformName, tuple[int, ...]]
    cases: dict[int, Any]
    budgets: dict[PlatformName, BudgetState] = field(default_factory=dict[PlatformName, BudgetState])
    outcomes: list[Any] = field(default_factory=list[Any])


class ClusterDriver:
    """Runs one session of a campaign on a cluster. One thread."""

    def __init__(self, context: ClusterContext) -> None:
        self._context, self.plan = context, context.directory.plan
        self._ray, self._session = context.nodes.ray, context.nodes.session
        #: Why no further block begins; empty while there is no reason.
        self.stopped = ""
        self._started = time.monotonic()
        numbers, done = context.directory.numbers, context.resume_state.done
        self._saturation = saturation_of(numbers, context.resume_state)
        self._todo = deque((at, number) for at, number in enumerate(numbers) if number not in done)
        self._first = self._todo[0][1] if self._todo else -1
        #: What each reference that is waited for means: (`outline` | `cases` | `judge`, block, platform).
        self._asked: dict[Any, tuple[str, int, PlatformName | None]] = {}
        #: Blocks whose outlines are requested, in order; outlines that are there.
        self._drawing: deque[tuple[int, int]] = deque()
        self._outlines: dict[int, BlockOutline] = {}
        self._chains: dict[int, _Chain] = {}
        self._large: dict[Any, Any] = {}
        #: Parts of platforms whose budget the block before has not spent yet.
        self._queued: dict[PlatformName, deque[int]] = {
            name: deque() for name, left in context.budgets.items() if left.seconds != float("inf")
        }
        self._spending: set[PlatformName] = set()
        self._budgets = dict(context.budgets)

    def run(self) -> None:
        """Runs the unfinished blocks. Raises the first error of any task. A resume runs what is not committed."""
        try:
            while self._more() or self._asked:
                self._context.nodes.watch()
                if self._over():
                    return
                ready: list[Any] = self._ray.wait(list(self._asked), timeout=_POLL_S)[0] if self._asked else []
                for reference in ready:
                    self._answered(reference)
        except self._ray.exceptions.RayError as error:
            raise task_error(self._ray, error) from None
        finally:
            for reference in self._asked:
                self._ray.cancel(reference, force=False)

    def _more(self) -> bool:
        """Begins blocks while there is room. Returns whether any block is left."""
        if self._todo and not self.stopped:
            self.stopped = saturated(self.plan.stop.saturation, self._saturation)
        if self.stopped:
            self._todo.clear()
        room = max(_FEWEST, _AHEAD * self._context.nodes.blocks_at_once())
        while self._todo and len(self._drawing) + len(self._chains) < room:
            position, number = self._todo.popleft()
            self._drawing.append((position, number))
            self._ask(cpu_task().remote(self._session, "outline", pack((number,))), "outline", number)
        return bool(self._todo)

    def _over(self) -> bool:
        over = out_of_time(self.plan.stop.minutes, self._started)
        self.stopped = over or self.stopped
        return bool(over)

    def _ask(self, reference: Any, what: str, number: int, platform: PlatformName | None = None) -> None:
        self._asked[reference] = (what, number, platform)

    def _answered(self, reference: Any) -> None:
        what, number, platform = self._asked.pop(reference)
        answer: Any = checked(unpack(self._ray.get(reference)))
        if what == "outline":
            self._outlines[number] = answer
            self._select()
        elif what == "cases":
            assert platform is not None
            self._ran(number, platform, answer, self._large.pop(reference))
        else:
            self._judged(answer)

    def _select(self) -> None:
        """Selects the cases of the blocks whose turn it is: in the order of the numbers, as on one machine."""
        while self._drawing and self._drawing[0][1] in self._outlines:
            position, number = self._drawing.popleft()
            outline = self._outlines.pop(number)
            if not outline.cases and number == self._first:
                raise nothing_to_run(self._context.directory.identity)
            self._open(number, position, outline)

    def _open(self, number: int, position: int, outline: BlockOutline) -> None:
        context = self._context
        selection = context.selector.choose(number, outline.cases, support=outline)
        selection.note_added(context.directory.added)
        block = OpenBlock(number, position, outline.cases, selection, {})
        context.progress.block(
            number, len(outline.cases), block.pairs, len(context.selector.covered), len(selection.features)
        )
        reference = self.plan.reference
        orders = {name: tuple(case.index for case in order) for name, order in selection.orders.items()}
        parts = {name: order for name, order in orders.items() if order and name != reference}
        if not block.empty:
            parts[reference] = tuple(case.index for case in block.order(outline.cases))
        chain = _Chain(block, {*parts}, orders, {case.index: case for case in outline.cases})
        self._chains[number] = chain
        for platform, order in parts.items():
            if platform in self._queued:
                self._queued[platform].append(number)
                self._spend(platform)
            else:
                self._run_part(number, platform, order, None if platform == reference else self._budgets.get(platform))
        if not chain.waiting:
            self._judge(number)

    def _spend(self, platform: PlatformName) -> None:
        """Runs the next part of a platform with a limited budget, once the part before has spent its budget."""
        if self._queued[platform] and platform not in self._spending:
            self._spending.add(platform)
            number = self._queued[platform].popleft()
            self._run_part(number, platform, self._chains[number].orders[platform], self._budgets[platform])

    def _run_part(
        self, number: int, platform: PlatformName, order: tuple[int, ...], budget: BudgetState | None
    ) -> None:
        chain = self._chains[number]
        if budget is not None:
            chain.budgets[platform] = budget
        arguments = (platform, number, chain.block.position, order, budget)
        outcomes, run = block_task(2, platform).remote(self._session, "run_cases", pack(arguments))
        self._large[run] = outcomes
        self._ask(run, "cases", number, platform)

    def _ran(self, number: int, platform: PlatformName, run: CasesRun, outcomes: Any) -> None:
        chain = self._chains[number]
        chain.outcomes.append(outcomes)
        chain.waiting.discard(platform)
        if platform == self.plan.reference:
            for _ in run.indices:
                self._context.progress.case()
        elif platform in chain.budgets:
            given = self._context.selector.spent(platform, [chain.cases[index] for index in run.indices])
            selection = chain.block.selection
            selection.given[platform] = selection.given.get(platform, []) + given
        if platform in self._spending:
            left = self._budgets[platform]
            self._budgets[platform] = replace(left, spent=left.spent + run.cpu_seconds)
            self._spending.discard(platform)
            self._spend(platform)
        if not chain.waiting:
            self._judge(number)

    def _judge(self, number: int) -> None:
        chain = self._chains[number]
        selection = chain.block.selection
        choice = BlockChoice(
            number,
            chain.block.position,
            chain.orders,
            tuple(selection.features),
            dict(selection.given),
            dict(selection.refused),
            chain.budgets,
        )
        self._context.progress.judge(chain.block.pairs)
        # References in a list are not fetched for the task that holds the resources.
        self._ask(cpu_task().remote(self._session, "judge", pack((choice,)), chain.outcomes), "judge", number)

    def _judged(self, judged: JudgedBlock) -> None:
        chain = self._chains.pop(judged.number)
        progress = self._context.progress
        progress.judge(-chain.block.pairs)
        progress.block_finished(chain.block.pairs, judged.words, judged.statuses)
        _log.info("block %d is finished: %d distinct findings", judged.number, len(judged.found))
        self._saturation.add(judged.number, chain.block.selection.features, judged.found)
