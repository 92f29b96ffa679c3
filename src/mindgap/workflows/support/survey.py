"""Surveys several platforms: reads known answers from a store, probes the rest, and stores the new answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from mindgap.graph import MindgapError
from mindgap.platforms.name import PlatformName
from mindgap.results.store import Store, Writer
from mindgap.run.local import fingerprint_of
from mindgap.run.pool import WorkerPool
from mindgap.workflows.support.answers import SupportAnswer, SupportTable, read_support, rows_of
from mindgap.workflows.support.key import Key
from mindgap.workflows.support.prober import SurveyBudget, ask
from mindgap.workflows.support.probes import CallProbe

_log = logging.getLogger(__name__)

#: OnProgress (platform, done, total, what).
OnPlatformProgress = Callable[[PlatformName, int, int, str], None]


@dataclass(frozen=True)
class SurveyResult:
    """The result of a survey. `keys`: all keys. `absent`: platforms that are not available, and why.

    `untried`: keys beyond a platform's budget. `cpu_seconds`: processor seconds of this survey.
    """

    support: SupportTable
    keys: tuple[Key, ...]
    absent: Mapping[str, str] = field(default_factory=dict[str, str])
    untried: Mapping[str, Sequence[Key]] = field(default_factory=dict[str, Sequence[Key]])
    cpu_seconds: Mapping[str, float] = field(default_factory=dict[str, float])


def survey_platforms(
    platforms: Sequence[PlatformName],
    probes: Sequence[CallProbe],
    store: Store,
    *,
    budget_s: float | None = None,
    jobs: int = 1,
    pool: WorkerPool | None = None,
    on_progress: OnPlatformProgress = lambda platform, done, total, what: None,
) -> SurveyResult:
    """Surveys platforms as they are on this machine now.

    What the store knows of a platform's fingerprint is not asked again; what is asked is in the store within seconds,
    so that a run that is killed goes on where it was. `budget_s`: processor seconds for each platform. `jobs`:
    platforms at a time. `pool`: workers to use, which must have all platforms. Raises `PlatformError` for a platform
    that is not known; one that is known and cannot be opened is `absent`.
    """
    with _pool(platforms, pool, jobs) as workers, store.writer() as writer:
        present: dict[PlatformName, str] = {}
        absent: dict[str, str] = {}
        for platform in dict.fromkeys(platforms):
            description = workers.describe(platform)
            if set(description) == {"error"}:
                absent[platform] = " ".join(str(description["error"]).split())
            else:
                present[platform] = fingerprint_of(description)
        session = _Survey(workers, writer, probes, read_support(store, present), budget_s, on_progress)
        with ThreadPoolExecutor(max(jobs, 1), thread_name_prefix="mindgap-ask") as threads:
            try:
                list(threads.map(session.ask, present))
            except BaseException:
                # The threads are waited for: without this, until their platforms are surveyed.
                session.interrupted.set()
                raise
    keys = tuple(sorted({probe.key for probe in probes}))
    return SurveyResult(session.support(), keys, absent, session.untried, session.cpu_seconds)


@contextmanager
def _pool(platforms: Sequence[PlatformName], pool: WorkerPool | None, jobs: int) -> Generator[WorkerPool]:
    if pool is not None:
        yield pool
        return
    with WorkerPool(platforms, busy=max(jobs, 1)) as own:
        yield own


class SurveyInterrupted(Exception):
    """Ends the survey of a platform whose answers nobody waits for any more."""


class _Survey:
    def __init__(
        self,
        pool: WorkerPool,
        writer: Writer,
        probes: Sequence[CallProbe],
        known: SupportTable,
        budget_s: float | None,
        on_progress: OnPlatformProgress,
    ) -> None:
        self._pool = pool
        self._writer = writer
        self._probes = probes
        self._known = known
        self._budget_s = budget_s
        self._told = on_progress
        self._lock = threading.Lock()
        self._begun: dict[str, threading.Lock] = {
            fingerprint: threading.Lock() for fingerprint in known.platforms.values()
        }
        self._new: dict[str, dict[Key, SupportAnswer]] = {fingerprint: {} for fingerprint in known.platforms.values()}
        self.untried: dict[str, list[Key]] = {}
        self.cpu_seconds: dict[str, float] = {}
        #: Set where nobody waits for the answers any more.
        self.interrupted = threading.Event()

    def ask(self, platform: PlatformName) -> None:
        """Surveys one platform for unknown keys. Names of the same platform are surveyed one after the other."""
        fingerprint = self._known.platforms[platform]
        budget = SurveyBudget(self._budget_s)

        def keep(answer: SupportAnswer) -> None:
            self._new[fingerprint][answer.key] = answer
            self._writer.append("support", rows_of(platform, fingerprint, [answer]))

        with self._begun[fingerprint]:
            known = {**self._known.answers(fingerprint), **self._new[fingerprint]}
            _log.info("%s: %d answers are known", platform, len(known))
            left = ask(
                platform, self._probes, self._pool, known=known, budget=budget, keep=keep,
                on_progress=lambda done, total, what: self._tell(platform, done, total, what),
            )  # fmt: skip
        _log.info("%s: asked for %.1f CPU s, %d calls not reached", platform, budget.spent, len(left))
        with self._lock:
            self.untried[platform] = left
            self.cpu_seconds[platform] = budget.spent

    def _tell(self, platform: PlatformName, done: int, total: int, what: str) -> None:
        if self.interrupted.is_set():
            raise SurveyInterrupted
        self._told(platform, done, total, what)

    def support(self) -> SupportTable:
        """Returns all answers, earlier and new."""
        platforms = self._known.platforms
        return SupportTable({f: {**self._known.answers(f), **self._new[f]} for f in self._new}, platforms)


def nothing_asked(asked: SurveyResult) -> MindgapError | None:
    """Returns the error if no platform could be surveyed."""
    if asked.support.platforms:
        return None
    why = "; ".join(f"{platform}: {reason}" for platform, reason in asked.absent.items())
    return MindgapError(f"no platform could be asked: {why}")
