"""Decides the verdict on two outcomes of one graph."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from mindgap.aten.functional import functionalize
from mindgap.aten.state import TORCH_STATE
from mindgap.graph import Graph, GraphError, MindgapError, materialise
from mindgap.graph.compare.culprit import Culprit, OperatorCulprit
from mindgap.graph.compare.row_metrics import RowMetrics, changed_wholly
from mindgap.graph.compare.verdict import CALM, Fault, Missing, Verdict, Weakness
from mindgap.graph_capture import CaptureError, with_explicit_gradients
from mindgap.judge.oracle import (
    Examined,
    InternalValues,
    Oracle,
    OracleError,
    OracleMemoryError,
    examine_cheaply,
    examine_value_cheaply,
    internal_values,
)
from mindgap.judge.oracle.bounds.promises import promised_by
from mindgap.judge.oracle.evaluation.formats import FORMATS
from mindgap.judge.oracle.evaluation.unordered import in_any_order
from mindgap.judge.trace.blame import blamed
from mindgap.judge.trace.contradictions import contradictions
from mindgap.judge.trace.culprit_search import CulpritSearch, ObservedOutputs
from mindgap.judge.trace.dtype_policy import Dtypes, detail_of_policy
from mindgap.judge.trace.example import example
from mindgap.judge.trace.failure import judged_failure
from mindgap.judge.trace.independent_faults import MAX_CARRIED, MAX_RUNS, FaultSearch, IndependentFault
from mindgap.judge.trace.judgement import FoundFault, Judgement, OperatorAlone, at_places, near_culprit
from mindgap.judge.trace.known_failures import KnownFailures
from mindgap.judge.trace.masked_places import masked_places
from mindgap.judge.trace.metrics import fixed_tolerances, row_metrics
from mindgap.judge.trace.output_verdicts import (
    overall_verdict,
    public_only,
    same_bits,
    undefined_outputs,
    verdicts_of_outputs,
    worst_of_runs,
)
from mindgap.judge.trace.path_decisions import sizing_values, unstable_decisions, with_path, without_other_sizes
from mindgap.judge.trace.range_loss import RangeLoss, UnlimitedRange, infected
from mindgap.judge.trace.roles import Role
from mindgap.judge.trace.sampled_policy import SampledPolicy
from mindgap.judge.trace.sentences import detail_of_calm, detail_of_decisions, detail_of_finding, words_of_part
from mindgap.judge.trace.single_operators import Confirmed, SingleOperators
from mindgap.judge.trace.smallest_part import SmallestPart, culprit_of_part, label_of
from mindgap.judge.trace.structure import first_difference, side_to_blame, sides_first, structural_detail
from mindgap.judge.trace.subgraphs import Array, Execute, leading_to
from mindgap.judge.trace.wrong_part import wrong_part
from mindgap.platforms.name import PlatformName
from mindgap.results.drawn_graph import DrawnNode
from mindgap.run.outcome import Outcome

#: Elements of the operands of a culprit that is kept by itself, for a script.
MAX_WRITTEN: Final = 512


class Judge:
    """Judges platforms on one graph. Shadows, replays and singles results of the reference are computed once.

    `inputs`: every graph input as numpy, in order. `execute` runs a job on any platform. `trace=False` leaves out the
    roles of nodes (which take one more run of each side). `internal`: judge results that no public function returns
    like any other. `dtypes`: what a platform does to each dtype, which may explain a finding.
    `decomposes`: whether a platform declares `PYTORCH_DECOMPOSITIONS`. `failures`: what made platforms fail in other
    graphs. `accuracy`: the language whose promises of accuracy bounds take in (`bounds.promises`), empty for none.
    """

    def __init__(
        self, graph: Graph, inputs: Sequence[Array], execute: Execute, reference: PlatformName, *, trace: bool = True,
        deadline_s: float = 300.0, internal: bool = False, dtypes: Dtypes | None = None,
        decomposes: Callable[[PlatformName], bool] = lambda platform: False, failures: KnownFailures | None = None,
        accuracy: str = "",
    ) -> None:  # fmt: skip
        self._accuracy = accuracy
        self._graph, self._inputs, self._execute, self._reference = graph, list(inputs), execute, reference
        self._asked = graph
        self._trace, self._deadline_s = trace, deadline_s
        self._internal_asked, self._internal = internal, InternalValues()
        self._dtypes, self._decomposes, self._failures = dtypes, decomposes, failures
        self._oracle: Oracle | None = None
        self._origin: tuple[int, ...] = ()
        self._search: CulpritSearch | None = None
        self._examined: dict[PlatformName, list[Examined]] = {}
        self._one_at_a_time = threading.RLock()

    def judge(self, outcome: Outcome, reference: Outcome) -> Judgement:
        """Judges a platform's outcome against the reference's. Outcomes that ran carry whole outputs.

        Raises `OracleMemoryError` where the machine's free memory does not suffice. Thread-safe: platforms of one graph
        take turns, because they share its shadows and replays.
        """
        with self._one_at_a_time:
            if not outcome.ran:
                return self.judge_failure(outcome)
            if outcome.arrays is None or reference.arrays is None:
                raise MindgapError("to judge two outcomes, ask for whole outputs of both (Job.want = 'outputs')")
            with promised_by(self._accuracy):
                judgement = self._decide(outcome, outcome.arrays, reference.arrays)
            return replace(judgement, profiles=fixed_tolerances(outcome.arrays, reference.arrays))

    def _decide(self, outcome: Outcome, ours: tuple[Array, ...], theirs: tuple[Array, ...]) -> Judgement:
        try:
            self._prepare()
            unfit = contradictions(self.oracle.graph, self._inputs, ours, theirs, self._execute, self._reference)
            judgement = replace(self._judge(outcome, ours, theirs), contradictions=tuple(unfit))
            where = "" if judgement.verdict in CALM else masked_places(self._graph, self._inputs, ours, theirs)
            return at_places(judgement, where)
        except OracleMemoryError:
            raise
        except OracleError as error:
            metrics = row_metrics(ours, theirs, None)
            return Judgement("ill_conditioned", metrics=metrics, detail=f"nothing can be said of the outputs: {error}")

    def beyond_rounding(self, outputs: Sequence[Array]) -> list[bool]:
        """Returns, for each output, whether it is further off than rounding of this graph can lead.

        `outputs`: of what computes the same, in the graph's order, with its shapes and dtypes. Raises `OracleError`.
        """
        with self._one_at_a_time:
            self._prepare()
            internal = [number in self._internal.values for number in self.oracle.graph.outputs]
            examined = public_only(examine_cheaply(self.oracle, outputs), internal)
            if any(one.kind != "calm" for one in examined):
                lost = self._range.loss(outputs, [*map(self.search.singles.value, self.oracle.graph.outputs)])
                examined = examined if lost is None else lost.spared(examined)
            return [one.kind != "calm" for one in examined]

    def judge_failure(self, failure: Outcome) -> Judgement:
        """Finds the operators that make the platform fail. `unsupported` is no finding and is not judged."""
        given = dict(enumerate(self._inputs[: len(self._asked.inputs)]))
        return judged_failure(self._asked, failure, self._execute, given, self._failures)

    def _prepare(self) -> None:
        if self._oracle is None:
            self._write_gradients_out()
            try:
                functional = functionalize(self._graph)
            except GraphError as error:
                raise OracleError(str(error)) from error
            sizing = sizing_values(functional.graph, self._asked.labels.decisions, self._inputs)
            self._oracle, self._origin = Oracle(functional.graph, self._inputs, decisions=sizing), functional.origin
            original = [self._graph.nodes[i].op for i in functional.origin]
            self._internal = internal_values(functional.graph, self._internal_asked)
            self._range = UnlimitedRange(self._oracle, self._inputs)
            singles = SingleOperators(self._oracle, original, self._execute, self._deadline_s, self._internal)
            self._search = CulpritSearch(
                self._oracle, singles, self._inputs, self._execute, self._reference, self._deadline_s, self._internal,
                self._dtypes,
            )  # fmt: skip

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
    def search(self) -> CulpritSearch:
        """The search for culprits in the functional graph."""
        self._prepare()
        assert self._search is not None
        return self._search

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
        mine, lost = without_other_sizes(self.oracle, self._asked.labels.decisions, mine, ours, theirs)
        mine, reference = sides_first(mine, reference, ours, theirs)
        if (range_loss := self._range.loss(ours, theirs)) is not None:
            mine = range_loss.spared(mine)
        explained = range_loss is not None and all(one.kind == "calm" for one in mine)
        self.search.singles.moot = infected(self.oracle.graph, range_loss.node) if range_loss and explained else ()
        seen = ObservedOutputs(ours, theirs, runs, mine, reference, internal)
        public = public_only(mine, internal), public_only(reference, internal)
        finding = None
        sampled = None if self._narrow() else self.search.policy_by_sample(outcome.platform, public, seen)
        if sampled is not None:
            judgement = self._sampled_judgement(outcome.platform, sampled, seen)
            labels, words = self._asked.labels, judgement.verdicts
            return replace(with_path(judgement, self.oracle, labels, mine, ours, words), metrics=metrics)
        if any(e.kind != "calm" or e.ill for side in public for e in side) or self._narrow():
            finding = self.search.find(outcome.platform, *public, ours, theirs)
        policy, undecided = None, list[str]()
        if finding is not None and finding[1] == outcome.platform:
            finding, policy = self.search.explained(finding, seen, undecided)
        words = self._words(seen, policy.verdict if policy else None if finding is None else finding[0].kind)
        if finding is None:
            judgement = self._with_reason(self._unconfirmed(seen, words, lost), seen, words, range_loss, metrics)
        else:
            first = IndependentFault(*finding, finding[0].nodes, policy)
            judgement = self._finding(outcome.platform, *self._independent(outcome.platform, first, seen, public))
            if policy is None:
                judgement = replace(judgement, nodes=self._roles(outcome.platform, seen, finding[0]))
            judgement = replace(judgement, around=self._drawn_around(outcome.platform, judgement))
        weak = [*self._weaknesses(seen, words), *judgement.weaknesses]
        if finding is not None:
            weak += [self._weakness(finding[0], "dtype policy", why) for why in undecided]
        judgement = with_path(judgement, self.oracle, self._asked.labels, mine, ours, words)
        return replace(judgement, metrics=metrics, verdicts=tuple(words), weaknesses=tuple(weak))

    def _sampled_judgement(self, platform: PlatformName, sampled: SampledPolicy, seen: ObservedOutputs) -> Judgement:
        """The judgement of a policy that a sample of the nodes shows, without metrics."""
        judgement = self._finding(platform, [sampled.fault], None)
        words = self._words(seen, judgement.verdict)
        weak = (*self._weaknesses(seen, words), self._weakness(sampled.fault.confirmed, "dtype policy", sampled.extent))
        detail = f"{judgement.detail}; {sampled.extent}"
        around = self._drawn_around(platform, judgement)
        return replace(judgement, verdicts=tuple(words), detail=detail, weaknesses=weak, around=around)

    def _weaknesses(self, seen: ObservedOutputs, words: Sequence[Verdict]) -> Iterator[Weakness]:
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

    def _words(self, seen: ObservedOutputs, finding: Verdict | None) -> list[Verdict]:
        """Each output's own verdict."""
        numbers = self.oracle.graph.outputs
        undefined = [a.tied + b.tied > 0 for a, b in zip(seen.mine, seen.reference, strict=True)]
        if any(e.tainted for e in seen.mine):
            tainted = undefined_outputs(numbers, self.oracle.tainted, seen.ours, seen.theirs)
            undefined = [a or b for a, b in zip(undefined, tainted, strict=True)]
        return verdicts_of_outputs(seen.mine, seen.reference, seen.runs, seen.theirs, undefined, seen.internal, finding)

    def _unconfirmed(self, seen: ObservedOutputs, words: list[Verdict], lost: Collection[int]) -> Judgement:
        """No operator was found at fault. Another shape or dtype is a finding without, but of the outputs `lost`."""
        hidden = [internal or position in lost for position, internal in enumerate(seen.internal)]
        index = first_difference(seen.ours, seen.theirs, hidden)
        if index is None:
            return self._calm(seen, words)
        number, ours, theirs = self.oracle.graph.outputs[index], seen.ours[index], seen.theirs[index]
        producer = self.oracle.graph.producer[number]
        culprit = culprit_of_part(self._graph, SmallestPart((self._origin[producer],))) if producer >= 0 else None
        words[index] = "structural"
        blame = side_to_blame(self.oracle.graph.values[number], ours, theirs)
        detail = structural_detail(self.oracle.graph, index, ours, theirs)
        return Judgement("structural", blame, culprit, detail=detail)

    def _calm(self, seen: ObservedOutputs, words: list[Verdict]) -> Judgement:
        """Nothing was confirmed: every difference is explained, or cannot be judged."""
        detail = detail_of_calm(self.oracle, words, seen.mine, seen.reference)
        return Judgement(overall_verdict(words), detail=detail)

    def _with_reason(
        self, found: Judgement, seen: ObservedOutputs, words: Sequence[Verdict], lost: RangeLoss | None,
        metrics: RowMetrics,
    ) -> Judgement:  # fmt: skip
        """A calm judgement with the reason for results that are others altogether, where there is one."""
        if found.verdict not in CALM or not (lost or changed_wholly(metrics)):
            return found
        if lost is not None:
            return replace(found, detail=lost.sentence(*self._named(lost.node)))
        differing = [n for n, word in zip(self.oracle.graph.outputs, words, strict=True) if word != "identical"]
        nodes = unstable_decisions(self.oracle, self._inputs, differing)
        free = [node for node in nodes if in_any_order(self.oracle.graph.nodes[node])]
        decided = detail_of_decisions([self._named(node) for node in nodes if node not in free])
        decided += detail_of_decisions([*map(self._named, free)], "any order of the elements is right")
        return replace(found, detail=decided + found.detail)

    def _named(self, node: int) -> tuple[str, str]:
        """The operator and the line of a node of the functional graph."""
        origin = self._origin[node]
        return self._graph.nodes[origin].op, label_of(self._graph, origin)

    def _independent(
        self, platform: PlatformName, first: IndependentFault, seen: ObservedOutputs,
        public: tuple[list[Examined], list[Examined]],
    ) -> tuple[list[IndependentFault], Confirmed | None]:  # fmt: skip
        """The faults, the first of them given, and the first operator that was left undecided."""
        if first.confirmed.whole:
            return [first], None
        singles, sides = self.search.singles, (platform, self._reference)
        local = self._narrow() or any(e.ill for side in public for e in side)
        misshapen = {
            side: [n for n, e in zip(self.oracle.graph.outputs, examined, strict=True) if e.kind == "structural"]
            for side, examined in zip(sides, public, strict=True)
        }
        search = FaultSearch(
            self.oracle, singles, self.search.policy_of, local=local, misshapen=misshapen,
            internal=self._internal.values,
        )  # fmt: skip
        faults = search.all(first, sides)
        everything = first.policy is not None and not first.policy.products
        if not everything and search.skipped is None and not singles.shared(*sides):
            for side, examined, arrays in zip(sides, public, (seen.ours, seen.theirs), strict=True):
                nodes = {node for each in faults for node in each.nodes}
                window = self.search.window_beside(side, arrays, examined, nodes)
                if window is not None:
                    faults.append(IndependentFault(window, side, window.nodes))
        return faults, search.skipped

    def _finding(
        self, platform: PlatformName, faults: Sequence[IndependentFault], skipped: Confirmed | None
    ) -> Judgement:  # fmt: skip
        """The judgement of confirmed faults. `skipped`: an operator that no run was left for."""
        weak: list[Weakness] = []
        faults_named = [self._fault(platform, each, weak, only=len(faults) == 1) for each in faults]
        if skipped is not None:
            why = f"the limit of {MAX_RUNS} more runs and {MAX_CARRIED} evaluations was reached"
            weak.append(self._weakness(skipped, "independent fault", why))
        first = faults_named[0].fault
        return Judgement(
            first.verdict, first.blame, first.culprit, detail=first.detail, weaknesses=tuple(weak),
            example=first.example, faults=tuple(faults_named),
        )  # fmt: skip

    def _fault(self, platform: PlatformName, one: IndependentFault, weak: list[Weakness], *, only: bool) -> FoundFault:
        """One fault as a separate row would have it. `weak` gets what was missing. `only`: there is no other."""
        confirmed, side = one.confirmed, one.side
        shown = example(self.oracle, confirmed)
        nodes = tuple(dict.fromkeys(sorted(self._origin[node] for node in one.nodes)))
        if one.policy is not None:
            detail = detail_of_policy(one.policy, side, shown.sentence if shown else "", everything=only)
            fault = Fault(one.policy.culprit, one.policy.verdict, "platform", nodes, detail, shown)
            return FoundFault(fault, self._alone(confirmed))
        other = self._reference if side == platform else platform
        also = any(set(c.nodes) & set(confirmed.nodes) for c in self.search.singles.confirmed(other))
        failures: list[str] = []
        blame = blamed(
            self.oracle, confirmed, side == platform, also, decomposes=self._decomposes(side), failures=failures
        )
        weak += [self._weakness(confirmed, "independent implementation", why) for why in failures]
        culprit, how = self._culprit_of_finding(confirmed, side)
        detail = detail_of_finding(self.oracle, confirmed, side, culprit.op if culprit else "no operator", shown) + how
        if confirmed.whole:
            nodes = () if culprit is None else (culprit.node,)
        return FoundFault(Fault(culprit, confirmed.kind, blame, nodes, detail, shown), self._alone(confirmed))

    def _weakness(self, confirmed: Confirmed, missing: Missing, why: str) -> Weakness:
        node = confirmed.nodes[0]
        return Weakness(self._origin[node], self._named(node)[0], missing, why)

    def _alone(self, confirmed: Confirmed) -> OperatorAlone | None:
        """The operator with the operands on which it is wrong, where they are few enough to be written down."""
        if len(confirmed.nodes) != 1 or confirmed.whole:
            return None
        singles = self.search.singles
        part = singles.as_it_ran(confirmed.nodes[0])
        few = sum(given.spec.numel for given in part.graph.inputs) <= MAX_WRITTEN
        return OperatorAlone(part.graph, tuple(map(singles.value, part.borders))) if few else None

    def _culprit_of_finding(self, confirmed: Confirmed, side: PlatformName) -> tuple[Culprit | None, str]:
        """The operators to name, and what the detail adds. Of the whole graph, the smallest part that is wrong."""
        if confirmed.whole:
            given = dict(enumerate(self._inputs[: len(self._graph.inputs)]))
            part = wrong_part(self._graph, given, side, self._execute, self._deadline_s)
            if not part.nodes:
                return None, f" is named: {part.reason}"
            return culprit_of_part(self._graph, part), f"; {words_of_part(part, 'wrong')}"
        op, label = self._named(confirmed.nodes[-1])
        several = tuple(dict.fromkeys(self.oracle.graph.nodes[n].op for n in confirmed.nodes))
        ops = (op,) if len(confirmed.nodes) == 1 else several
        return OperatorCulprit(ops, self._origin[confirmed.nodes[-1]], label), ""

    def _roles(
        self, platform: PlatformName, seen: ObservedOutputs, confirmed: Confirmed
    ) -> tuple[tuple[int, str, Role], ...]:
        roles = self.search.roles(platform, seen, confirmed) if self._trace else ()
        return tuple((self._origin[n], self._graph.nodes[self._origin[n]].op, role) for n, role in roles)

    def _drawn_around(self, platform: PlatformName, found: Judgement) -> tuple[DrawnNode, ...]:
        # Of a node that became several, the last one makes its result.
        made = {node: self.oracle.graph.first_value[inner] for inner, node in enumerate(self._origin)}
        return near_culprit(self._graph, found, lambda node: self.search.difference(platform, made.get(node, -1)))

    def _narrow(self) -> bool:
        """Some value is kept in 16 bits or fewer: whole outputs hide single wrong elements there."""
        return any(s is not None and s.dtype in FORMATS and FORMATS[s.dtype].narrow for s in self.oracle.graph.values)
