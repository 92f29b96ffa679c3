"""Campaigns begun, and gone on with: everything around the drive."""

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

from mindgap.campaign.cases.case import BLOCK, Shard, Supply
from mindgap.campaign.judging.judge import judging, terms_of
from mindgap.campaign.plan import Plan
from mindgap.campaign.schedule.budget import CpuBudget
from mindgap.campaign.schedule.driver import Drive, Station
from mindgap.campaign.schedule.eligibility import KnownSupport, known_support
from mindgap.campaign.schedule.selection import Choice
from mindgap.campaign.state.directory import Beforehand, Folder, check_identity, make_folder, open_folder, refuse_begun
from mindgap.campaign.state.expenses import Expenses
from mindgap.campaign.state.progress import Live
from mindgap.campaign.state.resume_state import Past, read_past
from mindgap.campaign.state.session_file import announced
from mindgap.campaign.state.status import Standing, planned_cases, standing_of
from mindgap.campaign.state.steps import Progress
from mindgap.diff.platform_facts import facts_of
from mindgap.graph import MindgapError, TensorStore, default_tensor_store
from mindgap.results.recording import Recording
from mindgap.results.rows import PlatformFacts
from mindgap.run.local import fingerprint_of
from mindgap.run.pool import WorkerPool
from mindgap.store import Store
from mindgap.support.graph_survey import Terms as AskTerms
from mindgap.support.graph_survey import ask_first, may_lack

#: A session that is killed loses what its writer holds: at most so many rows, or what is so old.
_ROWS: Final = 4096
_AGE_S: Final = 10.0


class Source(Protocol):
    """Where the cases of a campaign come from, when it begins and later."""

    def begin(self, plan: Plan, folder: Path) -> Supply:
        """Puts into the folder all that a resume needs. Raises `MindgapError` where nothing can be made."""
        ...

    def again(self, plan: Plan, folder: Path) -> Supply:
        """The same supply out of the folder. Raises `MindgapError` where what it needs is gone."""
        ...


@dataclass(frozen=True)
class Manner:
    """How a session works, which no result depends on.

    `jobs`: workers that work at once (default: one per core). `progress`: told what is being done, and how far it is.
    `say`: told in one line what nobody may overlook. `tensors`: where stored tensors are.
    `support`: a store that knows what platforms lack, looked at when a campaign begins. What it does not know of this
    campaign's operators the platforms are asked, for `coverage_minutes` of processor time each (default: the plan's),
    and it is kept there. None: neither is looked at nor asked. `whole_process`: this process does nothing else, so that
    all its processor time is the campaign's.
    """

    jobs: int | None = None
    progress: Progress = field(default_factory=Progress)
    say: Callable[[str], None] = lambda line: None
    tensors: TensorStore | None = None
    support: Path | None = None
    coverage_minutes: float | None = None
    whole_process: bool = False


def begin(
    plan: Plan, text: str, path: str | Path, source: Source, *, shard: Shard | None = None, where: str = "",
    manner: Manner | None = None,
) -> Standing:  # fmt: skip
    """Begins a campaign in a new or empty directory and runs it. `text`: the plan as a person wrote it.

    Raises `MindgapError`: the directory holds a campaign, a platform is absent, no case can be made, the disk is full.
    What was found until then is in the store, and `go_on` goes on from there.
    """
    path = Path(path)
    refuse_begun(path)
    plan = plan.model_copy(update={"catalogue": os.path.abspath(plan.catalogue)})
    manner = manner or Manner()
    # An absent platform is said before anything is made.
    manner.progress.step("looking for the plan's platforms")
    _facts(plan, manner)
    Store(path)
    manner.progress.step("loading what the cases are made of")
    with announced(path, manner.progress):
        expenses = Expenses(whole_process=manner.whole_process)
        with expenses.preparing():
            supply = source.begin(plan, path)
        minutes = plan.limits.coverage_minutes if manner.coverage_minutes is None else manner.coverage_minutes
        beforehand = Beforehand(None if manner.support is None else os.path.abspath(manner.support), minutes)
        folder = make_folder(path, plan, text, shard or Shard(), supply.identity, where, beforehand)
        stopped = _session(folder, supply, manner, expenses)
    return replace(standing_of(folder), stopped=stopped)


def go_on(path: str | Path, source: Source, *, manner: Manner | None = None) -> Standing:
    """Runs what a campaign has not finished. Raises `MindgapError` as `begin`, and where the plan was changed."""
    folder, manner = open_folder(path), manner or Manner()
    manner.progress.step("loading what the cases are made of")
    with announced(folder.path, manner.progress):
        expenses = Expenses(whole_process=manner.whole_process)
        with expenses.preparing():
            supply = source.again(folder.plan, folder.path)
        check_identity(folder, supply.identity)
        stopped = _session(folder, supply, manner, expenses)
    return replace(standing_of(folder), stopped=stopped)


def _session(folder: Folder, supply: Supply, manner: Manner, expenses: Expenses) -> str:
    """Runs what is not finished; says why it stopped before everything ran, empty where it did not."""
    started = perf_counter()
    plan, store, progress = folder.plan, folder.store, manner.progress
    progress.step("reading what has run")
    past = read_past(store, folder)
    facts, wanted = _facts(plan, manner)
    terms = terms_of(plan, manner.tensors or default_tensor_store())
    busy = manner.jobs or os.cpu_count() or 2
    with ExitStack() as stack:
        progress.step(f"starting the workers of {', '.join(dict.fromkeys([plan.reference, *wanted]))}")
        pool = stack.enter_context(
            WorkerPool(
                [plan.reference, *wanted], tensors=terms.tensors, busy=busy, memory_limit_bytes=terms.memory_bytes
            )
        )
        wanted = _able(pool, plan, wanted, manner)
        _say_changes(store, folder.run, pool, [plan.reference, *wanted], manner)
        # Before the run is there: where it is, everything that its choices depend on is.
        support = _support(folder, supply, pool, wanted, manner, fresh=past.created is None)
        writer = stack.enter_context(store.writer(rows=_ROWS, age_s=_AGE_S))
        record = Recording(store, writer, terms.settings, pool.describe, "campaign", folder.run)
        created = (past.created or datetime.now(UTC)).isoformat(timespec="seconds")
        about = {"plan": plan.model_dump(), "shard": str(folder.shard), "identity": folder.identity,
                 "seconds_before": past.seconds}  # fmt: skip
        record.begin(created, version("mindgap"), facts, wanted, about)
        choice = Choice(plan, wanted, support)
        for row in past.finished_blocks:
            choice.restore(row["features"] or (), row["given"] or {})
        judges = stack.enter_context(judging(busy, terms, pool.run, pool.describe, pool.cpu))
        live = Live(planned_cases(plan, folder.shard), _done_cases(past, plan))
        budgets = _budgets(folder, wanted, past)
        drive = Drive(Station(folder, supply, wanted, pool, judges, record, choice, past, live, expenses, budgets))
        progress.run(live)
        drive.run()
        record.expenses(expenses.rows(folder.run, pool.cpu))
        record.finish(past.seconds + perf_counter() - started)
        progress.step("writing the store and ending the workers")
    store.compact()
    return drive.stopped


def _support(
    folder: Folder, supply: Supply, pool: WorkerPool, wanted: Sequence[str], manner: Manner, *, fresh: bool
) -> KnownSupport:
    """What the platforms are known to lack. Where the campaign begins they are asked first for what is not known."""
    before = folder.beforehand
    elsewhere = None if before.support is None else Path(before.support)
    lacking = [platform for platform in wanted if may_lack(platform, folder.plan.reference)]
    if fresh and elsewhere is not None and before.minutes > 0 and lacking:
        terms = AskTerms(elsewhere, before.minutes, manner.progress, manner.say)
        ask_first(lacking, supply.samples(_numbers(folder)), pool, terms)
    support = known_support(folder.store, elsewhere, pool, folder.plan, wanted, fresh=fresh)
    if fresh and elsewhere is not None:
        unasked = sorted({*lacking} - support.platforms)
        if unasked:
            names = " ".join(unasked)
            manner.say(f"NOT ASKED what {names} lack: what they refuse is run all the same (mindgap coverage {names})")
    return support


def _facts(plan: Plan, manner: Manner) -> tuple[Sequence[PlatformFacts], list[str]]:
    """What is known of the platforms, and those that run. Raises `MindgapError` where one is absent."""
    facts = facts_of(
        [plan.reference, *plan.platforms], reference=plan.reference, skip_unavailable=plan.skip_unavailable
    )
    there = {fact.platform for fact in facts if fact.available}
    for fact in facts:
        if fact.platform in plan.platforms and not fact.available:
            manner.say(f"LEFT OUT, not available here: {fact.platform}: {fact.reason}")
    wanted = [platform for platform in plan.platforms if platform in there]
    if not wanted:
        raise MindgapError(f"none of the plan's platforms is available here: {', '.join(plan.platforms)}")
    return facts, wanted


def _able(pool: WorkerPool, plan: Plan, wanted: Sequence[str], manner: Manner) -> list[str]:
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
        manner.say(f"LEFT OUT: {why}")
    if not any(platform in able for platform in wanted):
        raise MindgapError("none of the plan's platforms can be opened here")
    return [platform for platform in wanted if platform in able]


def _say_changes(store: Store, run: str, pool: WorkerPool, platforms: Sequence[str], manner: Manner) -> None:
    """A platform that is not what it was when the campaign began gives rows that do not belong with the others."""
    before: dict[str, set[str]] = {}
    for row in store.rows("SELECT platform, fingerprint FROM platforms WHERE run = ? AND fingerprint <> ''", [run]):
        before.setdefault(row["platform"], set()).add(row["fingerprint"])
    for platform in dict.fromkeys(platforms):
        if platform in before and fingerprint_of(pool.describe(platform)) not in before[platform]:
            manner.say(f"CHANGED since the campaign began (versions, hardware or settings): {platform}")


def _budgets(folder: Folder, wanted: Sequence[str], past: Past) -> dict[str, CpuBudget]:
    """Each shard has its part of a budget."""
    plan, shard = folder.plan, folder.shard
    blocks = len(list(shard.blocks(plan.variants.count)))
    return {
        platform: CpuBudget(60 * minutes / shard.of, blocks, past.cpu.get(platform, 0.0))
        for platform in wanted
        if (minutes := plan.platforms[platform].cpu_minutes) is not None
    }


def _numbers(folder: Folder) -> list[int]:
    """Of the blocks of this shard."""
    return list(folder.shard.blocks(folder.plan.count))


def _done_cases(past: Past, plan: Plan) -> int:
    return sum(min(BLOCK, plan.count - number * BLOCK) for number in past.done if number * BLOCK < plan.count)
