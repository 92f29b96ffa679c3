"""Surveys platforms for the operator calls of given graphs within a time limit, before a campaign begins.

A call that is known to be refused is not run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from mindgap.graph import Graph
from mindgap.platforms.environments import HostProblem
from mindgap.platforms.name import PlatformName
from mindgap.results.store import Store
from mindgap.results.support_answers import REFUSING, SupportTable, read_support
from mindgap.results.support_key import Key
from mindgap.run.local import fingerprint_of
from mindgap.run.pool import JobRunner
from mindgap_surveys.support.graph_probes import CaseProbes, case_probes
from mindgap_surveys.support.survey import SurveyInterrupted, survey_platforms

#: A platform that refuses none of so many calls, evenly spread over all, gets no more.
_SOME: Final = 128


def may_lack(platform: PlatformName, reference: PlatformName) -> bool:
    """Tells whether a platform can lack operators of the reference: not if it differs in options only, and runs in the
    same environment, on the same host."""
    if platform.device_mode != reference.device_mode:
        return True
    there, where = ((each.environment, each.host) for each in (platform, reference))
    return not platform.is_import_path and there != where


class Steps(Protocol):
    """Receives the current step of the survey and its progress."""

    def step(self, name: str, total: int = 0) -> None: ...

    def tick(self, done: int, total: int) -> None: ...


@dataclass(frozen=True)
class SurveyLimits:
    """Limits and outlets of one survey.

    `store`: where answers are kept. `minutes`: wall time for each platform. `steps`: receives the progress.
    `notify`: receives one line per platform.
    """

    store: Path
    minutes: float
    steps: Steps
    notify: Callable[[str], None]


@dataclass
class _Answered:
    """The result of one platform's survey, in keys. `idle`: not probed, because it refused none of the first keys."""

    asked: int = 0
    untried: int = 0
    idle: int = 0
    seconds: float = 0.0
    support: SupportTable = field(default_factory=lambda: SupportTable({}, {}))


def survey_graphs(
    platforms: Sequence[PlatformName], graphs: Iterable[Graph], pool: JobRunner, limits: SurveyLimits
) -> None:
    """Surveys each platform of `pool` for the graphs' calls without an answer, and stores the answers.

    Reports for each platform how many keys were known, probed, not probed and refused. Raises `MindgapError` for a
    damaged store, and `HostProblem` where a platform's host is lost.
    """
    store, steps = Store(limits.store), limits.steps
    prints = {platform: fingerprint_of(pool.describe(platform)) for platform in dict.fromkeys(platforms)}
    known = read_support(store, prints)
    everywhere = [set(known.answers(fingerprint)) for fingerprint in prints.values()]
    steps.step("finding out which operators the cases hold")
    cases = case_probes(graphs, set[Key].intersection(*everywhere), on_graph=lambda done: steps.tick(done, 0))
    names = ", ".join(prints)
    limits.notify(
        f"asking {names} which operators they run, for at most {limits.minutes:g} min each "
        "(--coverage-minutes M; --no-coverage asks nothing)"
    )
    steps.step(f"asking {names} which operators they run")
    counts: dict[str, tuple[int, int]] = {}
    lock, interrupted = threading.Lock(), threading.Event()

    def on_progress(platform: PlatformName, done: int, total: int) -> None:
        if interrupted.is_set():
            raise SurveyInterrupted
        with lock:
            counts[platform] = (done, total)
            steps.tick(sum(d for d, _ in counts.values()), sum(t for _, t in counts.values()))

    def ask(platform: PlatformName) -> _Answered:
        answered = _Answered(support=known)
        _ask(platform, prints[platform], cases, store, pool, limits.minutes, answered, on_progress)
        return answered

    with ThreadPoolExecutor(len(prints), "mindgap-ask-first") as threads:
        try:
            for platform, answered in zip(prints, threads.map(ask, prints), strict=True):
                before = len(cases.keys & known.answers(prints[platform]).keys())
                limits.notify(_line(platform, prints[platform], cases, before, answered, limits.minutes))
        except BaseException:
            # The threads are waited for: without this, until their budgets are spent.
            interrupted.set()
            raise


def _ask(
    platform: PlatformName, fingerprint: str, cases: CaseProbes, store: Store, pool: JobRunner, minutes: float,
    answered: _Answered, on_progress: Callable[[PlatformName, int, int], None],
) -> None:  # fmt: skip
    """Probes some keys first, and all others only if the platform refuses any."""
    known = answered.support.answers(fingerprint)
    unknown = sorted({probe.key for probe in cases.probes} - known.keys())
    some = set(unknown[:: max(1, -(-len(unknown) // _SOME))])
    for keys in (some, set(unknown) - some):
        budget = 60 * minutes - answered.seconds
        if not keys:
            continue
        if keys is not some and not _refused(answered.support, fingerprint, cases.keys):
            answered.idle = len(keys)
            continue
        if budget <= 0:
            answered.untried += len(keys)
            continue
        before, began = answered.asked, time.monotonic()
        result = survey_platforms(
            [platform], [probe for probe in cases.probes if probe.key in keys], store, budget_s=budget, pool=pool,
            on_progress=lambda name, done, total, what, before=before: on_progress(name, before + done, len(unknown)),
        )  # fmt: skip
        if platform.host and platform in result.absent:
            raise HostProblem(result.absent[platform])
        left = len(result.untried.get(platform, ()))
        answered.asked += len(keys) - left
        answered.untried += left
        answered.seconds += time.monotonic() - began
        answered.support = result.support
    on_progress(platform, len(unknown), len(unknown))


def _refused(support: SupportTable, fingerprint: str, keys: Iterable[Key]) -> int:
    """Counts the keys that the platform is known to refuse."""
    answers = support.answers(fingerprint)
    return sum(key in answers and answers[key].answer in REFUSING for key in keys)


def _line(
    platform: PlatformName, fingerprint: str, cases: CaseProbes, known: int, answered: _Answered, minutes: float
) -> str:
    refused = _refused(answered.support, fingerprint, cases.keys)
    large = len(cases.keys) - known - answered.asked - answered.untried - answered.idle
    parts = [
        f"{platform}: of {len(cases.keys):,} calls in the cases (by operator, dtype and layout) {known:,} were known",
        f"{answered.asked:,} were asked in {answered.seconds:.0f} s",
        f"it refuses {refused:,}",
    ]
    if answered.idle:
        parts.append(f"{answered.idle:,} were not asked, as it refused none before them")
    if answered.untried:
        parts.append(f"{answered.untried:,} WERE NOT ASKED, as {minutes:g} min are spent (--coverage-minutes)")
    if large:
        parts.append(f"{large:,} cannot be asked by themselves, mostly for the size of their operands")
    return "; ".join(parts)
