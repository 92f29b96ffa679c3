"""Runs single operators again and again on each platform, with and without its option for deterministic algorithms.

Source of the question: "Unanticipated Deviations" repeats one operator 10,000 times on each platform.
"""

from __future__ import annotations

import difflib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from mindgap.graph import Graph, MindgapError, TensorStore
from mindgap.judge.trace.side_values import reason_of
from mindgap.platforms.name import PlatformName
from mindgap.platforms.registry import canonical, find
from mindgap.run.cpu import CpuMeter
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap.workflows.diff.platform_facts import facts_of
from mindgap_surveys.shares import wilson

#: The option that asks a platform for deterministic algorithms, and its value.
DETERMINISTIC: Final = ("deterministic", "on")
#: Repeats that measure how long one takes.
_FIRST: Final = 20

#: What the option does to an operator:
#: - `fixes`: its results differ without the option, and are one with it. `fails`: they differ with it too.
#: - `refuses`: the operator does not run with it. `other result`: one result with it and without, not the same.
#: - `nothing`: the one result of before. `none`: the platform has no such option.
#: - `unknown`: it did not run, or stopped before it gave a second result.
OptionEffect = Literal["fixes", "fails", "refuses", "other result", "nothing", "none", "unknown"]


@dataclass(frozen=True, slots=True)
class Repeated:
    """The results of one operator.

    counts: how often each came, the most frequent first, by digest of the outputs.
    reason: why it did not run, or stopped before the end; empty where it did neither.
    unsupported: the platform refuses it.
    cpu_s: processor seconds of the worker.
    """

    counts: Mapping[str, int]
    reason: str = ""
    unsupported: bool = False
    cpu_s: float = field(default=0.0, compare=False)

    @property
    def runs(self) -> int:
        return sum(self.counts.values())

    @property
    def distinct(self) -> int:
        return len(self.counts)

    def share(self, place: int = 0) -> tuple[float, float, float]:
        """Returns the probability of a result (0: the most frequent), and the ends of its interval of 95%."""
        count = sorted(self.counts.values(), reverse=True)[place]
        interval = wilson(count, self.runs)
        return interval.value, interval.low, interval.high


@dataclass(frozen=True, slots=True)
class OperatorRepeats:
    """One operator on one platform. default: without the option; switched: with it, None where there is none."""

    operator: str
    listed: str
    platform: PlatformName
    default: Repeated
    switched: Repeated | None

    @property
    def effect(self) -> OptionEffect:
        """What the option for deterministic algorithms does."""
        if self.switched is None:
            return "none"
        if not self.default.runs:
            return "unknown"
        if self.switched.distinct > 1:
            return "fails"
        if self.switched.unsupported and not self.switched.runs:
            return "refuses"
        if self.switched.reason or (self.default.reason and self.default.distinct == 1):
            return "unknown"
        if self.default.distinct > 1:
            return "fixes"
        return "nothing" if [*self.switched.counts] == [*self.default.counts] else "other result"


@dataclass(frozen=True)
class RepeatLimits:
    """repeat: runs of each operator. budget_s: seconds for everything; None for no limit. Operators that take longer
    than their part of it get fewer runs; those that it does not suffice for are not run. deadline_s: of one job."""

    repeat: int = 10_000
    budget_s: float | None = None
    deadline_s: float = 300.0


def repeat_operators(
    graphs: Mapping[str, tuple[str, Graph]], platforms: Sequence[str], limits: RepeatLimits, *,
    tensors: TensorStore, progress: Callable[[OperatorRepeats], None] = lambda _: None,
) -> list[OperatorRepeats]:  # fmt: skip
    """Repeats each operator on each platform, in the order of the graphs.

    `graphs`: by the operator's name, with what PyTorch documents. Raises `MindgapError` where a platform is unknown
    or not available.
    """
    named = [canonical(each) for each in dict.fromkeys(platforms)]
    facts_of(named, reference=named[0], skip_unavailable=False)
    switched = {name: _switched(name) for name in named}
    runners = [each for name in named for each in (name, switched[name]) if each is not None]
    until = None if limits.budget_s is None else time.monotonic() + limits.budget_s
    left = len(graphs) * len(runners)
    rows: list[OperatorRepeats] = []
    with WorkerPool(list(dict.fromkeys(runners)), tensors=tensors, forks=False) as pool:
        for operator, (listed, graph) in graphs.items():
            for name in named:
                results: list[Repeated] = []
                for each in (name, switched[name]):
                    if each is not None:
                        seconds = None if until is None else (until - time.monotonic()) / left
                        meter = CpuMeter(pool.cpu, each)
                        result = _repeated(pool, each, graph, limits, seconds)
                        results.append(replace(result, cpu_s=meter.read()))
                        left -= 1
                rows.append(OperatorRepeats(operator, listed, name, results[0], results[1] if results[1:] else None))
                progress(rows[-1])
    return rows


def _switched(name: PlatformName) -> PlatformName | None:
    """The platform with its option for deterministic algorithms; None where it has none, or names it already."""
    option, value = DETERMINISTIC
    if option in name.options or option not in find(name)[0].options:
        return None
    return canonical(name.with_options(**{option: value}))


def _repeated(
    pool: WorkerPool, name: PlatformName, graph: Graph, limits: RepeatLimits, seconds: float | None
) -> Repeated:
    """Runs a graph as often as requested, or as its seconds allow; at least as often as measures how long it takes.

    Runs before a failure count.
    """
    if seconds is not None and seconds <= 0:
        return Repeated({}, "the time budget was used up")
    first = min(_FIRST, limits.repeat)
    counts: Counter[str] = Counter()
    taken = 0.0
    # The first job loads the graph, the second measures, the third does the rest.
    for number in range(3):
        rest = limits.repeat - counts.total()
        count = rest if number == 2 else min(first, rest)
        if number == 2 and seconds is not None:
            count = min(rest, int(seconds / max(taken / first, 1e-7)))
        if count <= 0:
            break
        started = time.monotonic()
        outcome = pool.run(Job(name, graph, want="counts", repeat=count, deadline_s=limits.deadline_s))
        taken += time.monotonic() - started if number else 0.0
        if not outcome.ran or outcome.counts is None:
            return Repeated(dict(counts.most_common()), reason_of(outcome), outcome.status == "unsupported")
        counts.update(outcome.counts)
    return Repeated(dict(counts.most_common()))


def chosen(wanted: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """Returns the names among `known` that contain one of `wanted`, or all. Raises `MindgapError` for one in none."""
    for each in wanted:
        if not any(each in name for name in known):
            near = difflib.get_close_matches(each, known, n=3) or list(known)
            raise MindgapError(f"{each}: no such operator; there are {', '.join(near[:10])} … ({len(known)} in all)")
    return [name for name in known if not wanted or any(each in name for each in wanted)]
