"""Times each operator call of a model by itself on platforms: which operators make a platform slower than another.

A call runs alone, with its real operands. So the time holds what a call of the platform costs, and nothing of what the
platform gains by running operators together; the time of the whole model stands next to the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mindgap.graph import Graph, TensorStore
from mindgap.platforms.name import PlatformName
from mindgap.run.outcome import Job, Outcome
from mindgap_surveys.support.probes import form_of
from mindgap_surveys.support.single_calls import each_call

#: Operands and results of a call that take more than this are not timed alone.
MOST_BYTES: Final = 256 << 20
_DEADLINE_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """All calls of one overload in a model.

    calls: how many. seconds: of all of them, by platform; None where the platform does not run one of them by itself.
    reasons: why, in the platform's words.
    """

    op: str
    calls: int
    seconds: Mapping[PlatformName, float | None]
    reasons: Mapping[PlatformName, str] = field(default_factory=dict[PlatformName, str])

    def lost(self, platform: PlatformName, reference: PlatformName) -> float | None:
        """Returns the seconds that the platform takes more than the reference; None where one of both is not known."""
        here, there = self.seconds[platform], self.seconds[reference]
        return None if here is None or there is None else here - there


@dataclass(frozen=True)
class OperatorTimes:
    """The operators of a model, those that take longest first. `left_out`: calls that cannot be timed by themselves."""

    operators: tuple[OperatorTime, ...]
    left_out: int


def operator_times(
    graph: Graph, platforms: Sequence[PlatformName], execute: Callable[[Job], Outcome],
    tensors: TensorStore | None = None, repeat: int = 5,
) -> OperatorTimes:  # fmt: skip
    """Times each distinct call once for all its repetitions in the graph: the median of the runs after the first.

    Operands of the first call of each form are held, of no other. Raises what the graph's run on the CPU does:
    `MindgapError` for an input that cannot be made.
    """
    alone: dict[tuple[str, str], tuple[Graph, int]] = {}

    def tally(_: int, call: Graph) -> None:
        key = call.nodes[0].op, form_of(call)
        first, so_far = alone.get(key, (call, 0))
        alone[key] = first, so_far + 1

    each_call(graph, tally, tensors, MOST_BYTES)
    calls: dict[str, list[tuple[Graph, int]]] = {}
    for (op, _), each in alone.items():
        calls.setdefault(op, []).append(each)
    timed = [_timed(op, each, platforms, execute, repeat) for op, each in calls.items()]
    left_out = len(graph.nodes) - sum(count for _, count in alone.values())

    def longest_first(each: OperatorTime) -> tuple[float, str]:
        return min((-seconds for seconds in each.seconds.values() if seconds is not None), default=0.0), each.op

    return OperatorTimes(tuple(sorted(timed, key=longest_first)), left_out)


def _timed(
    op: str, forms: Iterable[tuple[Graph, int]], platforms: Sequence[PlatformName], execute: Callable[[Job], Outcome],
    repeat: int,
) -> OperatorTime:  # fmt: skip
    forms = list(forms)
    seconds: dict[PlatformName, float | None] = {}
    reasons: dict[PlatformName, str] = {}
    for platform in platforms:
        total: float | None = 0.0
        for graph, count in forms:
            outcome = execute(Job(platform, graph, repeat=repeat, deadline_s=_DEADLINE_S))
            if not outcome.ran:
                total, reasons[platform] = None, f"{outcome.status}: {' '.join(outcome.message.split())}"
                break
            assert total is not None, "it ends at the first that does not run"
            total += count * seconds_of(outcome.timings)
        seconds[platform] = total
    return OperatorTime(op, sum(count for _, count in forms), seconds, reasons)


def seconds_of(timings: Mapping[str, float]) -> float:
    """Returns the time of a run after compilation: the median of later runs, the second, or the only one."""
    names = ("median_run", "second_run", "run")
    return next((timings[name] for name in names if name in timings), 0.0)
