"""Searches for the operators that make the outputs of two platforms differ."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mindgap.graph import Labels
from mindgap.judge.oracle import (
    FEW,
    MANY,
    Examined,
    InternalValues,
    Oracle,
)
from mindgap.judge.trace.dtype_policy import Dtypes, DtypeSubstitution, Explanation, policies_of
from mindgap.judge.trace.error_propagation import breaking, reaches
from mindgap.judge.trace.fused import confirmed_whole, confirmed_windows
from mindgap.judge.trace.intermediate_values import IntermediateValues, by_size, observe_values
from mindgap.judge.trace.output_verdicts import (
    public_only,
)
from mindgap.judge.trace.roles import Role, node_roles, value_difference
from mindgap.judge.trace.sampled_policy import SampledPolicy, policy_by_sample
from mindgap.judge.trace.single_operators import Confirmed, SingleOperators
from mindgap.judge.trace.subgraphs import Array, Execute, leading_to
from mindgap.platforms.name import PlatformName
from mindgap.results.drawn_graph import ValueDifference

#: Intermediate values of larger graphs are not gathered; roles of nodes are then left out.
MAX_PROBED_BYTES: Final = 512 << 20
#: Bytes of intermediate values that are compared with shadows and replays at a time.
MAX_WATCHED_BYTES: Final = 64 << 20
#: Nodes at which windows end.
MOST_ANCHORS: Final = 8
MOST_SPREAD: Final = 64
#: How many confirmed operators are tried as the culprit before the worst of them is taken.
MAX_TRIED: Final = 24
#: How many of them run in a job of their own, until one is wrong there too.
MAX_ALONE: Final = 8
CALM: Final = Examined("calm")


@dataclass(frozen=True)
class ObservedOutputs:
    """The outputs of both sides (of the platform in every repetition), the oracle's examination of each, and which of
    them are internal."""

    ours: tuple[Array, ...]
    theirs: tuple[Array, ...]
    runs: Sequence[tuple[Array, ...]]
    mine: list[Examined]
    reference: list[Examined]
    internal: list[bool]


class CulpritSearch:
    """Looks for a culprit: in single operators, then in windows of a few operators, then in the whole graph.

    `oracle`, `singles`: of the functional graph. `inputs`: every input of the graph. `execute` runs a job on any
    platform. `internal`: values that are not judged. `dtypes`: as for `Judge`. Values and windows are kept by platform:
    those of the reference serve every platform of the graph.
    """

    def __init__(
        self, oracle: Oracle, singles: SingleOperators, inputs: Sequence[Array], execute: Execute,
        reference: PlatformName, deadline_s: float, internal: InternalValues, dtypes: Dtypes | None,
    ) -> None:  # fmt: skip
        self.singles, self._oracle, self._inputs = singles, oracle, inputs
        self._execute, self._reference, self._deadline_s = execute, reference, deadline_s
        self._internal, self._dtypes = internal, dtypes
        self._observed: dict[PlatformName, IntermediateValues | None] = {}
        self._windows: dict[tuple[PlatformName, tuple[int, ...]], Confirmed | None] = {}
        self._explanations: dict[PlatformName, list[Explanation]] = {}

    def find(
        self, platform: PlatformName, mine: list[Examined], reference: list[Examined], ours: tuple[Array, ...],
        theirs: tuple[Array, ...],
    ) -> tuple[Confirmed, PlatformName] | None:  # fmt: skip
        """The first confirmed cut that breaks an output, with the side it was confirmed on.

        Single operators on both sides first. Only where none errs by itself are outputs held against 64 replays, and
        fused cuts tried. What both sides get wrong alike is no difference, and shows nothing about larger cuts.
        """
        sides = ((platform, mine, ours), (self._reference, reference, theirs))
        candidate = any(_broken(examined) for _, examined, _ in sides)
        for side, examined, _ in sides:
            local = self._own(side, self._reference if side == platform else platform, examined)
            broken = _broken(examined)
            if local and (broken or side == platform or not candidate):
                culprit = self._culprit_alone(local[:MAX_TRIED], broken, side)
                if culprit is not None:
                    return culprit, side
        if self.singles.shared(platform, self._reference):
            return None
        for side, examined, arrays in sides:
            if _broken(examined):
                examined = self._examine_again(arrays, examined)
            fused = self._search_fused(side, arrays, examined)
            if fused is not None:
                return fused, side
        return None

    def explained(
        self, finding: tuple[Confirmed, PlatformName], seen: ObservedOutputs, failures: list[str]
    ) -> tuple[tuple[Confirmed, PlatformName], DtypeSubstitution | None]:
        """The finding with the policy of the platform that explains every difference, where there is one; or else with
        an operator that errs by more than a policy explains rather than one that does not.

        `failures` gets why this could not be decided of a policy, where none explains every difference.
        """
        platform = finding[1]
        explanations = self._explanations_of(platform)
        local = self._own(platform, self._reference, public_only(seen.mine, seen.internal)) if explanations else []
        local = [one for one in local if not one.retyped]
        confirmed = local if any(one.nodes == finding[0].nodes for one in local) else [*local, finding[0]]
        public = [not hidden for hidden in seen.internal]
        for explanation in explanations:
            # What changes no output explains none of the differences.
            beyond = [
                one
                for one in explanation.beyond(confirmed, platform)
                if one.nodes == finding[0].nodes or reaches(self._oracle, one.arrays, self._internal.values)
            ]
            if not beyond and all(explanation.outputs(run, public) for run in seen.runs):
                return finding, explanation.policy
            alone = [one for one in beyond if len(one.nodes) == 1 and not one.whole]
            if alone and len(alone) < len(local):
                broken = _broken(public_only(seen.mine, seen.internal))
                worse = self._culprit_alone(alone[:MAX_TRIED], broken, platform)
                finding = finding if worse is None else (worse, platform)
                break
        failures += [f"{each.policy.culprit.op}: {each.undecided}" for each in explanations if each.undecided]
        return finding, None

    def policy_by_sample(
        self, platform: PlatformName, public: tuple[list[Examined], list[Examined]], seen: ObservedOutputs
    ) -> SampledPolicy | None:
        """The policy of a platform that a sample of a large graph's calls shows, and that explains every output."""
        shown = [not hidden for hidden in seen.internal]
        return policy_by_sample(
            self.singles, self._explanations_of(platform), (platform, self._reference), public, seen.runs, shown
        )

    def _own(self, side: PlatformName, other: PlatformName, examined: list[Examined]) -> list[Confirmed]:
        """What one side gets wrong by itself, operators that are right but for a dtype (`retyped`) last. One that leads
        to an output of another shape or dtype is not `retyped` here."""
        graph = self._oracle.graph
        misshapen = [n for n, e in zip(graph.outputs, examined, strict=True) if e.kind == "structural"]
        to_misshapen = frozenset(leading_to(graph, misshapen))
        own = self.singles.own(side, other)
        own = [replace(one, retyped=one.retyped and to_misshapen.isdisjoint(one.nodes)) for one in own]
        return sorted(own, key=lambda one: one.retyped)

    def window_beside(
        self, side: PlatformName, arrays: tuple[Array, ...], examined: list[Examined], nodes: Collection[int]
    ) -> Confirmed | None:
        """A window of operators that is wrong on the way to a broken output which none of these nodes leads to."""
        graph, other = self._oracle.graph, set(nodes)
        numbers = zip(graph.outputs, examined, strict=True)
        apart = [e if e.kind == "calm" or other.isdisjoint(leading_to(graph, [n])) else CALM for n, e in numbers]
        if not _broken(apart):
            return None
        apart = self._examine_again(arrays, apart)
        on_the_way = leading_to(graph, [n for n, e in zip(graph.outputs, apart, strict=True) if e.kind != "calm"])
        anchors = self._anchors(side, arrays, apart, on_the_way) if on_the_way else []
        return confirmed_windows(self._oracle, self.singles, side, anchors)

    def policy_of(self, confirmed: Confirmed, side: PlatformName) -> DtypeSubstitution | None:
        """The policy of a platform that explains one operator, where there is one. The reference needs none."""
        explanations = [] if side == self._reference else self._explanations_of(side)
        return next((each.policy for each in explanations if each.operator(confirmed, side)), None)

    def _explanations_of(self, platform: PlatformName) -> list[Explanation]:
        if platform not in self._explanations:
            policies = policies_of(self._dtypes(platform) if self._dtypes else {}, self._oracle.graph)
            explanations = [Explanation(each, self._oracle, self._inputs, self.singles) for each in policies]
            self._explanations[platform] = explanations
        return self._explanations[platform]

    def _culprit_alone(self, local: list[Confirmed], broken: bool, side: PlatformName) -> Confirmed | None:
        """The operator that breaks an output, and does so in a separate job."""
        for _ in range(MAX_ALONE):
            culprit = breaking(self._oracle, local, broken, self._internal.values)
            if culprit is None or self.singles.holds_alone(culprit, side):
                return culprit
            local = [each for each in local if each.nodes != culprit.nodes]
        return None

    def _examine_again(self, arrays: tuple[Array, ...], examined: list[Examined]) -> list[Examined]:
        """The outputs that are not calm, held against more replays."""
        outputs = zip(self._oracle.graph.outputs, arrays, examined, strict=True)
        return [e if e.kind == "calm" else self._oracle.examine_value(n, array, MANY) for n, array, e in outputs]

    def _search_fused(
        self, side: PlatformName, arrays: tuple[Array, ...], examined: list[Examined]
    ) -> Confirmed | None:
        broken = _broken(examined)
        if not self._oracle.graph.nodes or (not broken and not any(e.ill for e in examined)):
            return None
        anchors = self._anchors(side, arrays, examined)
        key = side, tuple(anchors)
        if key not in self._windows:
            self._windows[key] = confirmed_windows(self._oracle, self.singles, side, anchors)
        window = self._windows[key]
        if window is not None or not broken:
            return window
        seen = self.values_of(side, arrays)
        chosen = seen.values if seen is not None and seen.faithful else {}
        public = {n: array for n, array in zip(self._oracle.graph.outputs, arrays, strict=True) if self._public(n)}
        graph = replace(self._oracle.graph, outputs=tuple(public), labels=Labels())
        return confirmed_whole(graph, self._inputs, tuple(public.values()), chosen, anchors[0])

    def _public(self, number: int) -> bool:
        return number not in self._internal.values

    def _anchors(
        self,
        side: PlatformName,
        arrays: tuple[Array, ...],
        examined: list[Examined],
        among: Sequence[int] | None = None,
    ) -> list[int]:
        """Where to look for fused faults: the first nodes whose shown values are off, or, where nothing is shown or
        off, nodes spread over those that lead to the outputs in question. `among`: of these nodes only."""
        graph = self._oracle.graph
        seen = self.values_of(side, arrays) if _broken(examined) else None
        if seen is not None:
            within = range(len(graph.nodes)) if among is None else among
            return self._first_off(seen, within) or [within[-1]]
        numbers = [n for n, e in zip(graph.outputs, examined, strict=True) if e.kind != "calm" or e.ill]
        # An output that is an input comes from no node, and what spoils it may be anywhere.
        nodes = leading_to(graph, numbers) or [*range(len(graph.nodes))]
        return nodes[:: max(1, len(nodes) // MOST_SPREAD)]

    def _first_off(self, seen: IntermediateValues, among: Collection[int]) -> list[int]:
        """Finds the first nodes whose observed value is further from the stepwise shadow than rounding explains.

        Each value is examined like an output of the graph up to its node, with few replays.
        """
        graph, nodes, inside = self._oracle.graph, list[int](), frozenset(among)
        shown = [n for n in sorted(filter(self._public, seen.values)) if graph.producer[n] in inside]
        for numbers in by_size(graph, shown, MAX_WATCHED_BYTES):
            upto = graph.nodes[: graph.producer[numbers[-1]] + 1]
            watched = Oracle(replace(graph, nodes=upto, outputs=tuple(numbers), labels=Labels()), self._inputs)
            for number in numbers:
                off = watched.examine_value(number, seen.values[number], FEW).kind != "calm"
                if off and graph.producer[number] not in nodes:
                    nodes.append(graph.producer[number])
            if len(nodes) >= MOST_ANCHORS:
                break
        return nodes[:MOST_ANCHORS]

    def values_of(self, side: PlatformName, arrays: tuple[Array, ...]) -> IntermediateValues | None:
        """All values as a platform shows them, unless they are too many to be held."""
        if side not in self._observed:
            given = dict(enumerate(self._inputs))
            small = sum(s.nbytes for s in self._oracle.graph.values if s is not None) <= MAX_PROBED_BYTES
            self._observed[side] = (
                observe_values(self._oracle.graph, side, self._execute, arrays, self._deadline_s, given)
                if small
                else None
            )
        return self._observed[side]

    def roles(
        self, platform: PlatformName, seen: ObservedOutputs, confirmed: Confirmed
    ) -> tuple[tuple[int, Role], ...]:
        """The nodes that the difference reaches, with their roles; none where a side does not show its values."""
        mine, reference = self.values_of(platform, seen.ours), self.values_of(self._reference, seen.theirs)
        if mine is None or reference is None:
            return ()
        introducers = {n for c in self.singles.confirmed(platform) for n in c.nodes} | {confirmed.nodes[-1]}
        return node_roles(self._oracle.graph, mine.values, reference.values, introducers)

    def difference(self, platform: PlatformName, number: int) -> ValueDifference | None:
        """The statistics of one value on both sides, where it was seen already: nothing runs for it."""
        mine, reference = self._observed.get(platform), self._observed.get(self._reference)
        if mine is None or reference is None or number not in mine.values or number not in reference.values:
            return None
        return value_difference(mine.values[number], reference.values[number])


def _broken(examined: list[Examined]) -> bool:
    return any(e.kind != "calm" for e in examined)
