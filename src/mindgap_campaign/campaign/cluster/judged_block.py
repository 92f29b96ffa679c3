"""Judges a block whose outcomes are there, and commits its rows."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from mindgap.graph.compare.reason import has
from mindgap.platforms.name import PlatformName
from mindgap.results.recording import Recording
from mindgap.results.rows import Row
from mindgap.results.store import Store, StoreError
from mindgap.results.store.commits import PendingRows
from mindgap.results.store.writer import Writer
from mindgap.run.outcome import Outcome
from mindgap_campaign.campaign.cases.case import Case
from mindgap_campaign.campaign.cluster.messages import (
    BlockChoice,
    CasesRun,
    ClusterSetup,
    JudgedBlock,
    SessionTerms,
)
from mindgap_campaign.campaign.judging.judge_process import JudgeProcess
from mindgap_campaign.campaign.schedule.block import OpenBlock
from mindgap_campaign.campaign.schedule.block_queues import BlockContext, BlockQueues
from mindgap_campaign.campaign.schedule.case_runner import CpuBudget
from mindgap_campaign.campaign.schedule.selection import BlockSelection
from mindgap_campaign.cluster.messages import Failure, checked, unpack


class GivenOutcomes:
    """Gives the outcomes of cases that ran elsewhere, as a `CaseRunner`."""

    def __init__(self, outcomes: Mapping[tuple[PlatformName, int], Outcome]) -> None:
        """`outcomes`: by platform and the index of the case."""
        self._outcomes = outcomes

    def run(self, platform: PlatformName, case: Case) -> Outcome:
        return self._outcomes[platform, case.index]

    def run_together(self, platform: PlatformName, cases: Sequence[Case]) -> Iterator[tuple[Case, Outcome]]:
        for case in cases:
            yield case, self._outcomes[platform, case.index]

    def close(self) -> None:
        """Does nothing: nothing runs."""


def outcomes_of(parts: Sequence[bytes]) -> tuple[list[CasesRun], dict[tuple[PlatformName, int], Outcome]]:
    """Unpacks results of `run_cases`: their summaries, and the outcomes by platform and index of the case.

    Raises the error of a part that ran again, in place of one that was lost, and failed.
    """
    ran: list[CasesRun] = []
    outcomes_by_case: dict[tuple[PlatformName, int], Outcome] = {}
    for data in parts:
        answer: tuple[CasesRun, list[Outcome]] | Failure = unpack(data)
        run, outcomes = checked(answer)
        ran.append(run)
        outcomes_by_case |= {(run.platform, index): each for index, each in zip(run.indices, outcomes, strict=True)}
    return ran, outcomes_by_case


def as_ran(choice: BlockChoice, cases: Sequence[Case], ran: Sequence[CasesRun]) -> BlockChoice:
    """Returns the choice without features that a platform with a budget was given by a part that is lost: the part that
    ran in its place did not run their cases."""
    by_index = {case.index: case for case in cases}
    given = dict(choice.given)
    for run in ran:
        if run.platform in choice.budgets and run.platform in given:
            met = {name for index in run.indices for name in by_index[index].features}
            given[run.platform] = [name for name in given[run.platform] if name in met]
    return replace(choice, given=given)


class RowCounts:
    """Counts rows, for the driver's progress. Thread-safe."""

    def __init__(self) -> None:
        self.words: Counter[tuple[str, str]] = Counter()
        self.statuses: Counter[tuple[str, str]] = Counter()
        self.cases = 0
        #: Whether a judge was killed from outside, so that a row is not judged.
        self.killed = False
        self._lock = threading.Lock()

    def case(self) -> None:
        with self._lock:
            self.cases += 1

    def row(self, row: Row) -> None:
        with self._lock:
            self.words[row.platform, row.word] += 1
            self.statuses[row.platform, row.status] += 1
            self.killed |= has(row.reasons, "worker_killed")

    def finished(self) -> None:
        """Does nothing: the driver counts the pairs of whole blocks."""

    def judge(self, change: int) -> None:
        """Does nothing: the driver counts the rows that wait."""


def commit_name(number: int) -> str:
    """Returns the name of a block's commit."""
    return f"{number:08d}"


def judge_block(
    setup: ClusterSetup,
    terms: SessionTerms,
    judges: Sequence[JudgeProcess],
    choice: BlockChoice,
    cases: Sequence[Case],
    outcomes: Mapping[tuple[PlatformName, int], Outcome],
    check_alive: Callable[[bool], None] = lambda killed: None,
) -> JudgedBlock:
    """Judges the rows of a block and commits them, unless the block is committed already. `cases`: those of the block.
    `check_alive`: raises an error if the session ends, so that nothing is committed. Its argument: whether a judge was
    killed from outside, as on a node that shuts down.

    The rows go through the queues of a campaign on one machine; only the outcomes are given. Raises `MindgapError` for
    a store that cannot be written, and `ClusterProblem` for a judge's job that is lost.
    """
    store = Store(setup.store, create=False)
    commits, name = store.commits(setup.run), commit_name(choice.number)
    if commits.committed(name):
        commits.settle([name])
        return committed_block(store, setup.run, choice.number)
    pending, counts = PendingRows(store), RowCounts()
    # All rows of the block in one segment for each table, written at its end.
    writer = Writer(pending, rows=1 << 40, nbytes=1 << 60, age_s=1e6, after=max(setup.after, store.last_stamp()))
    record = Recording(pending, writer, setup.plan.run_settings, terms.descriptions.__getitem__, "campaign", setup.run)
    by_index = {case.index: case for case in cases}
    orders = {platform: [by_index[index] for index in order] for platform, order in choice.orders.items()}
    selection = BlockSelection(
        orders,
        list(choice.features),
        {platform: list(names) for platform, names in choice.given.items()},
        Counter(dict(choice.refused)),
    )
    block = OpenBlock(choice.number, choice.position, list(cases), selection, {})
    budgets = {name: CpuBudget(left.seconds, left.blocks, left.spent) for name, left in choice.budgets.items()}
    context = BlockContext(
        setup.plan,
        terms.platforms,
        GivenOutcomes(outcomes),
        judges,
        record,
        counts,
        lambda platform, given: [],
        budgets,
        # A node's judges judge other blocks at the same time.
        owns_judges=False,
    )
    if not block.empty:
        run_block(context, block, cases)
    record.block(block.row(setup.shard, finished=True))
    writer.close()
    check_alive(counts.killed)
    if not commits.commit(name, pending):
        return committed_block(store, setup.run, choice.number)
    return JudgedBlock(choice.number, tuple(block.found), counts.cases, counts.words, counts.statuses)


def run_block(context: BlockContext, block: OpenBlock, cases: Sequence[Case]) -> None:
    """Takes one block through the queues, and waits for it. Raises the first error of any thread."""
    ended = threading.Event()
    queues = BlockQueues(context, lambda block: ended.set())
    queues.open(block, cases)
    while not ended.wait(0.05) and not queues.halted():
        pass
    queues.close()
    if queues.error is not None:
        raise queues.error


def committed_block(store: Store, run: str, number: int) -> JudgedBlock:
    """Reads what another process committed for a block. Raises `StoreError` if that was removed."""
    known = store.rows("SELECT found, cases FROM blocks WHERE run = ? AND block = ?", [run, number])
    if not known:
        raise StoreError(
            f"{store.url}: block {number} is committed, and its rows are gone: remove "
            f"{store.commits(run).url(commit_name(number))}, and it runs again"
        )
    (row,) = known
    return JudgedBlock(number, tuple(row["found"] or ()), row["cases"], mine=False)
