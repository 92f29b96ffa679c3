"""Begins and resumes campaigns: opens platforms, surveys, prepares cases, and hands over to the driver."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Final, Protocol

from mindgap.graph import MindgapError, TensorStore, default_tensor_store
from mindgap.platforms.environments.host import use_hosts_of_plan
from mindgap.platforms.name import PlatformName
from mindgap.results.recording import Recording
from mindgap.results.rows import PlatformFacts
from mindgap.results.store import Store
from mindgap.run.gathered import GatheredRuns
from mindgap.run.local import fingerprint_of
from mindgap.run.pool import JobRunner, WorkerPool
from mindgap.run.system import memory_bytes
from mindgap.workflows.campaign.cases.case import BLOCK, CaseSource, CaseSourceFactory, Shard
from mindgap.workflows.campaign.cluster.judged_block import commit_name
from mindgap.workflows.campaign.judging.judge_process import judge_limits, judge_processes
from mindgap.workflows.campaign.plan import Plan
from mindgap.workflows.campaign.schedule.block_queues import BlockContext
from mindgap.workflows.campaign.schedule.case_runner import CpuBudget, PoolRunner
from mindgap.workflows.campaign.schedule.driver import CampaignDriver, DriverContext
from mindgap.workflows.campaign.schedule.eligibility import Eligibility, read_eligibility
from mindgap.workflows.campaign.schedule.selection import BlockSelector
from mindgap.workflows.campaign.state.directory import (
    CampaignDirectory,
    SupportOptions,
    check_identity,
    create_directory,
    open_directory,
    refuse_begun,
)
from mindgap.workflows.campaign.state.expenses import Expenses
from mindgap.workflows.campaign.state.progress import Progress
from mindgap.workflows.campaign.state.resume_state import ResumeState, read_resume_state
from mindgap.workflows.campaign.state.session_file import published
from mindgap.workflows.campaign.state.status import CampaignStatus, campaign_status, planned_cases
from mindgap.workflows.campaign.state.steps import StepTracker
from mindgap.workflows.diff.platform_facts import facts_of
from mindgap.workflows.support.graph_survey import SurveyLimits, may_lack, survey_graphs

#: A session that is killed loses what its writer holds: at most so many rows, or what is so old.
WRITER_ROWS: Final = 4096
WRITER_AGE_S: Final = 10.0
#: Judges beside one for each worker at a time, where a platform compiles batches: so many of their jobs are compiled
#: together.
_JUDGES_OF_BATCHES: Final = 10


@dataclass(frozen=True)
class RunOptions:
    """Options of one session. No result depends on them.

    `jobs`: workers that run at the same time (default: one per core). `steps`: receives the current step and its
    progress. `notify`: receives one-line warnings. `tensors`: the store of large tensors. `support`: a store of survey
    answers, read when a campaign begins; answers that it lacks are surveyed first, for `coverage_minutes` of processor
    time per platform (default: the plan's), and stored there. None: no store is read and no platform is surveyed.
    `whole_process`: charge the campaign for all processor time of this process. `store_url`: where a new campaign keeps
    its rows, if not in its directory.
    """

    jobs: int | None = None
    steps: StepTracker = field(default_factory=StepTracker)
    notify: Callable[[str], None] = lambda line: None
    tensors: TensorStore | None = None
    support: Path | None = None
    coverage_minutes: float | None = None
    whole_process: bool = False
    store_url: str = ""


@dataclass(frozen=True)
class Session:
    """What a session has before its platforms are opened."""

    directory: CampaignDirectory
    factory: CaseSourceFactory
    case_source: CaseSource
    options: RunOptions
    expenses: Expenses


class SessionPlace(Protocol):
    """Where the platforms of a session run."""

    def reached(self, plan: Plan, options: RunOptions, *, fresh: bool) -> AbstractContextManager[None]:
        """Is entered before any work is done. `fresh`: of a new campaign. Raises `MindgapError` if it is not reached,
        or a platform of a new campaign is absent."""
        ...

    def run(self, session: Session) -> str:
        """Runs the unfinished blocks. Returns why it stopped early; empty if everything ran."""
        ...


class ThisMachine:
    """Runs sessions on this machine."""

    @contextmanager
    def reached(self, plan: Plan, options: RunOptions, *, fresh: bool) -> Generator[None]:
        if fresh:
            _facts(plan, options)
        yield

    def run(self, session: Session) -> str:
        return _session(session)


THIS_MACHINE: Final = ThisMachine()


def begin(
    plan: Plan, text: str, path: str | Path, source: CaseSourceFactory, *, shard: Shard | None = None, where: str = "",
    options: RunOptions | None = None, place: SessionPlace = THIS_MACHINE,
) -> CampaignStatus:  # fmt: skip
    """Begins a campaign in a new or empty directory and runs it. `text`: the text of the plan's file.

    Raises `MindgapError` if the directory holds a campaign, a platform is absent, no case can be made or the disk is
    full. Rows until then are in the store; `resume_campaign` continues from them.
    """
    path = Path(path)
    refuse_begun(path)
    plan = plan.model_copy(update={"catalogue": os.path.abspath(plan.catalogue)})
    options = options or RunOptions()
    use_hosts_of_plan(plan.hosts)
    # Reports an absent platform before any work is done.
    options.steps.step("looking for the plan's platforms")
    with ExitStack() as stack:
        stack.enter_context(place.reached(plan, options, fresh=True))
        Store(options.store_url or path)
        options.steps.step("loading what the cases are made of")
        path.mkdir(parents=True, exist_ok=True)
        stack.enter_context(published(path, options.steps))
        expenses = Expenses(whole_process=options.whole_process)
        with expenses.preparing():
            case_source = source.begin(plan, path)
        minutes = plan.limits.coverage_minutes if options.coverage_minutes is None else options.coverage_minutes
        support_options = SupportOptions(None if options.support is None else os.path.abspath(options.support), minutes)
        directory = create_directory(
            path, plan, text, shard or Shard(), case_source.identity, where, support_options, options.store_url
        )
        stopped = place.run(Session(directory, source, case_source, options, expenses))
    return replace(campaign_status(directory), stopped=stopped)


def resume_campaign(
    path: str | Path,
    source: CaseSourceFactory,
    *,
    options: RunOptions | None = None,
    place: SessionPlace = THIS_MACHINE,
) -> CampaignStatus:
    """Runs the unfinished part of a campaign. Raises `MindgapError` like `begin`, and if the plan was changed."""
    directory, options = open_directory(path), options or RunOptions()
    with place.reached(directory.plan, options, fresh=False):
        options.steps.step("loading what the cases are made of")
        with published(directory.path, options.steps):
            expenses = Expenses(whole_process=options.whole_process)
            with expenses.preparing():
                case_source = source.reopen(directory.plan, directory.path)
            check_identity(directory, case_source.identity)
            stopped = place.run(Session(directory, source, case_source, options, expenses))
    return replace(campaign_status(directory), stopped=stopped)


def _session(session: Session) -> str:
    """Runs the unfinished blocks on this machine. Returns why it stopped early; empty if everything ran."""
    started = perf_counter()
    directory, case_source, options, expenses = (
        session.directory, session.case_source, session.options, session.expenses
    )  # fmt: skip
    plan, store, steps = directory.plan, directory.store, options.steps
    steps.step("reading what has run")
    resume_state = settled_state(store, directory)
    facts, platforms = _facts(plan, options)
    limits = judge_limits(plan, options.tensors or default_tensor_store())
    busy = options.jobs or os.cpu_count() or 2
    with ExitStack() as stack:
        steps.step(f"starting the workers of {', '.join(dict.fromkeys([plan.reference, *platforms]))}")
        pool = stack.enter_context(
            WorkerPool(
                [plan.reference, *platforms], tensors=limits.tensors, busy=busy, memory_limit_bytes=limits.memory_bytes
            )
        )
        platforms = _able(pool, plan, platforms, options)
        warn_of_changes(store, directory.run, pool, [plan.reference, *platforms], options)
        # Before the run is there: where it is, everything that its choices depend on is.
        support = support_of(directory, case_source, pool, platforms, options, fresh=resume_state.created is None)
        writer = stack.enter_context(store.writer(rows=WRITER_ROWS, age_s=WRITER_AGE_S))
        record = Recording(store, writer, limits.settings, pool.describe, "campaign", directory.run)
        begin_record(record, directory, resume_state, facts, platforms)
        selector = BlockSelector(plan, platforms, support)
        for row in resume_state.finished_blocks:
            selector.restore(row["features"] or (), row["given"] or {})
        gathered = [name for name in platforms if plan.platforms[name].batch > 1]
        # Judges mostly wait for a compiler that takes their jobs together.
        fitting = memory_bytes() // limits.memory_bytes
        count = max(busy, min(busy + _JUDGES_OF_BATCHES, fitting)) if gathered else busy
        execute = GatheredRuns(pool, gathered).run
        judges = stack.enter_context(judge_processes(count, limits, execute, pool.describe, pool.cpu))
        progress = Progress(planned_cases(plan, directory.shard), done_cases(resume_state, plan))
        budgets = budgets_of(directory, platforms, resume_state)
        runner = PoolRunner(plan, pool)
        blocks = BlockContext(plan, platforms, runner, judges, record, progress, selector.spent, budgets)
        drive = CampaignDriver(
            DriverContext(directory, case_source, blocks, selector, resume_state, progress, expenses, pool.cpu)
        )
        steps.run(progress)
        drive.run()
        record.expenses(expenses.rows(directory.run, pool.cpu))
        record.finish(resume_state.seconds + perf_counter() - started)
        steps.step("writing the store and ending the workers")
    store.compact()
    return drive.stopped


def settled_state(store: Store, directory: CampaignDirectory) -> ResumeState:
    """Reads the resume state, after publishing what a cluster's node committed and did not publish."""
    commits = store.commits(directory.run)
    published = {row["block"] for row in store.rows("SELECT block FROM blocks WHERE run = ?", [directory.run])}
    commits.settle(sorted(commits.names() - {commit_name(number) for number in published}))
    return read_resume_state(store, directory)


def begin_record(
    record: Recording,
    directory: CampaignDirectory,
    resume_state: ResumeState,
    facts: Sequence[PlatformFacts],
    platforms: Sequence[PlatformName],
) -> None:
    created = (resume_state.created or datetime.now(UTC)).isoformat(timespec="seconds")
    about = {"plan": directory.plan.model_dump(), "shard": str(directory.shard), "identity": directory.identity,
             "seconds_before": resume_state.seconds}  # fmt: skip
    record.begin(created, version("mindgap"), facts, platforms, about)


def support_of(
    directory: CampaignDirectory,
    case_source: CaseSource,
    pool: JobRunner,
    platforms: Sequence[PlatformName],
    options: RunOptions,
    *,
    fresh: bool,
) -> Eligibility:
    """Returns the operators that platforms refuse. A new campaign (`fresh`) surveys unknown ones first."""
    before = directory.support_options
    known_support = None if before.support is None else Path(before.support)
    lacking = [platform for platform in platforms if may_lack(platform, directory.plan.reference)]
    if fresh and known_support is not None and before.minutes > 0 and lacking:
        limits = SurveyLimits(known_support, before.minutes, options.steps, options.notify)
        survey_graphs(lacking, case_source.samples(numbers_of(directory)), pool, limits)
    support = read_eligibility(directory.store, known_support, pool, directory.plan, platforms, fresh=fresh)
    if fresh and known_support is not None:
        unasked = sorted({*lacking} - support.platforms)
        if unasked:
            names = " ".join(unasked)
            options.notify(
                f"NOT ASKED what {names} lack: what they refuse is run all the same (mindgap coverage {names})"
            )
    return support


def _facts(plan: Plan, options: RunOptions) -> tuple[Sequence[PlatformFacts], list[PlatformName]]:
    """Returns the facts of all platforms, and the platforms to run. Raises `MindgapError` if one is absent."""
    facts = facts_of(
        [plan.reference, *plan.platforms], reference=plan.reference, skip_unavailable=plan.skip_unavailable
    )
    there = {fact.platform for fact in facts if fact.available}
    for fact in facts:
        if fact.platform in plan.platforms and not fact.available:
            options.notify(f"LEFT OUT, not available here: {fact.platform}: {fact.reason}")
    platforms = [platform for platform in plan.platforms if platform in there]
    if not platforms:
        raise MindgapError(f"none of the plan's platforms is available here: {', '.join(plan.platforms)}")
    return facts, platforms


def _able(pool: WorkerPool, plan: Plan, platforms: Sequence[PlatformName], options: RunOptions) -> list[PlatformName]:
    """Returns the platforms whose workers start. Raises `MindgapError` for another one, unless it may be skipped."""
    able: list[PlatformName] = []
    names = list(dict.fromkeys([plan.reference, *platforms]))
    with ThreadPoolExecutor(len(names), "mindgap-describe") as threads:
        described = dict(zip(names, threads.map(pool.describe, names), strict=True))
    for platform, about in described.items():
        if set(about) != {"error"}:
            able.append(platform)
            continue
        why = f"platform {platform} cannot be opened: {' '.join(str(about['error']).split())}"
        if platform == plan.reference or not plan.skip_unavailable:
            raise MindgapError(why)
        options.notify(f"LEFT OUT: {why}")
    if not any(platform in able for platform in platforms):
        raise MindgapError("none of the plan's platforms can be opened here")
    return [platform for platform in platforms if platform in able]


def warn_of_changes(
    store: Store, run: str, pool: JobRunner, platforms: Sequence[PlatformName], options: RunOptions
) -> None:
    """Warns of platforms whose fingerprint changed since the campaign began: their rows are not comparable."""
    before: dict[str, set[str]] = {}
    for row in store.rows("SELECT platform, fingerprint FROM platforms WHERE run = ? AND fingerprint <> ''", [run]):
        before.setdefault(row["platform"], set()).add(row["fingerprint"])
    for platform in dict.fromkeys(platforms):
        if platform in before and fingerprint_of(pool.describe(platform)) not in before[platform]:
            options.notify(f"CHANGED since the campaign began (versions, hardware or settings): {platform}")


def budgets_of(
    directory: CampaignDirectory, platforms: Sequence[PlatformName], resume_state: ResumeState
) -> dict[PlatformName, CpuBudget]:
    """Returns the processor-time budget of each platform that has one, divided by the number of shards.

    A platform that compiles batches without a limit has an infinite one: its cases of a block are gathered.
    """
    plan, shard = directory.plan, directory.shard
    blocks = len(list(shard.blocks(plan.variants.count)))
    return {
        platform: CpuBudget(
            60 * (asked.cpu_minutes or math.inf) / shard.of, blocks, resume_state.cpu.get(platform, 0.0)
        )
        for platform, asked in plan.platforms.items()
        if platform in platforms and (asked.cpu_minutes is not None or asked.batch > 1)
    }


def numbers_of(directory: CampaignDirectory) -> list[int]:
    """Returns the numbers of this shard's blocks."""
    return list(directory.shard.blocks(directory.plan.count))


def done_cases(resume_state: ResumeState, plan: Plan) -> int:
    return sum(min(BLOCK, plan.count - number * BLOCK) for number in resume_state.done if number * BLOCK < plan.count)
