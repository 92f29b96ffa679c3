"""Reads the values of every node on one platform: digests first, whole values on request.

A platform that runs node by node digests its values itself. Any other shows a value only once it is an output of the
graph, which may change what the platform computes: `mindgap.judge.trace.probing`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mindgap.graph import Graph, MindgapError
from mindgap.graph.compare.digest import digest_bytes
from mindgap.judge.trace.intermediate_values import by_size
from mindgap.judge.trace.subgraphs import Array, Execute
from mindgap.platforms.name import PlatformName
from mindgap.platforms.protocol import ValueDigest
from mindgap.run.message_cleaning import reasons
from mindgap.run.outcome import Job, Outcome

#: Whether looking inside changes the graph's outputs. `unknown`: they are not the same from run to run
#: anyway, or the run that was looked into does not give them.
ProbeEffect = Literal["no", "yes", "unknown"]
#: Bytes of whole values that are compared at a time.
GROUP_BYTES = 64 << 20


@dataclass(frozen=True)
class SideValues:
    """What one platform shows of a graph.

    `outputs`: the digests of the graph's outputs without probes. `digests`: by value number; a value that is
    missing was not seen. `changed`: values of which looking at each alone changes the outputs. `notes`: sentences.
    """

    platform: PlatformName
    outputs: tuple[str, ...]
    digests: Mapping[int, ValueDigest]
    fetch: Callable[[Sequence[int]], Mapping[int, Array]]
    probe_effect: ProbeEffect
    changed: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def outcome_of(job: Job, execute: Execute) -> Outcome:
    """Runs a job that must give outputs. Raises `MindgapError` with the platform's reason where it does not."""
    outcome = execute(job)
    if not outcome.ran:
        reason = reason_of(outcome)
        raise MindgapError(f"nothing was compared: {job.platform} does not run the graph: {reason}")
    return outcome


def reason_of(outcome: Outcome) -> str:
    """The status of a job that did not run, and the reasons of its message on one line of at most 400 characters."""
    return f"{outcome.status}: {'; '.join(reasons(outcome.message.splitlines()))[:400]}"


def output_digests(outcome: Outcome) -> tuple[str, ...]:
    """The digests of a graph's outputs."""
    return tuple(d.digest for d in outcome.outputs)


def side_of_eager(graph: Graph, outcome: Outcome, own: Outcome, execute: Execute, deadline_s: float) -> SideValues:
    """The values of a platform that digests every node.

    `outcome`: of a job that wants `value_digests`. `own`: of the graph as captured, without a look inside.
    """
    assert outcome.value_digests is not None
    first = len(graph.inputs)
    digests = {first + i: d for i, d in enumerate(outcome.value_digests) if d is not None}
    known = outcome.status == own.status == "ok" and outcome.observed is not None
    same = outcome.observed == output_digests(own)

    def fetch(numbers: Sequence[int]) -> Mapping[int, Array]:
        job = Job(outcome.platform, graph, want="trace", repeat=1, deadline_s=deadline_s, values=tuple(numbers))
        values = outcome_of(job, execute).values or ()
        return {first + i: a for i, a in enumerate(values) if a is not None}

    effect: ProbeEffect = "unknown" if not known else "no" if same else "yes"
    return SideValues(outcome.platform, output_digests(own), digests, fetch, effect, notes=unsteady(own))


def unsteady(outcome: Outcome) -> tuple[str, ...]:
    """A note on a platform whose results are not the same in every run."""
    if outcome.status != "nondeterministic":
        return ()
    return (f"{outcome.platform} does not give the same bits in every run: its digests are of one run (try --repeat)",)


def with_views_digested(side: SideValues, graph: Graph, numbers: Collection[int]) -> dict[int, str]:
    """The digests of all these values, views included: their values are fetched."""
    digests = {n: d for n in numbers if isinstance(d := side.digests.get(n), str)}
    views = [n for n in numbers if isinstance(side.digests.get(n), int)]
    for group in by_size(graph, views, GROUP_BYTES):
        digests |= {n: digest_bytes(array) for n, array in side.fetch(group).items()}
    return digests
