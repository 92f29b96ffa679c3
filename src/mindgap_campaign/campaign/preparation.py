"""Prepares a session of a campaign: its options, what has run, what platforms lack, their budgets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from mindgap.graph import MindgapError, TensorStore
from mindgap.platforms.name import PlatformName
from mindgap.results.recording import Recording
from mindgap.results.rows import PlatformFacts
from mindgap.results.store import Store, Writer
from mindgap.run.extensions import service
from mindgap.run.local import fingerprint_of
from mindgap.run.pool import JobRunner
from mindgap_campaign.campaign.cases.case import BLOCK, CaseSource
from mindgap_campaign.campaign.cluster.judged_block import commit_name
from mindgap_campaign.campaign.plan import Plan
from mindgap_campaign.campaign.schedule.case_runner import CpuBudget
from mindgap_campaign.campaign.schedule.eligibility import Eligibility, read_eligibility
from mindgap_campaign.campaign.schedule.selection import BlockSelector
from mindgap_campaign.campaign.state.directory import CampaignDirectory
from mindgap_campaign.campaign.state.progress import Progress
from mindgap_campaign.campaign.state.resume_state import ResumeState, read_resume_state
from mindgap_campaign.campaign.state.status import planned_cases
from mindgap_campaign.campaign.state.steps import StepTracker

#: A session that is killed loses what its writer holds: at most so many rows, or what is so old.
_ROWS: Final = 4096
_AGE_S: Final = 10.0


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


def settled_state(store: Store, directory: CampaignDirectory) -> ResumeState:
    """Reads the resume state, after publishing what a cluster's node committed and did not publish. Blocks that a
    session on one machine only began may be committed too."""
    commits = store.commits(directory.run)
    finished = "SELECT block FROM blocks WHERE run = ? AND seconds IS NOT NULL"
    published = {row["block"] for row in store.rows(finished, [directory.run])}
    commits.settle(sorted(commits.names() - {commit_name(number) for number in published}))
    return read_resume_state(store, directory)


def writer_of(store: Store) -> Writer:
    """Returns the writer of a session. Its rows get later stamps than those that the store has."""
    return store.writer(rows=_ROWS, age_s=_AGE_S, after=store.last_stamp())


def selector_of(
    plan: Plan, platforms: Sequence[PlatformName], resume_state: ResumeState, support: Eligibility | None = None
) -> BlockSelector:
    """Returns the block selector as it was after the blocks that earlier sessions finished."""
    selector = BlockSelector(plan, platforms, support)
    for row in resume_state.finished_blocks:
        selector.restore(row["features"] or (), row["given"] or {})
    return selector


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
    plan = directory.plan
    # Those of earlier sessions too, of which this one may run none.
    listed = [name for name in plan.platforms if name in platforms or name in resume_state.platforms]
    record.begin(created, version("mindgap"), facts, listed, about, [plan.reference, *plan.platforms])


def support_of(
    directory: CampaignDirectory,
    case_source: CaseSource,
    pool: JobRunner,
    platforms: Sequence[PlatformName],
    options: RunOptions,
    fresh: Sequence[PlatformName],
) -> Eligibility:
    """Returns the operators that platforms refuse. `fresh`: platforms that are new to the campaign, whose unknown ones
    are surveyed first."""
    before = directory.support_options
    known_support = None if before.support is None else Path(before.support)
    survey = service("graph_survey")
    lacking: list[PlatformName] = [name for name in fresh if survey.may_lack(name, directory.plan.reference)]
    if known_support is not None and before.minutes > 0 and lacking:
        limits = survey.SurveyLimits(known_support, before.minutes, options.steps, options.notify)
        survey.survey_graphs(lacking, case_source.samples(directory.numbers), pool, limits)
    support = read_eligibility(directory.store, known_support, pool, directory.plan, platforms, fresh=fresh)
    if known_support is not None:
        unasked = sorted({*lacking} - support.platforms)
        if unasked:
            names = " ".join(unasked)
            options.notify(
                f"NOT ASKED what {names} lack: what they refuse is run all the same (mindgap coverage {names})"
            )
    return support


def check_changes(
    store: Store, directory: CampaignDirectory, pool: JobRunner, platforms: Sequence[PlatformName], options: RunOptions
) -> None:
    """Warns of platforms whose fingerprint changed since the campaign began: their rows are not comparable.

    Raises `MindgapError` if it is the reference of a campaign from a bundle: its run is that of one machine.
    """
    run, reference = directory.run, directory.plan.reference
    before: dict[str, set[str]] = {}
    for row in store.rows("SELECT platform, fingerprint FROM platforms WHERE run = ? AND fingerprint <> ''", [run]):
        before.setdefault(row["platform"], set()).add(row["fingerprint"])
    for platform in dict.fromkeys(platforms):
        if platform in before and fingerprint_of(pool.describe(platform)) not in before[platform]:
            if platform == reference and directory.bundle is not None:
                raise MindgapError(
                    f"the run {run} of {store.url} is of another machine: its reference {reference} differs (versions, "
                    "hardware or settings): begin another run of the bundle, with another --out"
                )
            options.notify(f"CHANGED since the campaign began (versions, hardware or settings): {platform}")


def budgets_of(
    directory: CampaignDirectory, platforms: Sequence[PlatformName], resume_state: ResumeState
) -> dict[PlatformName, CpuBudget]:
    """Returns the processor-time budget of each platform that has one, divided by the number of shards.

    A platform that compiles batches without a limit has an infinite one: its cases of a block are gathered. The
    reference has none: it runs every case that another platform runs.
    """
    plan, shard = directory.plan, directory.shard
    blocks = len(list(shard.blocks(plan.variants.count)))
    return {
        platform: CpuBudget(
            60 * (limits.cpu_minutes or math.inf) / shard.of, blocks, resume_state.cpu.get(platform, 0.0)
        )
        for platform, limits in plan.platforms.items()
        if platform in platforms and platform != plan.reference and (limits.cpu_minutes is not None or limits.batch > 1)
    }


def progress_of(directory: CampaignDirectory, resume_state: ResumeState) -> Progress:
    """Returns the progress of a session that begins."""
    plan = directory.plan
    done = sum(min(BLOCK, plan.count - number * BLOCK) for number in resume_state.done if number * BLOCK < plan.count)
    return Progress(planned_cases(plan, directory.shard), done)
