"""Begins and resumes campaigns: opens platforms, surveys, prepares cases, and hands over to the driver."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Final, Protocol

from mindgap.graph import MindgapError, default_tensor_store
from mindgap.platforms.environments.host import use_hosts_of_plan
from mindgap.platforms.name import PlatformName
from mindgap.results.recording import Recording
from mindgap.results.rows import PlatformFacts
from mindgap.results.store import Store
from mindgap.run.local import fingerprint_of
from mindgap.run.pool import WorkerPool, describe_all, start_error
from mindgap.run.system import memory_bytes
from mindgap.workflows.diff.platform_facts import facts_of
from mindgap_campaign.campaign.cases.bundle import PLAN
from mindgap_campaign.campaign.cases.case import BLOCK, CaseSource, CaseSourceFactory, Shard
from mindgap_campaign.campaign.gathered import GatheredRuns
from mindgap_campaign.campaign.judging.judge_process import judge_limits, judge_processes
from mindgap_campaign.campaign.plan import Plan, PlatformPlan
from mindgap_campaign.campaign.preparation import (
    RunOptions,
    begin_record,
    budgets_of,
    check_changes,
    progress_of,
    selector_of,
    settled_state,
    support_of,
    writer_of,
)
from mindgap_campaign.campaign.schedule.block_queues import BlockContext
from mindgap_campaign.campaign.schedule.case_runner import PoolRunner
from mindgap_campaign.campaign.schedule.driver import CampaignDriver, DriverContext
from mindgap_campaign.campaign.state.directory import (
    CampaignDirectory,
    SupportOptions,
    check_identity,
    create_directory,
    open_directory,
    refuse_begun,
    with_platforms,
    write_added,
)
from mindgap_campaign.campaign.state.expenses import Expenses
from mindgap_campaign.campaign.state.references import StoredReferences, read_references
from mindgap_campaign.campaign.state.resume_state import ResumeState, read_resume_state
from mindgap_campaign.campaign.state.session_file import published
from mindgap_campaign.campaign.state.status import CampaignStatus, campaign_status

#: Judges besides one for each worker at a time, where a platform compiles batches: so many of their jobs are compiled
#: together.
_JUDGES_OF_BATCHES: Final = 10


@dataclass(frozen=True)
class Session:
    """What a session has before its platforms are opened. `new`: platforms that are added, which the campaign's
    directory does not name yet."""

    directory: CampaignDirectory
    factory: CaseSourceFactory
    case_source: CaseSource
    options: RunOptions
    expenses: Expenses
    new: tuple[PlatformName, ...] = ()


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
            _facts(plan, list(plan.platforms), options)
        yield

    def run(self, session: Session) -> str:
        return _session(session)


THIS_MACHINE: Final = ThisMachine()


def begin(
    plan: Plan, text: str, path: str | Path, source: CaseSourceFactory, *, shard: Shard | None = None, where: str = "",
    options: RunOptions | None = None, place: SessionPlace = THIS_MACHINE,
) -> CampaignStatus:  # fmt: skip
    """Begins a campaign in a new or empty directory and runs it. `text`: the text of the plan's file. `where`: the name
    of this machine, for the cases of a bundle: the run's name has it, and the first digits of the reference's
    fingerprint, since machines of one name may be unlike. On a cluster it has the name only.

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
    with ExitStack() as stack:
        stack.enter_context(place.reached(plan, options, fresh=True))
        Store(options.store_url or path)
        options.steps.step("loading what the cases are made of")
        path.mkdir(parents=True, exist_ok=True)
        stack.enter_context(published(path, options.steps))
        expenses = Expenses(whole_process=options.whole_process)
        with expenses.preparing():
            case_source = source.begin(plan, path)
        if where and isinstance(place, ThisMachine):
            where = f"{where}-{_reference_digits(plan)}"
        directory = create_directory(
            path, plan, text, shard or Shard(), case_source.identity, where, _support_options(plan, options),
            options.store_url,
        )  # fmt: skip
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
        stopped = _reopened(place, directory, source, options)
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
    support_options = _support_options(directory.plan, options)
    directory = replace(with_platforms(directory, added), support_options=support_options)
    stopped = _reopened(THIS_MACHINE, directory, source, options, tuple(added))
    return replace(campaign_status(directory), stopped=stopped)


def _reopened(
    place: SessionPlace, directory: CampaignDirectory, source: CaseSourceFactory, options: RunOptions,
    new: tuple[PlatformName, ...] = (),
) -> str:  # fmt: skip
    """Opens the case source of a campaign that has begun, and runs what is unfinished. Returns why it stopped early."""
    options.steps.step("loading what the cases are made of")
    with published(directory.path, options.steps):
        expenses = Expenses(whole_process=options.whole_process)
        with expenses.preparing():
            case_source = source.reopen(directory.plan, directory.path)
        check_identity(directory, case_source.identity)
        return place.run(Session(directory, source, case_source, options, expenses, new))


def _support_options(plan: Plan, options: RunOptions) -> SupportOptions:
    minutes = plan.limits.coverage_minutes if options.coverage_minutes is None else options.coverage_minutes
    return SupportOptions(None if options.support is None else os.path.abspath(options.support), minutes)


def _reference_digits(plan: Plan) -> str:
    """Returns the first digits of the reference's fingerprint. Raises `MindgapError` if it cannot be opened here."""
    with WorkerPool([plan.reference]) as pool:
        about = pool.describe(plan.reference)
    if why := start_error(about):
        raise MindgapError(f"platform {plan.reference} cannot be opened: {why}")
    return fingerprint_of(about)[:8]


def _refuse_unfinished(directory: CampaignDirectory) -> None:
    """Raises `MindgapError` if a block of the campaign is not finished on the platforms that it has."""
    done = read_resume_state(directory.store, directory).done
    first = next((number for number in directory.numbers if number not in done), None)
    if first is not None:
        enough = f", or let it end where it is, by `variants = {first * BLOCK}` under [stop] in {PLAN}" if first else ""
        raise MindgapError(
            f"{directory.path} is not finished: run `mindgap campaign resume {directory.path}` first{enough}"
        )


def _session(session: Session) -> str:
    """Runs the unfinished blocks on this machine. Returns why it stopped early; empty if everything ran."""
    started = perf_counter()
    directory, case_source, options, expenses = (
        session.directory, session.case_source, session.options, session.expenses
    )  # fmt: skip
    plan, store, steps = directory.plan, directory.store, options.steps
    steps.step("reading what has run")
    resume_state = settled_state(store, directory)
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
        check_changes(store, directory, pool, [plan.reference, *platforms], options)
        # Before the run is there: where it is, everything that its choices depend on is.
        fresh = platforms if resume_state.created is None else [name for name in platforms if name in session.new]
        references = _references(directory, resume_state, pool)
        support = support_of(directory, case_source, pool, platforms, options, fresh)
        if session.new:
            write_added(directory)
        writer = stack.enter_context(writer_of(store))
        record = Recording(store, writer, limits.settings, pool.describe, "campaign", directory.run)
        begin_record(record, directory, resume_state, facts, platforms)
        selector = selector_of(plan, platforms, resume_state, support)
        gathered = [name for name in platforms if plan.platforms[name].batch > 1]
        # Judges mostly wait for a compiler that takes their jobs together.
        fitting = memory_bytes() // limits.memory_bytes
        count = max(busy, min(busy + _JUDGES_OF_BATCHES, fitting)) if gathered else busy
        execute = GatheredRuns(pool, gathered).run
        judges = stack.enter_context(judge_processes(count, limits, execute, pool.describe, pool.cpu))
        progress = progress_of(directory, resume_state)
        budgets = budgets_of(directory, platforms, resume_state)
        runner = PoolRunner(plan, pool)
        blocks = BlockContext(plan, platforms, runner, judges, record, progress, selector.spent, budgets)
        drive = CampaignDriver(
            DriverContext(
                directory, case_source, blocks, selector, resume_state, progress, expenses, pool.cpu, references
            )
        )
        steps.run(progress)
        drive.run()
        record.expenses(expenses.rows(directory.run, pool.cpu))
        record.finish(resume_state.seconds + perf_counter() - started)
        steps.step("writing the store and ending the workers")
    store.compact()
    return drive.stopped


def _platforms_to_run(directory: CampaignDirectory, resume_state: ResumeState) -> list[PlatformName]:
    """Returns the platforms that some block has still to run; all of them where none has."""
    done = {*resume_state.done, *resume_state.lacking}
    lacked = {name for names in resume_state.lacking.values() for name in names}
    if lacked and all(number in done for number in directory.numbers):
        return [name for name in directory.plan.platforms if name in lacked]
    return list(directory.plan.platforms)


def _references(directory: CampaignDirectory, resume_state: ResumeState, pool: WorkerPool) -> StoredReferences | None:
    """Returns what the reference gave where platforms were added. Raises `MindgapError` if it is another reference."""
    if not resume_state.lacking:
        return None
    references, reference = read_references(directory, resume_state.lacking), directory.plan.reference
    references.check(fingerprint_of(pool.describe(reference)), reference)
    return references


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
    for platform, about in describe_all(pool, [plan.reference, *platforms]).items():
        error = start_error(about)
        if not error:
            able.append(platform)
            continue
        why = f"platform {platform} cannot be opened: {error}"
        if platform == plan.reference or not plan.skip_unavailable:
            raise MindgapError(why)
        options.notify(f"LEFT OUT: {why}")
    if not any(platform in able for platform in platforms):
        raise MindgapError("none of the plan's platforms can be opened here")
    return [platform for platform in platforms if platform in able]
