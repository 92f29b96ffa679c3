"""Decides the verdict on two outcomes of one graph."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mindgap.aten.functional import functionalize
from mindgap.aten.state import TORCH_STATE
from mindgap.capture import CaptureError, with_explicit_gradients
from mindgap.compare.culprit import GRAPH_OUTPUTS, Culprit
from mindgap.compare.verdict import Verdict
from mindgap.compare.weakness import Weakness
from mindgap.graph import Graph, GraphError, Labels, MindgapError, materialise
from mindgap.oracle import (
    FEW,
    MANY,
    Examined,
    InternalValues,
    Oracle,
    OracleError,
    examine_cheaply,
    examine_value_cheaply,
    internal_values,
)
from mindgap.oracle.evaluation.formats import FORMATS
from mindgap.run.outcome import Outcome
from mindgap.trace.blame import blamed
from mindgap.trace.dtype_policy import Dtypes, DtypeSubstitution, Explanation, detail_of_policy, policies_of
from mindgap.trace.error_propagation import breaking
from mindgap.trace.example import example
from mindgap.trace.failure import failing_part
from mindgap.trace.fused import confirmed_whole, confirmed_windows
from mindgap.trace.intermediate_values import IntermediateValues, by_size, observe_values
from mindgap.trace.judgement import Judgement
from mindgap.trace.metrics import fixed_tolerances, row_metrics
from mindgap.trace.output_verdicts import (
    overall_verdict,
    public_only,
    same_bits,
    undefined_outputs,
    verdicts_of_outputs,
    worst_of_runs,
)
from mindgap.trace.roles import Role, node_roles
from mindgap.trace.sentences import detail_of_calm, detail_of_finding, words_of_part
from mindgap.trace.single_operators import Confirmed, SingleOperators
from mindgap.trace.smallest_part import Part
from mindgap.trace.structure import first_difference, side_to_blame, sides_first, structural_detail
from mindgap.trace.subgraphs import Array, Execute, leading_to
from mindgap.trace.wrong_part import wrong_part

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


@dataclass(frozen=True)
class _Observed:
    """The outputs of both sides (of the platform in every repetition), what the oracle says of each, and which of them
    are internal."""

    ours: tuple[Array, ...]
    theirs: tuple[Array, ...]
    runs: Sequence[tuple[Array, ...]]
    mine: list[Examined]
    reference: list[Examined]
    internal: list[bool]


class Judge:
    """Judges platforms on one graph. Shadows, replays and singles results of the reference are computed once.

    `inputs`: every graph input as numpy, in order. `execute` runs a job on any platform. `trace=False` leaves out the
    roles of nodes (which take one more run of each side). `internal`: judge results that no public function returns
    like any other. `dtypes`: what a platform does to each dtype, which may explain a finding.
    `decomposes`: whether a platform declares `PYTORCH_DECOMPOSITIONS`.
    """

    def __init__(
        self, graph: Graph, inputs: Sequence[Array], execute: Execute, reference: str, *, trace: bool = True,
        deadline_s: float = 300.0, internal: bool = False, dtypes: Dtypes | None = None,
        decomposes: Callable[[str], bool] = lambda platform: False,
    ) -> None:  # fmt: skip
        self._graph, self._inputs, self._execute, self._reference = graph, list(inputs), execute, reference
        self._asked = graph
        self._trace, self._deadline_s = trace, deadline_s
        self._internal_asked, self._internal = internal, InternalValues()
        self._dtypes, self._decomposes = dtypes, decomposes
        self._oracle: Oracle | None = None
        self._origin: tuple[int, ...] = ()
        self._singles: SingleOperators | None = None
        self._examined: dict[str, list[Examined]] = {}
        self._observed: dict[str, IntermediateValues | None] = {}
        self._windows: dict[tuple[str, tuple[int, ...]], Confirmed | None] = {}
        self._one_at_a_time = threading.RLock()

    def judge(self, outcome: Outcome, reference: Outcome) -> Judgement:
        """Judges a platform's outcome against the reference's. Outcomes that ran carry whole outputs.

        Thread-safe: platforms of one graph take turns, because they share its shadows and replays.
        """
        with self._one_at_a_time:
            if not outcome.ran:
                return self.judge_failure(outcome)
            if outcome.arrays is None or reference.arrays is None:
                raise MindgapError("to judge two outcomes, ask for whole outputs of both (Job.want = 'outputs')")
            judgement = self._decide(outcome, outcome.arrays, reference.arrays)
            return replace(judgement, profiles=fixed_tolerances(outcome.arrays, reference.arrays))

    def _decide(self, outcome: Outcome, ours: tuple[Array, ...], theirs: tuple[Array, ...]) -> Judgement:
        try:
            self._prepare()
            return self._judge(outcome, ours, theirs)
        except OracleError as error:
            metrics = row_metrics(ours, theirs, None)
            return Judgement("ill_conditioned", metrics=metrics, detail=f"nothing can be said of the outputs: {error}")

    def judge_failure(self, failure: Outcome) -> Judgement:
        """Finds the operators that make the platform fail. `unsupported` is no finding and is not judged."""
        given = dict(enumerate(self._inputs[: len(self._asked.inputs)]))
        found = failing_part(self._asked, failure, self._execute, given)
        if not found.nodes:
            named = f"; the platform names {failure.op}, which alone does not fail" if failure.op else ""
            why = f"no operator is named: {found.reason}{named}"
            return Judgement("failed", "platform", detail=f"{failure.status} ({why}): {failure.message}")
        detail = f"{failure.status} ({words_of_part(found, 'fails')}): {failure.message}"
        return Judgement("failed", "platform", self._culprit_of_part(self._asked, found), detail=detail)

    def _prepare(self) -> None:
        if self._oracle is None:
            self._write_gradients_out()
            try:
                functional = functionalize(self._graph)
            except GraphError as error:
                raise OracleError(str(error)) from error
            self._oracle, self._origin = Oracle(functional.graph, self._inputs), functional.origin
            original = [self._graph.nodes[i].op for i in functional.origin]
            self._internal = internal_values(functional.graph, self._internal_asked)
            self._singles = SingleOperators(self._oracle, original, self._execute, self._deadline_s, self._internal)

    def _write_gradients_out(self) -> None:
        """A graph that asks for gradients is judged as one that computes them, node by node."""
        if self._graph.grad:
            try:
                with TORCH_STATE:
                    self._graph = with_explicit_gradients(self._asked)
            except CaptureError as error:
                raise OracleError(f"the backward pass cannot be written out: {error.reason}") from error
            self._inputs += [materialise(given) for given in self._graph.inputs[len(self._inputs) :]]

    @property
    def oracle(self) -> Oracle:
        """The oracle of the functional graph."""
        self._prepare()
        assert self._oracle is not None
        return self._oracle

    @property
    def singles(self) -> SingleOperators:
        """Single operators of the functional graph."""
        self._prepare()
        assert self._singles is not None
        return self._singles

    def _judge(self, outcome: Outcome, ours: tuple[Array, ...], theirs: tuple[Array, ...]) -> Judgement:
        internal = [n in self._internal.values for n in self.oracle.graph.outputs]
        metrics = row_metrics(ours, theirs, self.oracle, internal)
        if len(ours) != len(self._graph.outputs):
            detail = f"{len(ours)} outputs where the graph has {len(self._graph.outputs)}"
            return Judgement("structural", "platform", metrics=metrics, detail=detail)
        runs = [ours, *outcome.repeats]
        if self._reference not in self._examined:
            self._examined[self._reference] = examine_cheaply(self.oracle, theirs)
        reference = self._examined[self._reference]
        mine = worst_of_runs([self._examine(run, theirs, reference) for run in runs])
        mine, reference = sides_first(mine, reference, ours, theirs)
        seen = _Observed(ours, theirs, runs, mine, reference, internal)
        public = public_only(mine, internal), public_only(reference, internal)
        finding = None
        if any(e.kind != "calm" or e.ill for side in public for e in side) or self._narrow():
            finding = self._search(outcome.platform, *public, ours, theirs)
        policy = None
        if finding is not None and finding[1] == outcome.platform:
            finding, policy = self._explained(finding, seen)
        words = self._words(seen, policy.verdict if policy else None if finding is None else finding[0].kind)
        if finding is None:
            found = self._unconfirmed(seen, words)
        elif policy is not None:
            detail = detail_of_policy(policy, outcome.platform, example(self.oracle, finding[0]))
            found = Judgement(policy.verdict, "platform", Culprit(-1, policy.culprit), detail=detail)
        else:
            found = self._finding(outcome.platform, finding, ours, theirs)
        weak = (*self._weaknesses(seen, words), *found.weaknesses)
        return replace(found, metrics=metrics, verdicts=tuple(words), weaknesses=weak)

    def _weaknesses(self, seen: _Observed, words: Sequence[Verdict]) -> Iterator[Weakness]:
        """What the oracle did without on the way to outputs that differ, by node of the captured graph."""
        differing = [n for n, word in zip(self.oracle.graph.outputs, words, strict=True) if word != "identical"]
        on_the_way = set(leading_to(self.oracle.graph, differing))
        for weak in self.oracle.weaknesses:
            if weak.node in on_the_way:
                yield replace(weak, node=self._origin[weak.node], op=self._graph.nodes[self._origin[weak.node]].op)

    def _examine(self, run: tuple[Array, ...], theirs: tuple[Array, ...], known: list[Examined]) -> list[Examined]:
        """A platform's outputs, of which those that the reference has bit for bit are `known`."""
        numbers = self.oracle.graph.outputs
        return [
            seen if same_bits(array, other) else examine_value_cheaply(self.oracle, number, array)
            for number, array, other, seen in zip(numbers, run, theirs, known, strict=True)
        ]

    def _words(self, seen: _Observed, finding: Verdict | None) -> list[Verdict]:
        """Each output's own verdict."""
        numbers = self.oracle.graph.outputs
        undefined = [a.tied + b.tied > 0 for a, b in zip(seen.mine, seen.reference, strict=True)]
        if any(e.tainted for e in seen.mine):
            tainted = undefined_outputs(numbers, self.oracle.tainted, seen.ours, seen.theirs)
            undefined = [a or b for a, b in zip(undefined, tainted, strict=True)]
        return verdicts_of_outputs(seen.mine, seen.reference, seen.runs, seen.theirs, undefined, seen.internal, finding)

    def _unconfirmed(self, seen: _Observed, words: list[Verdict]) -> Judgement:
        """No operator was found at fault. Another shape or dtype needs none to be a finding."""
        index = first_difference(seen.ours, seen.theirs, seen.internal)
        if index is None:
            return self._calm(seen, words)
        number, ours, theirs = self.oracle.graph.outputs[index], seen.ours[index], seen.theirs[index]
        producer = self.oracle.graph.producer[number]
        culprit = self._culprit_of_part(self._graph, Part((self._origin[producer],))) if producer >= 0 else None
        words[index] = "structural"
        blame = side_to_blame(self.oracle.graph.values[number], ours, theirs)
        detail = structural_detail(self.oracle.graph, index, ours, theirs)
        return Judgement("structural", blame, culprit, detail=detail)

    def _calm(self, seen: _Observed, words: list[Verdict]) -> Judgement:
        """Nothing was confirmed: every difference is explained, or nothing can be said."""
        detail = detail_of_calm(self.oracle, words, seen.mine, seen.reference)
        return Judgement(overall_verdict(words), detail=detail)

    def _search(
        self, platform: str, mine: list[Examined], reference: list[Examined], ours: tuple[Array, ...],
        theirs: tuple[Array, ...],
    ) -> tuple[Confirmed, str] | None:  # fmt: skip
        """The first confirmed cut that breaks an output, with the side it was confirmed on.

        Single operators on both sides first. Only where none errs by itself are outputs held against 64 replays, and
        fused cuts tried. What both sides get wrong alike is no difference, and says nothing about larger cuts.
        """
        sides = ((platform, mine, ours), (self._reference, reference, theirs))
        candidate = any(_broken(examined) for _, examined, _ in sides)
        for side, examined, _ in sides:
            local = self.singles.own(side, self._reference if side == platform else platform)
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

    def _explained(
        self, finding: tuple[Confirmed, str], seen: _Observed
    ) -> tuple[tuple[Confirmed, str], DtypeSubstitution | None]:
        """The finding with the policy of the platform that explains every difference, where there is one; or else with
        an operator that errs by more than a policy explains rather than one that does not."""
        platform = finding[1]
        policies = policies_of(self._dtypes(platform) if self._dtypes else {}, self.oracle.graph)
        local = self.singles.own(platform, self._reference) if policies else []
        public = [not hidden for hidden in seen.internal]
        for policy in policies:
            explanation = Explanation(policy, self.oracle, self._inputs, self.singles)
            beyond = explanation.beyond(local, platform)
            if not beyond and all(explanation.outputs(run, public) for run in seen.runs):
                return finding, policy
            if beyond and len(beyond) < len(local):
                broken = _broken(public_only(seen.mine, seen.internal))
                worse = self._culprit_alone(beyond[:MAX_TRIED], broken, platform)
                return (finding if worse is None else (worse, platform)), None
        return finding, None

    def _culprit_alone(self, local: list[Confirmed], broken: bool, side: str) -> Confirmed | None:
        """The operator that breaks an output, and does so in a job of its own."""
        for _ in range(MAX_ALONE):
            culprit = breaking(self.oracle, local, broken, self._internal.values)
            if culprit is None or self.singles.holds_alone(culprit, side):
                return culprit
            local = [each for each in local if each.nodes != culprit.nodes]
        return None

    def _examine_again(self, arrays: tuple[Array, ...], examined: list[Examined]) -> list[Examined]:
        """The outputs that are not calm, held against more replays."""
        outputs = zip(self.oracle.graph.outputs, arrays, examined, strict=True)
        return [e if e.kind == "calm" else self.oracle.examine_value(n, array, MANY) for n, array, e in outputs]

    def _search_fused(self, side: str, arrays: tuple[Array, ...], examined: list[Examined]) -> Confirmed | None:
        broken = _broken(examined)
        if not broken and not any(e.ill for e in examined):
            return None
        anchors = self._anchors(side, arrays, examined)
        asked = side, tuple(anchors)
        if asked not in self._windows:
            self._windows[asked] = confirmed_windows(self.oracle, self.singles, side, anchors)
        found = self._windows[asked]
        if found is not None or not broken:
            return found
        seen = self._values_of(side, arrays)
        chosen = seen.values if seen is not None and seen.faithful else {}
        public = {n: array for n, array in zip(self.oracle.graph.outputs, arrays, strict=True) if self._public(n)}
        graph = replace(self.oracle.graph, outputs=tuple(public), labels=Labels())
        return confirmed_whole(graph, self._inputs, tuple(public.values()), chosen, anchors[0])

    def _public(self, number: int) -> bool:
        return number not in self._internal.values

    def _anchors(self, side: str, arrays: tuple[Array, ...], examined: list[Examined]) -> list[int]:
        """Where to look for fused faults: the first nodes whose shown values are off, or, where nothing is shown or
        off, nodes spread over those that lead to the outputs in question."""
        graph = self.oracle.graph
        seen = self._values_of(side, arrays) if _broken(examined) else None
        if seen is not None:
            return self._first_off(seen) or [len(graph.nodes) - 1]
        asked = [n for n, e in zip(graph.outputs, examined, strict=True) if e.kind != "calm" or e.ill]
        # An output that is an input comes from no node, and whatever spoils it may be anywhere.
        nodes = leading_to(graph, asked) or [*range(len(graph.nodes))]
        return nodes[:: max(1, len(nodes) // MOST_SPREAD)]

    def _first_off(self, seen: IntermediateValues) -> list[int]:
        """The first nodes whose shown value is further from S than σ-free rounding of such a depth could leave it."""
        graph, found = self.oracle.graph, list[int]()
        for numbers in by_size(graph, sorted(filter(self._public, seen.values)), MAX_WATCHED_BYTES):
            upto = graph.nodes[: graph.producer[numbers[-1]] + 1]
            watched = Oracle(replace(graph, nodes=upto, outputs=tuple(numbers), labels=Labels()), self._inputs)
            for number in numbers:
                off = watched.examine_value(number, seen.values[number], FEW).kind != "calm"
                if off and graph.producer[number] not in found:
                    found.append(graph.producer[number])
            if len(found) >= MOST_ANCHORS:
                break
        return found[:MOST_ANCHORS]

    def _values_of(self, side: str, arrays: tuple[Array, ...]) -> IntermediateValues | None:
        """All values as a platform shows them, unless they are too many to be held."""
        if side not in self._observed:
            given = dict(enumerate(self._inputs))
            small = sum(s.nbytes for s in self.oracle.graph.values if s is not None) <= MAX_PROBED_BYTES
            self._observed[side] = (
                observe_values(self.oracle.graph, side, self._execute, arrays, self._deadline_s, given)
                if small
                else None
            )
        return self._observed[side]

    def _finding(
        self, platform: str, finding: tuple[Confirmed, str], ours: tuple[Array, ...], theirs: tuple[Array, ...]
    ) -> Judgement:
        confirmed, side = finding
        other = self._reference if side == platform else platform
        also = any(set(c.nodes) & set(confirmed.nodes) for c in self.singles.confirmed(other))
        failures: list[str] = []
        blame = blamed(
            self.oracle, confirmed, side == platform, also, decomposes=self._decomposes(side), failures=failures
        )
        culprit, how = self._culprit_of_finding(confirmed, side)
        detail = detail_of_finding(self.oracle, confirmed, side, culprit.op if culprit else "no operator") + how
        roles = self._roles(platform, ours, theirs, confirmed)
        node = self._origin[confirmed.nodes[0]]
        weak = [Weakness(node, self._graph.nodes[node].op, "independent implementation", why) for why in failures]
        return Judgement(confirmed.kind, blame, culprit, detail=detail, nodes=roles, weaknesses=tuple(weak))

    def _culprit_of_finding(self, confirmed: Confirmed, side: str) -> tuple[Culprit | None, str]:
        """The operators to name, and what the detail adds. Of the whole graph, the smallest part that is wrong."""
        if confirmed.whole:
            given = dict(enumerate(self._inputs[: len(self._graph.inputs)]))
            part = wrong_part(self._graph, given, side, self._execute, self._deadline_s)
            if not part.nodes:
                return None, f" is named: {part.reason}"
            return self._culprit_of_part(self._graph, part), f"; {words_of_part(part, 'wrong')}"
        node = self._origin[confirmed.nodes[-1]]
        ops = "+".join(dict.fromkeys(self.oracle.graph.nodes[n].op for n in confirmed.nodes))
        op = self._graph.nodes[node].op if len(confirmed.nodes) == 1 else ops
        return Culprit(node, op, _label(self._graph, node)), ""

    def _roles(
        self, platform: str, ours: tuple[Array, ...], theirs: tuple[Array, ...], confirmed: Confirmed
    ) -> tuple[tuple[int, str, Role], ...]:
        if not self._trace:
            return ()
        mine, reference = self._values_of(platform, ours), self._values_of(self._reference, theirs)
        if mine is None or reference is None:
            return ()
        introducers = {n for c in self.singles.confirmed(platform) for n in c.nodes} | {confirmed.nodes[-1]}
        roles = node_roles(self.oracle.graph, mine.values, reference.values, introducers)
        return tuple((self._origin[n], self._graph.nodes[self._origin[n]].op, role) for n, role in roles)

    def _narrow(self) -> bool:
        """Some value is kept in 16 bits or fewer: whole outputs hide single wrong elements there."""
        return any(s is not None and s.dtype in FORMATS and FORMATS[s.dtype].narrow for s in self.oracle.graph.values)

    def _culprit_of_part(self, graph: Graph, part: Part) -> Culprit:
        last = part.nodes[-1]
        ops = "+".join(dict.fromkeys(graph.nodes[node].op for node in part.nodes))
        op = f"{GRAPH_OUTPUTS}: a value returned twice" if part.twice else ops
        return Culprit(last, op, _label(graph, last))


def _broken(examined: list[Examined]) -> bool:
    return any(e.kind != "calm" for e in examined)


def _label(graph: Graph, node: int) -> str:
    return graph.labels.nodes[node] if graph.labels.nodes else ""
