"""The part of a campaign on one node of a cluster: an actor with the node's workers, judges and drawn blocks.

Its methods run in threads, called by the tasks of the node. A `MindgapError` is handed back as a `Failure`.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from mindgap.graph import MindgapError, default_tensor_store
from mindgap.platforms.environments.host import use_hosts_of_plan
from mindgap.platforms.name import PlatformName
from mindgap.results.store import Store
from mindgap.run.outcome import Outcome
from mindgap.run.pool import WorkerPool, describe_all, start_error
from mindgap.run.system import remove_leftovers
from mindgap.workflows.diff.platform_facts import facts_of
from mindgap_campaign.campaign.cases.case import BLOCK, Case
from mindgap_campaign.campaign.cluster.judged_block import as_ran, judge_block, outcomes_of
from mindgap_campaign.campaign.cluster.messages import (
    BlockChoice,
    BlockOutline,
    CasesRun,
    ClusterSetup,
    JudgedBlock,
    NodeReport,
    SessionTerms,
)
from mindgap_campaign.campaign.cluster.tasks import ClusterPool, sent_job
from mindgap_campaign.campaign.gathered import GatheredRuns
from mindgap_campaign.campaign.judging.judge_process import JudgeClosed, JudgeProcess, judge_limits, judge_processes
from mindgap_campaign.campaign.schedule.case_runner import BudgetState, CpuBudget, PoolRunner, run_within
from mindgap_campaign.campaign.state.expenses import Expenses
from mindgap_campaign.cluster import SHUTDOWN_S
from mindgap_campaign.cluster.connection import code_digest, ray_module
from mindgap_campaign.cluster.messages import ClusterProblem, Failure, pack, unpack

#: Drawn blocks that a node keeps: those of its platforms and judges come one after the other.
_BLOCKS: Final = 4
_PREFIX: Final = "mindgap-node-"
#: Seconds that a node waits for the terms of the session from the driver.
_TERMS_S: Final = 600.0


def _as_data(method: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a method return a `MindgapError` as a `Failure`, and an error of the node's disk too."""

    @wraps(method)
    def call(node: CampaignNode, *arguments: Any) -> Any:
        try:
            return method(node, *arguments)
        except (ClusterProblem, JudgeClosed) as error:
            return Failure(str(error), lost=True)
        except MindgapError as error:
            return Failure(str(error))
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            return Failure(f"node {node.host}: {error.strerror or error}{where}", lost=True)

    return call


def _folder() -> tempfile.TemporaryDirectory[str]:
    """Makes a temporary folder. Removes those of nodes that were killed."""
    remove_leftovers(Path(tempfile.gettempdir()), _PREFIX)
    return tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-")


class CampaignNode:
    """Runs the parts of blocks, and judges blocks, on one node. Thread-safe."""

    def __init__(self, setup: ClusterSetup, platforms: Sequence[PlatformName], cores: int) -> None:
        """`platforms`: those of the plan that the node was started with. `cores`: the processors that Ray gives it."""
        # Operators that are deprecated are run on purpose; PyTorch reads this when it is imported.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        self._setup, self._names = setup, tuple(platforms)
        self.host = socket.gethostname()
        self._busy = setup.jobs or max(cores, 1)
        self._limits = judge_limits(setup.plan, default_tensor_store())
        self._stack = ExitStack()
        self._lock, self._drawing = threading.Lock(), threading.Lock()
        self._blocks: OrderedDict[int, list[Case]] = OrderedDict()
        self._judges: list[JudgeProcess] = []
        self._terms: SessionTerms | None = None
        self._expenses = Expenses()
        self._begun, self._ending, self._closed = threading.Event(), threading.Event(), threading.Event()

    def live(self) -> None:
        """Returns when the node is closed; fails when its process or machine is lost."""
        self._closed.wait()

    @_as_data
    def look(self) -> NodeReport:
        """Opens the case source and the platforms. Raises `MindgapError` if this node would run something else than the
        driver, or cannot write where the rows go."""
        setup = self._setup
        if code_digest() != setup.code:
            raise MindgapError(
                f"node {self.host} has another mindgap than the driver ({version('mindgap')}, other source files): "
                "install the same one on all nodes"
            )
        use_hosts_of_plan(setup.plan.hosts)
        folder = Path(self._stack.enter_context(_folder()))
        for name, data in setup.files.items():
            (folder / name).write_bytes(data)
        self._source = setup.factory.reopen(setup.plan, folder)
        if self._source.identity != setup.identity:
            raise MindgapError(
                f"node {self.host} makes its cases of something else than the driver ({self._source.identity[:12]}, "
                f"there {setup.identity[:12]})"
            )
        self._check_place()
        facts = facts_of(self._names, reference=setup.plan.reference, skip_unavailable=False) if self._names else ()
        self._pool = self._stack.enter_context(
            WorkerPool(
                self._names, tensors=self._limits.tensors, busy=self._busy, memory_limit_bytes=self._limits.memory_bytes
            )
        )
        descriptions = describe_all(self._pool, self._names)
        for name, about in descriptions.items():
            if why := start_error(about):
                raise MindgapError(f"platform {name} cannot be opened on node {self.host}: {why}")
        self._gathered = GatheredRuns(self._pool, [n for n in self._names if self._batch(n) > 1])
        facts_by_name = {fact.platform: fact for fact in facts if fact.platform in self._names}
        return NodeReport(self.host, facts_by_name, {name: dict(about) for name, about in descriptions.items()})

    def begin(self, terms: SessionTerms) -> None:
        """Takes the terms of the session."""
        self._terms = terms
        self._begun.set()

    @_as_data
    def outline(self, number: int) -> BlockOutline:
        """Draws a block, and returns its cases without their graphs."""
        terms, cases = self._agreed(), self._block(number)
        refused = {
            (platform, case.index): reason
            for platform in terms.platforms
            for case in cases
            if (reason := terms.support.refuses(platform, case)) is not None
        }
        return BlockOutline([case.outline for case in cases], refused)

    def call(self, method: str, arguments: bytes, references: Sequence[Any]) -> bytes | tuple[bytes, bytes]:
        """Calls a method with packed arguments. Returns its result packed; of `run_cases`, the whole result and its
        summary, or an error in the place of both.

        The outcomes travel with their summary: if they are lost with a node, Ray runs the part again, of which other
        cases may fit into the budget.
        """
        answer: Any = getattr(self, method)(*unpack(arguments), *references)
        if method != "run_cases":
            return pack(answer)
        return pack(answer), pack(answer if isinstance(answer, Failure) else answer[0])

    @_as_data
    def run_cases(
        self, platform: PlatformName, number: int, position: int, indices: Sequence[int], budget: BudgetState | None
    ) -> tuple[CasesRun, list[Outcome]]:
        """Runs cases of a block on a platform of this node; with a budget, until the block's part of it is spent."""
        terms = self._agreed()
        cases = {case.index: case for case in self._block(number)}
        order, runner = [cases[index] for index in indices], PoolRunner(self._setup.plan, self._pool)
        if budget is None:
            outcomes = {case.index: runner.run(platform, case) for case in order}
        else:
            left = CpuBudget(budget.seconds, budget.blocks, budget.spent)
            outcomes = run_within(runner, platform, order, budget.batch, left, position)
        self._check_alive(outcomes.values())
        expected = terms.fingerprints[platform]
        for outcome in outcomes.values():
            if outcome.fingerprint not in ("", expected):
                raise MindgapError(
                    f"platform {platform} on node {self.host} is another than when the session began "
                    "(versions, hardware, settings): resume once it is the same on all nodes"
                )
        cpu = sum(outcome.timings.get("cpu", 0.0) for outcome in outcomes.values())
        return CasesRun(platform, tuple(outcomes), cpu), list(outcomes.values())

    @_as_data
    def job(self, header: Mapping[str, Any], arrays: Sequence[Any]) -> Outcome:
        """Runs one job of a judge or a survey."""
        outcome = self._gathered.run(sent_job(header, arrays))
        self._check_alive([outcome])
        return outcome

    @_as_data
    def judge(self, choice: BlockChoice, *parts: Any) -> JudgedBlock:
        """Judges a block and commits its rows. `parts`: references of the packed results of `run_cases`."""
        terms, cases = self._agreed(), self._block(choice.number)
        ran, known = outcomes_of(ray_module().get(list(parts)))
        choice = as_ran(choice, cases, ran)
        return judge_block(self._setup, terms, self._judges_of(terms), choice, cases, known, self._check_judges)

    def expenses(self) -> list[dict[str, Any]]:
        """Returns rows of the table `expenses` for this node so far."""
        rows = self._expenses.rows(self._setup.run, self._pool.cpu)
        return [{**row, "session": f"{self._setup.session} {self.host} {os.getpid()}"} for row in rows]

    def close(self) -> None:
        """Ends the node's processes."""
        self._ending.set()
        with self._lock:
            self._stack.close()
        self._closed.set()

    def _check_alive(self, outcomes: Iterable[Outcome] = ()) -> None:
        """Raises `ClusterProblem` if the session ends: what its end did to workers is no evidence of their platforms.

        A worker that was killed from outside may be the first process to end of a node that shuts down: waits for the
        others.
        """
        self._check_judges(
            any(outcome.reason is not None and outcome.reason.kind == "worker_killed" for outcome in outcomes)
        )

    def _check_judges(self, killed: bool) -> None:
        """Raises like `_check_alive`. `killed`: a process of the node was killed from outside."""
        if killed:
            self._ending.wait(SHUTDOWN_S)
        if self._ending.is_set():
            raise ClusterProblem(f"node {self.host}: the session has ended")

    def _agreed(self) -> SessionTerms:
        if not self._begun.wait(_TERMS_S) or self._terms is None:
            raise ClusterProblem(f"node {self.host}: the driver has not begun the session within {_TERMS_S:g} s")
        return self._terms

    def _block(self, number: int) -> list[Case]:
        """Draws a block, unless it is one of the latest. Case sources are not thread-safe."""
        with self._drawing:
            if number not in self._blocks:
                cases = self._expenses.drawing(lambda: self._source.block(number))[
                    : max(0, self._setup.plan.count - number * BLOCK)
                ]
                self._blocks[number] = cases
                if len(self._blocks) > _BLOCKS:
                    self._blocks.popitem(last=False)
            self._blocks.move_to_end(number)
            return self._blocks[number]

    def _judges_of(self, terms: SessionTerms) -> list[JudgeProcess]:
        with self._lock:
            if not self._judges:
                pool = ClusterPool(self._setup.session, terms.descriptions)
                self._judges = self._stack.enter_context(
                    judge_processes(self._busy, self._limits, pool.run, pool.describe, self._pool.cpu)
                )
            return self._judges

    def _batch(self, platform: PlatformName) -> int:
        plan_of = self._setup.plan.platforms.get(platform)
        return 1 if plan_of is None else plan_of.batch

    def _check_place(self) -> None:
        """Raises `MindgapError` if this node does not see the campaign's store, or cannot write there."""
        try:
            Store(self._setup.store, create=False).check_writable()
        except MindgapError as error:
            raise MindgapError(
                f"node {self.host} cannot use {self._setup.store}: {error} (all nodes write there: --out names a "
                "directory that they share, or --store an URL)"
            ) from None
