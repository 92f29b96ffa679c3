"""Looks inside a compiled graph by making values outputs, and measures whether that changes what is computed.

The graph first runs with every value as an output. Where its outputs keep their bits, the values are those that the
platform computes without probes. Where they do not, the set of values is halved, and each half tried by itself,
around the first difference from the other side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mindgap.graph import Graph
from mindgap.judge.trace.data_flow import hidden_before
from mindgap.judge.trace.intermediate_values import by_size, shown, with_outputs
from mindgap.judge.trace.side_values import ProbeEffect, SideValues, outcome_of, output_digests, unsteady
from mindgap.judge.trace.subgraphs import Array, Execute
from mindgap.platforms.protocol import ValueDigest
from mindgap.run.outcome import Job, Outcome

#: Bytes of values that one run may show.
MAX_PROBE_BYTES: Final = 256 << 20


@dataclass(frozen=True)
class ProbeLimits:
    """`probes`: how many graphs with further outputs may be compiled. `deadline_s`: seconds for each."""

    probes: int = 24
    deadline_s: float = 300.0


class OutputProbes:
    """Shows groups of values of a platform as outputs, and halves the groups that change the graph's own outputs."""

    def __init__(self, graph: Graph, own: Outcome, execute: Execute, limits: ProbeLimits) -> None:
        """`graph`: functional. `own`: the outcome of the graph as captured."""
        self._graph, self._platform, self._execute, self._limits = graph, own.platform, execute, limits
        plain = outcome_of(Job(own.platform, graph, repeat=1, deadline_s=limits.deadline_s), execute)
        self._captured, self._own = output_digests(own), output_digests(plain)
        self._notes = unsteady(own)
        self._steady = not self._notes
        if self._steady and self._own != self._captured:
            self._notes = (
                f"{own.platform} gives other bits for the graph without in-place writes, which is looked into",
            )
        self.digests: dict[int, ValueDigest] = {
            n: digest for n, digest in zip(graph.outputs, self._own, strict=True) if graph.producer[n] >= 0
        }
        self._group: dict[int, tuple[int, ...]] = dict.fromkeys(self.digests, ())
        self._changed: set[int] = set()
        self._failures: dict[str, None] = {}
        self._unfaithful = False
        self._tried = 0
        self._other: Mapping[int, str] = {}
        hidden = [n for n in shown(graph) if n not in self.digests]
        self._waiting = [tuple(group) for group in by_size(graph, hidden, MAX_PROBE_BYTES)]
        #: Whether some group was seen, or there is none.
        self._looked = not self._waiting

    def show_all(self) -> None:
        """Tries to show every value at once, or as many at a time as memory allows."""
        for group in list(self._waiting)[: self._limits.probes]:
            self._waiting.remove(group)
            self._probe(group)

    def narrow(self, other: Mapping[int, str]) -> None:
        """Goes on with smaller groups around the first value that differs from `other`, the other side's digests."""
        self._other = other
        while self._tried < self._limits.probes:
            group = min(filter(self._matters, self._waiting), key=lambda g: (-len(g), g[0]), default=None)
            if group is None:
                return
            self._waiting.remove(group)
            self._probe(group)

    def side(self) -> SideValues:
        """What was seen."""
        effect: ProbeEffect = "yes" if self._unfaithful else "no" if self._looked else "unknown"
        return SideValues(
            self._platform,
            self._captured,
            self.digests,
            self._fetch,
            effect if self._steady else "unknown",
            tuple(sorted(self._changed)),
            (*self._notes, *self._what_was_not_seen()),
        )

    def _matters(self, group: tuple[int, ...]) -> bool:
        """Whether the first difference that is seen may come from a value of the group."""
        differing = [n for n, d in self.digests.items() if n in self._other and d != self._other[n]]
        return bool(differing) and not hidden_before(self._graph, min(differing), self.digests).isdisjoint(group)

    def _probe(self, group: tuple[int, ...]) -> None:
        self._tried += 1
        job = Job(self._platform, with_outputs(self._graph, group), repeat=1, deadline_s=self._limits.deadline_s)
        outcome = self._execute(job)
        own = len(self._graph.outputs)
        digests = output_digests(outcome)
        if outcome.ran and digests[:own] == self._own:
            self._looked = True
            for number, digest in zip(group, digests[own:], strict=True):
                self.digests[number] = digest
                self._group[number] = group
            return
        if outcome.ran:
            self._unfaithful = True
        else:
            self._failures[f"{outcome.status}: {' '.join(outcome.message.split())[:200]}"] = None
        if len(group) > 1:
            middle = len(group) // 2
            self._waiting += [group[:middle], group[middle:]]
        elif outcome.ran:
            self._changed.update(group)

    def _fetch(self, numbers: Sequence[int]) -> Mapping[int, Array]:
        """Whole values, each from the run in which it was shown: another set of outputs is another program."""
        fetched: dict[int, Array] = {}
        for group in dict.fromkeys(self._group[n] for n in numbers):
            wide = with_outputs(self._graph, group)
            job = Job(self._platform, wide, want="outputs", repeat=1, deadline_s=self._limits.deadline_s)
            arrays = outcome_of(job, self._execute).arrays or ()
            fetched |= {n: a for n, a in zip(wide.outputs, arrays, strict=True) if n in numbers}
        return fetched

    def _what_was_not_seen(self) -> tuple[str, ...]:
        """What the search could not see."""
        notes: list[str] = []
        if left := sum(map(len, self._waiting)):
            notes.append(f"{left} values were not looked at one by one: allow more probes (--probes)")
        if self._failures:
            notes.append(f"with some values as outputs {self._platform} gives {next(iter(self._failures))}")
        return tuple(notes)
