"""Runs probes on one platform: several calls in one job while that succeeds, and less after a failure."""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from mindgap.graph import Graph, concatenate
from mindgap.platforms.name import PlatformName
from mindgap.results.support_answers import REFUSING, SupportAnswer, answer_of
from mindgap.results.support_key import Key
from mindgap.run.cpu import CpuMeter
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import JobRunner
from mindgap_surveys.support.call_forms import DTYPES
from mindgap_surveys.support.probes import CallProbe, OnProgress

#: Calls in one job: at first, and the most.
_FIRST: Final = 4
_LARGEST: Final = 64
#: Receives the calls of one job that ran, their graphs and its outcome.
OnRun = Callable[[Sequence[CallProbe], Sequence[Graph], Outcome], None]
#: How an outcome ends a worker as well.
_DEADLY: Final = frozenset({"crash", "timeout", "oom"})
#: A name of several parts: `aten.relu.default`, `relu.default`.
_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::)\w+)+")
#: Seconds for a job, and for each call in it.
_DEADLINE_S: Final = 120.0
_EACH_S: Final = 10.0
#: Seconds by which a job may outlive the budget.
_OVERSHOOT_S: Final = 5.0


@dataclass
class SurveyBudget:
    """The limit of a survey. seconds: of wall time, from `started` on. spent: processor seconds of the platform's
    worker and its children."""

    seconds: float | None = None
    spent: float = 0.0
    started: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        return math.inf if self.seconds is None else self.started + self.seconds - time.monotonic()

    @property
    def gone(self) -> bool:
        return self.left <= 0


@dataclass
class _Asked:
    """A key, its samples, and the outcomes of those that were tried."""

    key: Key
    samples: Sequence[CallProbe]
    outcomes: list[Outcome] = field(default_factory=list[Outcome])


def ask(
    platform: PlatformName,
    probes: Iterable[CallProbe],
    pool: JobRunner,
    *,
    known: Mapping[Key, SupportAnswer],
    batched: bool = True,
    budget: SurveyBudget | None = None,
    keep: Callable[[SupportAnswer], None] = lambda answer: None,
    on_run: OnRun | None = None,
    attach: int = 0,
    on_progress: OnProgress = lambda done, total, what: None,
) -> list[Key]:
    """Asks a platform of `pool` every key that is not `known`, and hands each answer to `keep` as it comes.

    float32 comes first, then the other dtypes in the order of `DTYPES`, then other layouts; what the budget did not
    reach is returned. `batched`: calls are laid side by side in one job, more of them while jobs succeed. Of a job that
    fails, the operator that its message names runs alone, and the rest together again; without such an operator it
    is halved until the calls that fail stand alone (at once, where it took its worker with it). Of an
    operator that was refused for contiguous float32 the rest comes last, one by one, and one refusal of each key is
    enough. `on_run`: receives each job that ran, with its outputs where they take at most `attach` bytes.
    """
    waiting, later = _queue(probes, known.keys()), deque[_Asked]()
    asker = _Asker(platform, pool, budget or SurveyBudget(), keep, on_run, attach)
    asker.refused.update(answer.op for answer in known.values() if _throughout(answer))
    total = len(waiting)
    size = _FIRST if batched else 1
    while (waiting or later) and not asker.budget.gone:
        group = _group(waiting, later, asker.refused, size) or [later.popleft()]
        failed = asker.ask(group)
        if batched and group[0].key.op not in asker.refused and failed != 1:
            size = max(size // 2, 1) if failed else min(2 * size, _LARGEST)
        on_progress(total - len(waiting) - len(later) - len(asker.unreached), total, group[-1].key.op)
    return [waiting_key.key for waiting_key in (*asker.unreached, *waiting, *later)]


def _group(waiting: deque[_Asked], later: deque[_Asked], refused: Set[str], most: int) -> list[_Asked]:
    """Takes the next calls to try together. Calls of refused operators move to `later`."""
    group: list[_Asked] = []
    while waiting and len(group) < most and (not group or _alike(waiting[0], group[0])):
        first_waiting = waiting.popleft()
        (later if first_waiting.key.op in refused else group).append(first_waiting)
    return group


def _queue(probes: Iterable[CallProbe], known: Set[Key]) -> deque[_Asked]:
    samples: dict[Key, list[CallProbe]] = {}
    for probe in probes:
        samples.setdefault(probe.key, []).append(probe)
    rank = {dtype: position for position, dtype in enumerate(DTYPES)}
    order = sorted(samples.keys() - known, key=lambda key: (plain_first(key), rank.get(key.dtype, len(rank)), key))
    return deque(_Asked(key, samples[key]) for key in order)


def plain_first(key: Key) -> int:
    """Returns the sort key: common calls first, then other dtypes, then other layouts."""
    if key.layout in ("contiguous", "scalar"):
        return 0 if key.dtype == "float32" else 1
    return 2


def _throughout(answer: SupportAnswer) -> bool:
    """Tells whether a refusal probably holds for all forms of the operator: it is for contiguous float32."""
    return answer.answer in REFUSING and (answer.dtype, answer.layout) == ("float32", "contiguous")


def _alike(one: _Asked, other: _Asked) -> bool:
    return (one.key.dtype, plain_first(one.key)) == (other.key.dtype, plain_first(other.key))


def _named(outcome: Outcome) -> frozenset[str]:
    """Returns what may name packets in the message of an outcome: `aten.relu` of `aten::relu.out` or `relu.out`."""
    words = [word.replace("::", ".").split(".") for word in _NAME.findall(f"{outcome.op} {outcome.message}")]
    return frozenset(".".join(word[:2]) if word[0] == "aten" else f"aten.{word[0]}" for word in words)


class _Asker:
    def __init__(
        self, platform: PlatformName, pool: JobRunner, budget: SurveyBudget, keep: Callable[[SupportAnswer], None],
        on_run: OnRun | None, attach: int,
    ) -> None:  # fmt: skip
        self._platform, self._pool, self.budget = platform, pool, budget
        self._keep, self._on_run, self._attach = keep, on_run, attach
        self._meter = CpuMeter(pool.cpu, platform)
        #: Operators that were refused where they are plainest.
        self.refused: set[str] = set()
        #: Calls that the budget ended before they had an answer.
        self.unreached: list[_Asked] = []

    def ask(self, group: Sequence[_Asked]) -> int:
        """Tries a group of calls and stores the answers. Returns how many jobs of several calls, or of the only one,
        did not run."""
        if self.budget.gone:
            self.unreached += group
            return 0
        first = self._try([item.samples[0] for item in group])
        if first.status == "timeout" and self.budget.gone:
            self.unreached += group
            return 0
        if first.ran:
            for item in group:
                self._settle(item, [first])
            return 0
        if len(group) == 1:
            self._settle(group[0], [first, *self._more(group[0], first)])
            return 1
        if first.status in _DEADLY:
            # A job that takes its worker with it costs new ones, more than all of its calls one by one.
            parts = [[item] for item in group]
        elif named := _named(first).intersection(item.key.packet for item in group):
            # What the message is about runs alone: the message of a job of several calls is no answer.
            parts = [[item] for item in group if item.key.packet in named]
            if rest := [item for item in group if item.key.packet not in named]:
                parts.append(rest)
        else:
            parts = [group[: len(group) // 2], group[len(group) // 2 :]]
        failed = [self.ask(part) for part in parts]
        return 1 + sum(count for count, part in zip(failed, parts, strict=True) if len(part) > 1)

    def _more(self, asked: _Asked, first: Outcome) -> list[Outcome]:
        """Tries the other samples of a call that did not run, until one does, or two fail in the same words."""
        if first.status == "unsupported" and asked.key.op in self.refused:
            return []
        outcomes = [first]
        for sample in asked.samples[1:]:
            if self.budget.gone:
                break
            outcomes.append(self._try([sample]))
            if outcomes[-1].ran or outcomes[-1].signature == outcomes[-2].signature:
                break
        return outcomes[1:]

    def _settle(self, asked: _Asked, outcomes: Sequence[Outcome]) -> None:
        answer = answer_of(asked.key, outcomes)
        if _throughout(answer):
            self.refused.add(asked.key.op)
        self._keep(answer)

    def _try(self, samples: Sequence[CallProbe]) -> Outcome:
        graphs = [sample.graph for sample in samples]
        joined = graphs[0] if len(graphs) == 1 else concatenate(graphs)
        deadline = min(_DEADLINE_S + _EACH_S * len(graphs), max(self.budget.left, 0.0) + _OVERSHOOT_S)
        outcome = self._pool.run(
            Job(self._platform, joined, repeat=1, deadline_s=deadline, purpose="asking", attach_up_to=self._attach)
        )
        self.budget.spent += self._meter.read()
        if outcome.ran and self._on_run is not None:
            self._on_run(samples, graphs, outcome)
        return outcome
