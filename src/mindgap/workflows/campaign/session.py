"""Begins and resumes campaigns: opens platforms, surveys, prepares cases, and hands over to the driver."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
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
from mindgap.run.pool import WorkerPool
from mindgap.run.system import memory_bytes
from mindgap.workflows.campaign.cases.bundle import PLAN
from mindgap.workflows.campaign.cases.case import BLOCK, CaseSource, Shard
from mindgap.workflows.campaign.judging.judge_process import judge_limits, judge_processes
from mindgap.workflows.campaign.plan import Plan, PlatformPlan
from mindgap.workflows.campaign.schedule.driver import CampaignDriver, CpuBudget, DriverContext
from mindgap.workflows.campaign.schedule.eligibility import Eligibility, read_eligibility
from mindgap.workflows.campaign.schedule.selection import BlockSelector
from mindgap.workflows.campaign.state.directory import (
    CampaignDirectory,
    SupportOptions,
    check_identity,
    create_directory,
    open_directory,
    refuse_begun,
    with_platforms,
    write_added,
)
from mindgap.workflows.campaign.state.expenses import Expenses
from mindgap.workflows.campaign.state.progress import Progress
from mindgap.workflows.campaign.state.references import StoredReferences, read_references
from mindgap.workflows.campaign.state.resume_state import ResumeState, read_resume_state
from mindgap.workflows.campaign.state.session_file import published
from mindgap.workflows.campaign.state.status import CampaignStatus, campaign_status, planned_cases
from mindgap.workflows.campaign.state.steps import StepTracker
from mindgap.workflows.diff.platform_facts import facts_of
from mindgap.workflows.support.graph_survey import SurveyLimits, may_lack, survey_graphs

#: A session that is killed loses what its writer holds: at most so many rows, or what is so old.
_ROWS: Final = 4096
_AGE_S: Final = 10.0
#: Judges beside one for each worker at a time, where a platform compiles batches: so many of their jobs are compiled
#: together.
_JUDGES_OF_BATCHES: Final = 10


class CaseSourceFactory(Protocol):
    """Opens the case source of a campaign, for its first session and for later ones."""

    def begin(self, plan: Plan, directory: Path) -> CaseSource:
        """Opens the source and keeps in the directory all that a resume needs. Raises `MindgapError` if no case can be
        made."""
        ...

    def reopen(self, plan: Plan, directory: Path) -> CaseSource:
        """Opens the same source from the directory. Raises `MindgapError` if a file that it needs is missing."""
        ...


@dataclass(frozen=True)
class RunOptions:
    """Options of one session. No result depends on them.

    `jobs`: workers that run at the same time (default: one per core). `steps`: receives the current step and its
    progress. `notify`: receives one-line warnings. `tensors`: the store of large tensors. `support`: a store of survey
    answers, read when a campaign begins; answers that it lacks are surveyed first, for `coverage_minutes` of processor
    time per platform (default: the plan's), and stored there. None: no store is read and no platform is surveyed.
    `store_url`: of a new campaign, where its store is, so that other machines write into it too; empty: in its
    directory.
    `whole_process`: charge the campaign for all processor time of this process.
    """

    jobs: int | None = None
    steps: StepTracker = field(default_factory=StepTracker)
    notify: Callable[[str], None] = lambda line: None
    tensors: TensorStore | None = None
    support: Path | None = None
    coverage_minutes: float | None = None
    store_url: str = ""
    whole_process: bool = False


def begin(
    plan: Plan, text: str, path: str | Path, source: CaseSourceFactory, *, shard: Shard | None = None, where: str = "",
    options: RunOptions | None = None,
) -> CampaignStatus:  # fmt: skip
    """Begins a campaign in a new or empty directory and runs it. `text`: the text of the plan's file.

    Raises `MindgapError` if the directory holds a campaign, a platform is absent, no case can be made or the disk is
    full. Rows until then are in the store; `resume_campaign` continues from them. So does a campaign of the same
    plan and cases that another machine begins in another directory with the same store.
    """
    path = Path(path)
    refuse_begun(path)
    plan = plan.model_copy(update={"catalogue": os.path.abspath(plan.catalogue)})
    options = options or RunOptions()
    use_hosts_of_plan(plan.hosts)
    # Reports an absent platform before any work is done.
    options.steps.step("looking for the plan's platforms")
    _facts(plan, list(plan.platforms), options)
    Store(options.store_url or path)
    options.steps.step("loading what the cases are made of")
    with published(path, options.steps):
        expenses = Expenses(whole_process=options.whole_process)
        with expenses.preparing():
            case_source = source.begin(plan, path)
        minutes = plan.limits.coverage_minutes if options.coverage_minutes is None else options.coverage_minutes
        support_options = SupportOptions(None if options.support is None else os.path.abspath(options.support), minutes)
        directory = create_directory(
            path, plan, text, shard or Shard(), case_source.identity, where, support_options, options.store_url
        )
        stopped = _session(directory, case_source, options, expenses)
    return replace(campaign_status(directory), stopped=stopped)


def resume_campaign(
    path: str | Path, source: CaseSourceFactory, *, options: RunOptions | None = None
) -> CampaignStatus:
    """Runs the unfinished part of a campaign. Raises `MindgapError` like `begin`, and if the plan was changed."""
    directory, options = open_directory(path), options or RunOptions()
    options.steps.step("loading what the cases are made of")
    with published(directory.path, options.steps):
        expenses = Expenses(whole_process=options.whole_process)
        with expenses.preparing():
            case_source = source.reopen(directory.plan, directory.path)
        check_identity(directory, case_source.identity)
        stopped = _session(directory, case_source, options, expenses)
    return replace(campaign_status(directory), stopped=stopped)


def add_platforms(
    path: str | Path, added: Mapping[PlatformName, PlatformPlan], source: CaseSourceFactory, *,
    options: RunOptions | None = None,
) -> CampaignStatus:  # fmt: skip
    """Runs the cases of a finished campaign on further platforms, against the reference's stored outcomes.

    Rows are those of the same run. Killed before it began to run, it has added nothing; afterwards, `resume_campaign`
    continues. Raises `MindgapError` like `begin`, if the campaign is not finished or has a platform already, and if the
    reference is another than the one that the cases ran on.
    """
    directory, options = open_directory(path), options or RunOptions()
    for name in added:
        if name in directory.plan.platforms:
            raise MindgapError(f"{path} has the platform {name} already: `mindgap campaign resume {path}` finishes it")
    _refuse_unfinished(directory)
    support = None if options.support is None else os.path.abspath(options.support)
    minutes = directory.plan.limits.coverage_minutes if options.coverage_minutes is None else options.coverage_minutes
    directory = replace(with_platforms(directory, added), support_options=SupportOptions(support, minutes))
    options.steps.step("loading what the cases are made of")
    with published(directory.path, options.steps):
        expenses = Expenses(whole_process=options.whole_process)
        with expenses.preparing():
            case_source = source.reopen(directory.plan, directory.path)
        check_identity(directory, case_source.identity)
        stopped = _session(directory, case_source, options, expenses, new=list(added))
    return replace(campaign_status(directory), stopped=stopped)


def _refuse_unfinished(directory: CampaignDirectory) -> None:
    """Raises `MindgapError` if a block of the campaign is not finished on the platforms that it has."""
    done = read_resume_state(directory.store, directory).done
    first = next((number for number in _numbers(directory) if number not in done), None)
    if first is not None:
        enough = f", or let it end where it is, by `variants = {first * BLOCK}` under [stop] in {PLAN}" if first else ""
        raise MindgapError(
            f"{directory.path} is not finished: run `mindgap campaign resume {directory.path}` first{enough}"
        )


def _session(
    directory: CampaignDirectory, case_source: CaseSource, options: RunOptions, expenses: Expenses, *,
    new: Sequence[PlatformName] = (),
) -> str:  # fmt: skip
    """Runs the unfinished blocks. Returns why it stopped early; empty if everything ran. `new`: platforms that are
    added, which the campaign's directory does not name yet."""
    started = perf_counter()
    plan, store, steps = directory.plan, directory.store, options.steps
    steps.step("reading what has run")
    resume_state = read_resume_state(store, directory)
    facts, platforms = _facts(plan, _platforms_to_run(directory, resume_state), options)
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
        _warn_of_changes(store, directory.run, pool, [plan.reference, *platforms], options)
        # Before the run is there: where it is, everything that its choices depend on is.
        fresh = platforms if resume_state.created is None else [name for name in platforms if name in new]
        references = _references(directory, resume_state, pool)
        support = _support(directory, case_source, pool, platforms, options, fresh)
        if new:
            write_added(directory)
        writer = stack.enter_context(store.writer(rows=_ROWS, age_s=_AGE_S))
        record = Recording(store, writer, limits.settings, pool.describe, "campaign", directory.run)
        created = (resume_state.created or datetime.now(UTC)).isoformat(timespec="seconds")
        about = {"plan": plan.model_dump(), "shard": str(directory.shard), "identity": directory.identity,
                 "seconds_before": resume_state.seconds}  # fmt: skip
        # Those of earlier sessions too, of which this one may run none.
        listed = [name for name in plan.platforms if name in platforms or name in resume_state.platforms]
        record.begin(created, version("mindgap"), facts, listed, about, [plan.reference, *plan.platforms])
        selector = BlockSelector(plan, platforms, support)
        for row in resume_state.finished_blocks:
            selector.restore(row["features"] or (), row["given"] or {})
        gathered = [name for name in platforms if plan.platforms[name].batch > 1]
        # Judges mostly wait for a compiler that takes their jobs together.
        fitting = memory_bytes() // limits.memory_bytes
        count = max(busy, min(busy + _JUDGES_OF_BATCHES, fitting)) if gathered else busy
        execute = GatheredRuns(pool, gathered).run
        judges = stack.enter_context(judge_processes(count, limits, execute, pool.describe, pool.cpu))
        progress = Progress(planned_cases(plan, directory.shard), _done_cases(resume_state, plan))
        budgets = _budgets(directory, platforms, resume_state)
        drive = CampaignDriver(
            DriverContext(
                directory,
                case_source,
                platforms,
                pool,
                judges,
                record,
                selector,
                resume_state,
                progress,
                expenses,
                budgets,
                references,
            )
        )
        steps.run(progress)
        drive.run()
        record.expenses(expenses.rows(directory.run, pool.cpu))
        record.finish(resume_state.seconds + perf_counter() - started)
        steps.step("writing the store and ending the workers")
    store.compact()
    return drive.stopped


def _support(
    directory: CampaignDirectory,
    case_source: CaseSource,
    pool: WorkerPool,
    platforms: Sequence[PlatformName],
    options: RunOptions,
    fresh: Sequence[PlatformName],
) -> Eligibility:
    """Returns the operators that platforms refuse. `fresh`: platforms that are new to the campaign, whose unknown ones
    are surveyed first."""
    before = directory.support_options
    known_support = None if before.support is None else Path(before.support)
    lacking = [platform for platform in fresh if may_lack(platform, directory.plan.reference)]
    if known_support is not None and before.minutes > 0 and lacking:
        limits = SurveyLimits(known_support, before.minutes, options.steps, options.notify)
        survey_graphs(lacking, case_source.samples(_numbers(directory)), pool, limits)
    support = read_eligibility(directory.store, known_support, pool, directory.plan, platforms, fresh=fresh)
    if known_support is not None:
        unasked = sorted({*lacking} - support.platforms)
        if unasked:
            names = " ".join(unasked)
            options.notify(
                f"NOT ASKED what {names} lack: what they refuse is run all the same (mindgap coverage {names})"
            )
    return support


def _platforms_to_run(directory: CampaignDirectory, resume_state: ResumeState) -> list[PlatformName]:
    """Returns the platforms that some block has still to run; all of them where none has."""
    done = {*resume_state.done, *resume_state.lacking}
    lacked = {name for names in resume_state.lacking.values() for name in names}
    if lacked and all(number in done for number in _numbers(directory)):
        return [name for name in directory.plan.platforms if name in lacked]
    return list(directory.plan.platforms)


def _references(directory: CampaignDirectory, resume_state: ResumeState, pool: WorkerPool) -> StoredReferences | None:
    """Returns what the reference gave where platforms were added. Raises `MindgapError` if it is another reference."""
    if not resume_state.lacking:
        return None
    found, reference = read_references(directory, resume_state.lacking), directory.plan.reference
    found.check(fingerprint_of(pool.describe(reference)), reference)
    return found


def _facts(
    plan: Plan, wanted: Sequence[PlatformName], options: RunOptions
) -> tuple[Sequence[PlatformFacts], list[PlatformName]]:
    """Returns the facts of the reference and the wanted platforms, and the platforms to run. Raises `MindgapError` if
    one is absent."""
    facts = facts_of([plan.reference, *wanted], reference=plan.reference, skip_unavailable=plan.skip_unavailable)
    # What is known of platforms that an earlier session ran stays, wherever that was.
    facts = [
        fact for fact in facts if fact.platform in (plan.reference, *wanted) or fact.platform not in plan.platforms
    ]
    there = {fact.platform for fact in facts if fact.available}
    for fact in facts:
        if fact.platform in wanted and not fact.available:
            options.notify(f"LEFT OUT, not available here: {fact.platform}: {fact.reason}")
    platforms = [platform for platform in wanted if platform in there]
    if not platforms:
        raise MindgapError(f"none of the plan's platforms is available here: {', '.join(wanted)}")
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


def _warn_of_changes(
    store: Store, run: str, pool: WorkerPool, platforms: Sequence[PlatformName], options: RunOptions
) -> None:
    """Warns of platforms whose fingerprint changed since the campaign began: their rows are not comparable."""
    before: dict[str, set[str]] = {}
    for row in store.rows("SELECT platform, fingerprint FROM platforms WHERE run = ? AND fingerprint <> ''", [run]):
        before.setdefault(row["platform"], set()).add(row["fingerprint"])
    for platform in dict.fromkeys(platforms):
        if platform in before and fingerprint_of(pool.describe(platform)) not in before[platform]:
            options.notify(f"CHANGED since the campaign began (versions, hardware or settings): {platform}")


def _budgets(
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


def _numbers(directory: CampaignDirectory) -> list[int]:
    """Returns the numbers of this shard's blocks."""
    return list(directory.shard.blocks(directory.plan.count))


def _done_cases(resume_state: ResumeState, plan: Plan) -> int:
    return sum(min(BLOCK, plan.count - number * BLOCK) for number in resume_state.done if number * BLOCK < plan.count)
