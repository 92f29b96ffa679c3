"""Surveys several platforms: reads known answers from a store, probes the rest, and stores the new answers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from mindgap.graph import MindgapError
from mindgap.platforms.environments import HostProblem
from mindgap.platforms.name import CPU_EAGER, PlatformName
from mindgap.results.store import Store, Writer
from mindgap.results.support_answers import RUNNING, SupportAnswer, SupportTable, read_support, rows_of
from mindgap.results.support_key import Key
from mindgap.run.local import fingerprint_of
from mindgap.run.pool import JobRunner, WorkerPool, describe_all, start_error
from mindgap_surveys.support.agreement import (
    NOT_JUDGED,
    Agreement,
    AgreementMeter,
    Calm,
    References,
    agreement_row,
    read_agreements,
)
from mindgap_surveys.support.prober import SurveyBudget, ask
from mindgap_surveys.support.probes import CallProbe, common_forms

_log = logging.getLogger(__name__)

#: OnProgress (platform, done, total, what).
OnPlatformProgress = Callable[[PlatformName, int, int, str], None]
#: The shares of a platform's time at which asking stops for judging, where what runs is compared as well: judging may
#: need more than a third of it, and mostly needs much less.
_SHARES = (2 / 3, 8 / 9)


@dataclass(frozen=True)
class SurveyResult:
    """The result of a survey. `keys`: all keys. `absent`: platforms that are not available, or whose host was lost, and
    why.

    `left_out`: keys that are not wanted. `untried`: keys beyond a platform's budget. `cpu_seconds`: processor
    seconds of this survey. `agreements`: how what runs compares with the reference, by fingerprint; empty where that
    did not run.
    """

    support: SupportTable
    keys: tuple[Key, ...]
    absent: Mapping[str, str] = field(default_factory=dict[str, str])
    left_out: frozenset[Key] = frozenset()
    untried: Mapping[str, Sequence[Key]] = field(default_factory=dict[str, Sequence[Key]])
    cpu_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    agreements: Mapping[str, Mapping[Key, Agreement]] = field(default_factory=dict[str, Mapping[Key, Agreement]])

    def check(self) -> None:
        """Raises `MindgapError` if no platform could be surveyed."""
        if not self.support.platforms:
            why = "; ".join(f"{platform}: {reason}" for platform, reason in self.absent.items())
            raise MindgapError(f"no platform could be asked: {why}")


def survey_platforms(
    platforms: Sequence[PlatformName],
    probes: Sequence[CallProbe],
    store: Store,
    *,
    budget_s: float | None = None,
    jobs: int = 1,
    pool: JobRunner | None = None,
    compare: bool = False,
    common: bool = False,
    on_progress: OnPlatformProgress = lambda platform, done, total, what: None,
) -> SurveyResult:
    """Surveys platforms as they are on this machine now.

    What the store knows of a platform's fingerprint is not run again; new answers are in the store within seconds,
    so that a run that is killed goes on where it was. `budget_s`: seconds of wall time for all platforms. `jobs`:
    platforms at a time. `pool`: workers to use, which must have all platforms. `compare`: what runs is compared with
    `cpu/eager` and judged, within the same budget. `common`: only `common_forms` run. A
    platform whose host is lost is `absent`, and the others go on. Raises `PlatformError` for a platform that is
    not known; one that is known and cannot be opened is `absent`.
    """
    needed = [*dict.fromkeys([*platforms, CPU_EAGER] if compare else platforms)]
    keys = _keys(probes)
    wanted = common_forms(keys) if common else frozenset(keys)
    with _pool(needed, pool, jobs) as workers, store.writer() as writer:
        present: dict[PlatformName, str] = {}
        absent: dict[str, str] = {}
        for platform, description in describe_all(workers, needed, max(jobs, 1)).items():
            if platform not in platforms:
                continue
            if why := start_error(description):
                absent[platform] = why
            else:
                present[platform] = fingerprint_of(description)
        comparer = _Comparer(workers, writer, store, present) if compare else None
        wanted_probes = [probe for probe in probes if probe.key in wanted]
        shares = None if budget_s is None else _TimeShares(time.monotonic() + budget_s, len(present), max(jobs, 1))
        session = _Survey(workers, writer, wanted_probes, read_support(store, present), shares, on_progress, comparer)
        with ThreadPoolExecutor(max(jobs, 1), thread_name_prefix="mindgap-ask") as threads:
            try:
                list(threads.map(session.ask_if_reached, present))
            except BaseException:
                # The threads are waited for: without this, until their platforms are surveyed.
                session.interrupted.set()
                raise
    agreements = comparer.found if comparer is not None else {}
    absent |= session.lost
    left_out = frozenset(keys) - wanted
    return SurveyResult(session.support(), keys, absent, left_out, session.untried, session.cpu_seconds, agreements)


def stored_survey(
    platforms: Sequence[PlatformName], probes: Sequence[CallProbe], store: Store, *, common: bool = False
) -> SurveyResult:
    """Returns what a store holds of platforms as they were at their last survey. Starts none of them.

    A platform that has no answers there is `absent`. `common`: as `survey_platforms` has it.
    """
    newest = {
        row["platform"]: row["fingerprint"]
        for row in store.rows(
            "SELECT platform, arg_max(fingerprint, _written) AS fingerprint FROM support GROUP BY platform"
        )
    }
    present = {platform: newest[platform] for platform in dict.fromkeys(platforms) if platform in newest}
    absent: dict[str, str] = {each: "the store has no answers of it" for each in platforms if each not in newest}
    reference = store.rows("SELECT arg_max(reference, _written) AS reference FROM agreement")
    agreements = read_agreements(store, present, str(reference[0]["reference"])) if reference else {}
    keys = _keys(probes)
    left_out = frozenset(keys) - common_forms(keys) if common else frozenset[Key]()
    return SurveyResult(read_support(store, present), keys, absent, left_out, agreements=agreements)


def _keys(probes: Sequence[CallProbe]) -> tuple[Key, ...]:
    return tuple(sorted({probe.key for probe in probes}))


@contextmanager
def _pool(platforms: Sequence[PlatformName], pool: JobRunner | None, jobs: int) -> Generator[JobRunner]:
    if pool is not None:
        yield pool
        return
    with WorkerPool(platforms, busy=max(jobs, 1)) as own:
        yield own


class SurveyInterrupted(Exception):
    """Ends the survey of a platform whose answers are no longer awaited."""


@dataclass
class _TimeShares:
    """Divides the time until a deadline among platforms, of which `jobs` are surveyed at a time. Thread-safe.

    What a platform leaves is for those after it."""

    deadline: float
    platforms: int
    jobs: int
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> float:
        with self.lock:
            rounds = -(-self.platforms // self.jobs)
            self.platforms -= 1
            return max(self.deadline - time.monotonic(), 0.0) / max(rounds, 1)


@dataclass
class _Survey:
    """`lost`: platforms whose host was lost, and why. `interrupted`: set where the answers are no longer awaited."""

    _pool: JobRunner
    _writer: Writer
    _probes: Sequence[CallProbe]
    _known: SupportTable
    _time: _TimeShares | None
    _told: OnPlatformProgress
    _comparer: _Comparer | None
    untried: dict[str, list[Key]] = field(default_factory=dict[str, list[Key]])
    cpu_seconds: dict[str, float] = field(default_factory=dict[str, float])
    lost: dict[PlatformName, str] = field(default_factory=dict[PlatformName, str])
    interrupted: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        fingerprints = dict.fromkeys(self._known.platforms.values())
        self._lock, self._begun = threading.Lock(), {each: threading.Lock() for each in fingerprints}
        self._new: dict[str, dict[Key, SupportAnswer]] = {each: {} for each in fingerprints}

    def ask_if_reached(self, platform: PlatformName) -> None:
        """Surveys one platform. Where its host is lost it is left out; the answers until then are in the store."""
        try:
            self._ask(platform)
        except HostProblem as problem:
            reason = f"{problem}; what it answered before is in the store, and another run goes on from there"
            _log.warning("%s: %s", platform, reason)
            self.lost[platform] = reason

    def _ask(self, platform: PlatformName) -> None:
        """Surveys one platform for unknown keys. Names of the same platform are surveyed one after the other."""
        fingerprint = self._known.platforms[platform]
        seconds = self._time.take() if self._time is not None else None
        budget = SurveyBudget(seconds)
        shares = _SHARES if self._comparer is not None and seconds else (1.0,)
        left: list[Key] = []

        def keep(answer: SupportAnswer) -> None:
            self._new[fingerprint][answer.key] = answer
            self._writer.append("support", rows_of(platform, fingerprint, [answer]))

        def tell(done: int, total: int, what: str) -> None:
            self._tell(platform, done, total, what)

        with self._begun[fingerprint]:
            known = {**self._known.answers(fingerprint), **self._new[fingerprint]}
            _log.info("%s: %d answers are known", platform, len(known))
            compared = self._comparer.meter(platform) if self._comparer is not None else None
            for share in shares:
                if self._comparer is not None:
                    known = self._comparer.compared_answers(fingerprint, {**known, **self._new[fingerprint]})
                budget.seconds = None if seconds is None else share * seconds
                left = ask(
                    platform, self._probes, self._pool, known=known, budget=budget, keep=keep, on_progress=tell,
                    on_run=None if compared is None else compared.on_run,
                    attach=0 if compared is None else compared.ATTACH,
                )  # fmt: skip
                budget.seconds = seconds
                if compared is not None:
                    compared.judge(budget, tell)
                if not left:
                    break
        _log.info("%s: asked for %.1f CPU s, %d calls not reached", platform, budget.spent, len(left))
        with self._lock:
            self.untried[platform] = left
            self.cpu_seconds[platform] = budget.spent

    def _tell(self, platform: PlatformName, done: int, total: int, what: str) -> None:
        if self.interrupted.is_set():
            raise SurveyInterrupted
        self._told(platform, done, total, what)

    def support(self) -> SupportTable:
        """Returns all answers, earlier and new, of platforms whose hosts were not lost."""
        platforms = {name: each for name, each in self._known.platforms.items() if name not in self.lost}
        return SupportTable({f: {**self._known.answers(f), **self._new[f]} for f in self._new}, platforms)


class _Comparer:
    """What a survey knows of agreements with the reference, and makes known."""

    def __init__(self, pool: JobRunner, writer: Writer, store: Store, platforms: Mapping[PlatformName, str]) -> None:
        """Raises `MindgapError` where the reference does not start."""
        described = pool.describe(CPU_EAGER)
        if set(described) == {"error"}:
            raise MindgapError(f"{CPU_EAGER}, which others are compared with, cannot be opened: {described['error']}")
        self._pool, self._writer, self._platforms = pool, writer, platforms
        self._reference = fingerprint_of(described)
        self._references, self._calm = References(pool), Calm()
        #: By fingerprint.
        self.found = read_agreements(store, platforms, self._reference)

    def compared_answers(self, fingerprint: str, known: Mapping[Key, SupportAnswer]) -> dict[Key, SupportAnswer]:
        """Returns the answers that need no other run: those that do not run, or that are compared."""
        done = {key for key, each in self.found[fingerprint].items() if each.word != NOT_JUDGED}
        return {key: answer for key, answer in known.items() if answer.answer not in RUNNING or key in done}

    def meter(self, platform: PlatformName) -> AgreementMeter:
        """Makes what compares one platform, and stores each agreement."""
        fingerprint = self._platforms[platform]

        def keep(found: Agreement) -> None:
            self.found[fingerprint][found.key] = found
            self._writer.append("agreement", [agreement_row(platform, fingerprint, self._reference, found)])

        return AgreementMeter(platform, self._pool, self._references, self._calm, keep)
