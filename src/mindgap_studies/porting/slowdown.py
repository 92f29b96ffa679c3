"""Estimates how much slower a target is than the source, from the seconds of a `Latency`.

Steady: calls after the first. A process gives the median of its ratios target/source, each of two calls that were made
one after the other. The estimate is the geometric mean over processes. Its 95 % interval is the wider of two: Student's
t over the processes' medians, on a logarithmic scale, and the order statistics of all ratios, whose ranks are of the
binomial distribution. The first has what differs between processes, the second what differs between calls; with few
processes either may be small by chance.

First call: the same of the first calls of each process, with what the target compiles; the interval is Student's t.

Paper: the mean of first calls on the target over the mean of those on the source, one from each process: three whole
runs, nothing warmed up (The Grand Illusion, arXiv 2309.07181). Medians: the same with medians for means.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (SciPy is typed in parts)

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Final

from scipy.stats import binom, t as student

from mindgap_studies.results.ported_functions import Estimator, Latency

_TAIL: Final = 0.025
#: An interval whose ends are further apart is wide.
_WIDE: Final = 3.0
#: A slow-down beyond this is what the paper calls intolerable.
INTOLERABLE: Final = 10.0


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A ratio target/source with its 95 % interval. The interval is infinite where one process alone was measured."""

    value: float
    low: float
    high: float

    def agrees(self, other: Slowdown) -> bool:
        """Whether the intervals of two studies have a value in common."""
        return self.low <= other.high and other.low <= self.high

    @property
    def wide(self) -> bool:
        """Whether the interval spans more than three times, so that it determines little."""
        return self.high > _WIDE * self.low


def steady(latency: Latency) -> Slowdown:
    by_process = [
        [after / before for before, after in zip(source, target, strict=True)]
        for source, target in zip(latency.source, latency.target, strict=True)
    ]
    over_processes = _geometric([median(ratios) for ratios in by_process])
    low, high = order_interval([ratio for ratios in by_process for ratio in ratios])
    if math.isinf(over_processes.high):
        return Slowdown(over_processes.value, low, high)
    return Slowdown(over_processes.value, min(low, over_processes.low), max(high, over_processes.high))


def first_call(latency: Latency) -> Slowdown:
    pairs = zip(latency.source_first, latency.target_first, strict=True)
    return _geometric([target / source for source, target in pairs])


def paper_estimate(latency: Latency) -> float:
    return fmean(latency.target_first) / fmean(latency.source_first)


#: By the name of an estimator, the ratio that it gives.
RATIOS: Final[Mapping[Estimator, Callable[[Latency], float]]] = {
    "steady": lambda latency: steady(latency).value,
    "first call": lambda latency: first_call(latency).value,
    "paper's": paper_estimate,
    "medians": lambda latency: median(latency.target_first) / median(latency.source_first),
}


def order_interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns the 95 % interval of the median by order statistics; the smallest and largest value of fewer than six."""
    ordered = sorted(values)
    rank = min(int(binom.ppf(_TAIL, len(ordered), 0.5)), (len(ordered) - 1) // 2)
    place = max(rank - 1, 0)
    return ordered[place], ordered[len(ordered) - 1 - place]


def _geometric(values: Sequence[float]) -> Slowdown:
    logs = [math.log(value) for value in values]
    middle = fmean(logs)
    if len(logs) < 2:
        return Slowdown(math.exp(middle), 0.0, math.inf)
    half = float(student.ppf(1 - _TAIL, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    return Slowdown(math.exp(middle), math.exp(middle - half), math.exp(middle + half))
