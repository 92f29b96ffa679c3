"""Finds the faults of a graph besides the first.

Every operator ran alone on right operands before a finding was made (`SingleOperators`), so an operator that is wrong
only because its operands were is none of those that were confirmed. What is left to decide is which of them a user
would see: those that change an output by themselves, when all other operators are right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mindgap.aten.operators import packet_of
from mindgap.judge.oracle import Oracle
from mindgap.judge.trace.dtype_policy import DtypeSubstitution
from mindgap.judge.trace.error_propagation import breaks
from mindgap.judge.trace.single_operators import Confirmed, SingleOperators
from mindgap.judge.trace.subgraphs import leading_to
from mindgap.platforms.name import PlatformName

#: Jobs of one operator that are run for all faults besides the first.
MAX_RUNS: Final = 8
#: Evaluations of the graph in float64 for all faults besides the first, each with one operator's wrong values.
MAX_CARRIED: Final = 16
#: Calls of one operator that are tried, until one of them shows the fault.
_MOST_CALLS: Final = 2

#: Gives the dtype policy of a side that explains what an operator gives there, or None.
PolicyOf = Callable[[Confirmed, PlatformName], DtypeSubstitution | None]


@dataclass(frozen=True)
class IndependentFault:
    """One fault. `confirmed`: the call that shows it, wrong on `side`.

    `nodes`: of the functional graph, in order, all calls of the operator that are wrong there in the same way, or that
    the `policy` explains.
    """

    confirmed: Confirmed
    side: PlatformName
    nodes: tuple[int, ...]
    policy: DtypeSubstitution | None = None


class FaultSearch:
    """Looks for the faults besides the first among the operators that were confirmed.

    `policy_of`: the policy that explains an operator. `local`: a wrong operator is a finding also where no output shows
    it, as for values in 16 bits and for outputs that say nothing. `misshapen`: for each side, the outputs that have
    another shape or dtype than declared. `internal`: values that no public function returns. `skipped`: the first
    operator that the limits left undecided; None where all were decided.
    """

    def __init__(
        self, oracle: Oracle, singles: SingleOperators, policy_of: PolicyOf, *, local: bool,
        misshapen: Mapping[PlatformName, Sequence[int]], internal: Collection[int],
    ) -> None:  # fmt: skip
        self._oracle, self._singles, self._policy_of = oracle, singles, policy_of
        self._local, self._internal = local, internal
        self._to_misshapen = {side: frozenset(leading_to(oracle.graph, n)) for side, n in misshapen.items()}
        self._runs, self._carried = MAX_RUNS, MAX_CARRIED
        self.skipped: Confirmed | None = None

    def all(self, first: IndependentFault, sides: tuple[PlatformName, PlatformName]) -> list[IndependentFault]:
        """The first fault with all its calls, then the others: those of the platform, then those of the reference, each
        in execution order. `sides`: the platform and the reference."""
        platform, reference = sides
        groups = self._groups(platform, self._singles.own(platform, reference))
        groups |= self._groups(reference, self._singles.own(reference, platform))
        calls = groups.pop(self._key(first), [])
        faults = [replace(first, nodes=_nodes_of([first.confirmed, *calls]))]
        taken = {(node, first.side) for node in faults[0].nodes}
        for (side, *_), members in groups.items():
            # What both sides get wrong at one node is one difference.
            free = [one for one in members if not _taken(one, side, taken)]
            shown = self._shown(free, side)
            if shown is not None:
                alike = [one for one in free if shown.retyped or not one.retyped]
                faults.append(IndependentFault(shown, side, _nodes_of(alike), self._policy_of(shown, side)))
                taken |= {(node, side) for node in faults[-1].nodes}
        return faults

    def _groups(
        self, side: PlatformName, confirmed: Iterable[Confirmed]
    ) -> dict[tuple[PlatformName, str, str], list[Confirmed]]:
        groups: dict[tuple[PlatformName, str, str], list[Confirmed]] = {}
        for one in confirmed:
            key = self._key(IndependentFault(one, side, one.nodes, self._policy_of(one, side)))
            groups.setdefault(key, []).append(one)
        return groups

    def _key(self, fault: IndependentFault) -> tuple[PlatformName, str, str]:
        """Calls with equal keys are one fault: of one side, and of one operator and kind or of one dtype policy."""
        if fault.policy is not None:
            return fault.side, fault.policy.culprit.op, ""
        packets = "+".join(packet_of(self._oracle.graph.nodes[node].op) for node in fault.confirmed.nodes)
        return fault.side, packets, fault.confirmed.kind

    def _shown(self, calls: Sequence[Confirmed], side: PlatformName) -> Confirmed | None:
        """The first of an operator's calls, or else the worst, that is wrong in a separate job as well, and changes
        an output when all other operators are right. Calls that are right but for a dtype are tried last."""
        calls = sorted(calls, key=lambda one: one.retyped)
        worst = max(calls, key=lambda one: one.worst, default=None)
        tried = [*calls[:1], *(() if worst is None or worst is calls[0] else (worst,))][:_MOST_CALLS]
        for one in tried:
            if (one.internal or one.retyped or not self._local) and not self._changes_an_output(one, side):
                continue
            if self._runs == 0:
                self.skipped = self.skipped or one
                return None
            self._runs -= 1
            if self._singles.holds_alone(one, side):
                return one
        return None

    def _changes_an_output(self, one: Confirmed, side: PlatformName) -> bool:
        if one.kind == "structural" and not one.internal and one.nodes[0] in self._to_misshapen[side]:
            # Right numbers in another dtype change no output in exact arithmetic.
            return True
        if self._carried == 0 or not one.arrays:
            self.skipped = self.skipped or one
            return False
        self._carried -= 1
        return breaks(self._oracle, one.arrays, self._internal)


def _taken(one: Confirmed, side: PlatformName, taken: Collection[tuple[int, PlatformName]]) -> bool:
    return any(node in one.nodes and other != side for node, other in taken)


def _nodes_of(calls: Iterable[Confirmed]) -> tuple[int, ...]:
    return tuple(sorted({node for one in calls for node in one.nodes}))
