"""Begins and resumes campaigns: opens platforms, surveys, prepares cases, and hands over to the driver."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Final, Protocol

from mindgap.campaign.cases.case import BLOCK, CaseSource, Shard
from mindgap.campaign.judging.judge import judge_limits, judge_processes
from mindgap.campaign.plan import Plan
from mindgap.campaign.schedule.budget import CpuBudget
from mindgap.campaign.schedule.driver import CampaignDriver, DriverContext
from mindgap.campaign.schedule.eligibility import Eligibility, read_eligibility
from mindgap.campaign.schedule.selection import BlockSelector
from mindgap.campaign.state.directory import (
    CampaignDirectory,
    SupportOptions,
    check_identity,
    create_directory,
    open_directory,
    refuse_begun,
)
from mindgap.campaign.state.expenses import Expenses
from mindgap.campaign.state.progress import Progress
from mindgap.campaign.state.resume_state import ResumeState, read_resume_state
from mindgap.campaign.state.session_file import published
from mindgap.campaign.state.status import CampaignStatus, campaign_status, planned_cases
from mindgap.campaign.state.steps import StepTracker
from mindgap.diff.platform_facts import facts_of
from mindgap.graph import MindgapError, TensorStore, default_tensor_store
from mindgap.results.recording import Recording
from mindgap.results.rows import PlatformFacts
from mindgap.run.local import fingerprint_of
from mindgap.run.pool import WorkerPool
from mindgap.store import Store
from mindgap.support.graph_survey import SurveyLimits, may_lack, survey_graphs

#: A session that is killed loses what its writer holds: at most so many rows, or what is so old.
_ROWS: Final = 4096
_AGE_S: Final = 10.0


class CaseSourceFactory(Protocol):
    """Where the cases of a campaign come from, when it begins and later."""

    def begin(self, plan: Plan, folder: Path) -> CaseSource:
        """Puts into the folder all that a resume needs. Raises `MindgapError` where nothing can be made."""
        ...

    def again(self, plan: Plan, folder: Path) -> CaseSource:
        """The same case_source out of the folder. Raises `MindgapError` where what it needs is gone."""
        ...


@dataclass(frozen=True)
class RunOptions:
    """How a session works, which no result depends on.

    `jobs`: workers that work at once (default: one per core). `steps`: told what is being done, and how far it is.
    `say`: told in one line what nobody may overlook. `tensors`: where stored tensors are.
    `support`: a store that knows what platforms lack, looked at when a campaign begins. What it does not know of this
    campaign's operators the platforms are asked, for `coverage_minutes` of processor time each (default: the plan's),
    and it is kept there. None: neither is looked at nor asked. `whole_process`: this process does nothing else, so that
    all its processor time is the campaign's.
    """

    jobs: int | None = None
    steps: StepTracker = field(default_factory=StepTracker)
    say: Callable[[str], None] = lambda line: None
    tensors: TensorStore | None = None
    support: Path | None = None
    coverage_minutes: float | None = None
    whole_process: bool = False


def begin(
    plan: Plan, text: str, path: str | Path, source: CaseSourceFactory, *, shard: Shard | None = None, where: str = "",
    options: RunOptions | None = None,
) -> CampaignStatus:  # fmt: skip
    """Begins a campaign in a new or empty directory and runs it. `text`: the plan as a person wrote it.

    Raises `MindgapError`: the directory holds a campaign, a platform is absent, no case can be made, the disk is full.
    What was found until then is in the store, and `resume_campaign` goes on from there.
    """
    path = Path(path)
    refuse_begun(path)
    plan = plan.model_copy(update={"catalogue": os.path.abspath(plan.catalogue)})
    options = options or RunOptions()
    # An absent platform is said before anything is made.
    options.steps.step("looking for the plan's platforms")
    _facts(plan, options)
    Store(path)
    options.steps.step("loading what the cases are made of")
    with published(path, options.steps):
        expenses = Expenses(whole_process=options.whole_process)
        with expenses.preparing():
            case_source = source.begin(plan, path)
        minutes = plan.limits.coverage_minutes if options.coverage_minutes is None else options.coverage_minutes
        beforehand = SupportOptions(None if options.support is None else os.path.abspath(options.support), minutes)
        folder = create_directory(path, plan, text, shard or Shard(), case_source.identity, where, beforehand)
        stopped = _session(folder, case_source, options, expenses)
    return replace(campaign_status(folder), stopped=stopped)


def resume_campaign(
    path: str | Path, source: CaseSourceFactory, *, options: RunOptions | None = None
) -> CampaignStatus:
    """Runs what a campaign has not finished. Raises `MindgapError` as `begin`, and where the plan was changed."""
    folder, options = open_directory(path), options or RunOptions()
    options.steps.step("loading what the cases are made of")
    with published(folder.path, options.steps):
        expenses = Expenses(whole_process=options.whole_process)
        with expenses.preparing():
            case_source = source.again(folder.plan, folder.path)
        check_identity(folder, case_source.identity)
        stopped = _session(folder, case_source, options, expenses)
    return replace(campaign_status(folder), stopped=stopped)


def _session(folder: CampaignDirectory, case_source: CaseSource, options: RunOptions, expenses: Expenses) -> str:
    """Runs what is not finished; says why it stopped before everything ran, empty where it did not."""
    started = perf_counter()
    plan, store, steps = folder.plan, folder.store, options.steps
    steps.step("reading what has run")
    resume_state = read_resume_state(store, folder)
    facts, wanted = _facts(plan, options)
    terms = judge_limits(plan, options.tensors or default_tensor_store())
    busy = options.jobs or os.cpu_count() or 2
    with ExitStack() as stack:
        steps.step(f"starting the workers of {', '.join(dict.fromkeys([plan.reference, *wanted]))}")
        pool = stack.enter_context(
            WorkerPool(
                [plan.reference, *wanted], tensors=terms.tensors, busy=busy, memory_limit_bytes=terms.memory_bytes
            )
        )
        wanted = _able(pool, plan, wanted, options)
        _say_changes(store, folder.run, pool, [plan.reference, *wanted], options)
        # Before the run is there: where it is, everything that its choices depend on is.
        support = _support(folder, case_source, pool, wanted, options, fresh=resume_state.created is None)
        writer = stack.enter_context(store.writer(rows=_ROWS, age_s=_AGE_S))
        record = Recording(store, writer, terms.settings, pool.describe, "campaign", folder.run)
        created = (resume_state.created or datetime.now(UTC)).isoformat(timespec="seconds")
        about = {"plan": plan.model_dump(), "shard": str(folder.shard), "identity": folder.identity,
                 "seconds_before": resume_state.seconds}  # fmt: skip
        record.begin(created, version("mindgap"), facts, wanted, about)
        selector = BlockSelector(plan, wanted, support)
        for row in resume_state.finished_blocks:
            selector.restore(row["features"] or (), row["given"] or {})
        judges = stack.enter_context(judge_processes(busy, terms, pool.run, pool.describe, pool.cpu))
        progress = Progress(planned_cases(plan, folder.shard), _done_cases(resume_state, plan))
        budgets = _budgets(folder, wanted, resume_state)
        drive = CampaignDriver(
            DriverContext(
                folder, case_source, wanted, pool, judges, record, selector, resume_state, progress, expenses, budgets
            )
        )
        steps.run(progress)
        drive.run()
        record.expenses(expenses.rows(folder.run, pool.cpu))
        record.finish(resume_state.seconds + perf_counter() - started)
        steps.step("writing the store and ending the workers")
    store.compact()
    return drive.stopped


def _support(
    folder: CampaignDirectory,
    case_source: CaseSource,
    pool: WorkerPool,
    wanted: Sequence[str],
    options: RunOptions,
    *,
    fresh: bool,
) -> Eligibility:
    """What the platforms are known to lack. Where the campaign begins they are asked first for what is not known."""
    before = folder.beforehand
    elsewhere = None if before.support is None else Path(before.support)
    lacking = [platform for platform in wanted if may_lack(platform, folder.plan.reference)]
    if fresh and elsewhere is not None and before.minutes > 0 and lacking:
        terms = SurveyLimits(elsewhere, before.minutes, options.steps, options.say)
        survey_graphs(lacking, case_source.samples(_numbers(folder)), pool, terms)
    support = read_eligibility(folder.store, elsewhere, pool, folder.plan, wanted, fresh=fresh)
    if fresh and elsewhere is not None:
        unasked = sorted({*lacking} - support.platforms)
        if unasked:
            names = " ".join(unasked)
            options.say(f"NOT ASKED what {names} lack: what they refuse is run all the same (mindgap coverage {names})")
    return support


def _facts(plan: Plan, options: RunOptions) -> tuple[Sequence[PlatformFacts], list[str]]:
    """What is known of the platforms, and those that run. Raises `MindgapError` where one is absent."""
    facts = facts_of(
        [plan.reference, *plan.platforms], reference=plan.reference, skip_unavailable=plan.skip_unavailable
    )
    there = {fact.platform for fact in facts if fact.available}
    for fact in facts:
        if fact.platform in plan.platforms and not fact.available:
            options.say(f"LEFT OUT, not available here: {fact.platform}: {fact.reason}")
    wanted = [platform for platform in plan.platforms if platform in there]
    if not wanted:
        raise MindgapError(f"none of the plan's platforms is available here: {', '.join(plan.platforms)}")
    return facts, wanted


def _able(pool: WorkerPool, plan: Plan, wanted: Sequence[str], options: RunOptions) -> list[str]:
    """The platforms whose workers start. Raises `MindgapError` for one that does not, unless it may be left out."""
    able: list[str] = []
    names = list(dict.fromkeys([plan.reference, *wanted]))
    with ThreadPoolExecutor(len(names), "mindgap-describe") as threads:
        described = dict(zip(names, threads.map(pool.describe, names), strict=True))
    for platform, about in described.items():
        if set(about) != {"error"}:
            able.append(platform)
            continue
        why = f"platform {platform} cannot be opened: {' '.join(str(about['error']).split())}"
        if platform == plan.reference or not plan.skip_unavailable:
            raise MindgapError(why)
        options.say(f"LEFT OUT: {why}")
    if not any(platform in able for platform in wanted):
        raise MindgapError("none of the plan's platforms can be opened here")
    return [platform for platform in wanted if platform in able]


def _say_changes(store: Store, run: str, pool: WorkerPool, platforms: Sequence[str], options: RunOptions) -> None:
    """A platform that is not what it was when the campaign began gives rows that do not belong with the others."""
    before: dict[str, set[str]] = {}
    for row in store.rows("SELECT platform, fingerprint FROM platforms WHERE run = ? AND fingerprint <> ''", [run]):
        before.setdefault(row["platform"], set()).add(row["fingerprint"])
    for platform in dict.fromkeys(platforms):
        if platform in before and fingerprint_of(pool.describe(platform)) not in before[platform]:
            options.say(f"CHANGED since the campaign began (versions, hardware or settings): {platform}")


def _budgets(folder: CampaignDirectory, wanted: Sequence[str], resume_state: ResumeState) -> dict[str, CpuBudget]:
    """Each shard has its part of a budget."""
    plan, shard = folder.plan, folder.shard
    blocks = len(list(shard.blocks(plan.variants.count)))
    return {
        platform: CpuBudget(60 * minutes / shard.of, blocks, resume_state.cpu.get(platform, 0.0))
        for platform in wanted
        if (minutes := plan.platforms[platform].cpu_minutes) is not None
    }


def _numbers(folder: CampaignDirectory) -> list[int]:
    """Of the blocks of this shard."""
    return list(folder.shard.blocks(folder.plan.count))


def _done_cases(resume_state: ResumeState, plan: Plan) -> int:
    return sum(min(BLOCK, plan.count - number * BLOCK) for number in resume_state.done if number * BLOCK < plan.count)
