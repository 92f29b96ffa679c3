"""Traces a graph value by value on two platforms, and counts the distinct results of repeated runs of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mindgap.graph import Graph, MindgapError, TensorStore
from mindgap.judge.trace.probing import ProbeLimits
from mindgap.judge.trace.side_values import reason_of
from mindgap.judge.trace.value_dump import ValueDump
from mindgap.judge.trace.value_trace import ValueTrace, trace_values
from mindgap.platforms.name import PlatformName, parse
from mindgap.platforms.registry import canonical
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap.workflows.diff.platform_facts import facts_of


@dataclass(frozen=True)
class RepeatedRun:
    """One process that ran a graph again and again. `counts`: by result, the digests of its outputs."""

    platform: PlatformName
    process: int
    counts: dict[str, int]


@dataclass(frozen=True)
class RepeatReport:
    """All processes of `repeat_graph`. `results`: how often each result occurred, the most frequent first."""

    model: str
    runs: tuple[RepeatedRun, ...]

    @property
    def results(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for run in self.runs:
            total.update(run.counts)
        return dict(total.most_common())


def trace_graph(
    graph: Graph,
    platform: str,
    *,
    reference: str = "cpu/eager",
    tensors: TensorStore | None = None,
    limits: ProbeLimits | None = None,
    model: str = "graph",
    dump: ValueDump | None = None,
) -> ValueTrace:
    """Compares every value of the graph on two platforms, each in a separate process. `dump`: also writes values.

    Raises `MindgapError` where a platform is unknown, not available, or does not run the graph.
    """
    ours, theirs = canonical(platform), canonical(reference)
    facts_of([theirs, ours], reference=theirs, skip_unavailable=False)
    with WorkerPool(list(dict.fromkeys([ours, theirs])), tensors=tensors) as pool:
        return trace_values(graph, ours, theirs, pool.run, limits or ProbeLimits(), model, dump)


def repeat_graph(
    graph: Graph,
    platform: str,
    repeat: int,
    *,
    processes: int = 1,
    threads: Sequence[int] = (),
    tensors: TensorStore | None = None,
    deadline_s: float = 300.0,
    model: str = "graph",
) -> RepeatReport:
    """Runs the graph `repeat` times in each of `processes` new processes, one after the other, for each thread count.

    Raises `MindgapError` where the platform is unknown, not available, takes no such option, or does not run the graph.
    """
    named = [canonical(with_threads(platform, count)) for count in threads] or [canonical(platform)]
    facts_of(named, reference=named[0], skip_unavailable=False)
    runs: list[RepeatedRun] = []
    for name in named:
        for process in range(1, processes + 1):
            # Forked processes would have one memory layout and one hash seed.
            with WorkerPool([name], tensors=tensors, forks=False) as pool:
                outcome = pool.run(Job(name, graph, want="counts", repeat=repeat, deadline_s=deadline_s))
            if not outcome.ran or outcome.counts is None:
                raise MindgapError(f"nothing was counted: {name} gives {reason_of(outcome)}")
            runs.append(RepeatedRun(name, process, dict(outcome.counts)))
    return RepeatReport(model, tuple(runs))


def with_threads(platform: str, count: int) -> PlatformName:
    """The platform with `threads=COUNT`. Raises `MindgapError` where it has that option already."""
    name = parse(platform)
    if "threads" in name.options:
        raise MindgapError(
            f"--threads {count}: platform {platform} names its threads already; leave out one of the two"
        )
    return name.with_options(threads=str(count))
