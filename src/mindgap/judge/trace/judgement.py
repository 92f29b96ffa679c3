"""The judge's decision on one outcome, and the nodes near what it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from mindgap.graph import Graph
from mindgap.graph.compare.culprit import Culprit, Example
from mindgap.graph.compare.row_metrics import RowMetrics
from mindgap.graph.compare.verdict import Blame, Contradiction, Fault, OtherDecision, Verdict, Weakness
from mindgap.judge.trace.roles import Role
from mindgap.judge.trace.subgraphs import Array
from mindgap.results.drawn_graph import DrawnNode, ValueDifference, around, drawn_nodes, named_role


@dataclass(frozen=True)
class OperatorAlone:
    """An operator as a separate graph, and the operands on which it was found wrong, in the graph's order."""

    graph: Graph
    inputs: tuple[Array, ...]


@dataclass(frozen=True)
class FoundFault:
    """A fault, and its operator by itself; None for a set of operators and for large operands."""

    fault: Fault
    alone: OperatorAlone | None = None


@dataclass(frozen=True)
class Judgement:
    """Verdict, blame, culprit and metrics of one outcome.

    `verdicts`: each output's own. `profiles`: whether each fixed tolerance passes. `detail`: one sentence for a person.
    `nodes`: (node of the captured graph, operator, role) for each node that the difference reaches. `weaknesses`:
    operators judged on weaker evidence. `example`: one element that the culprit gets wrong. `faults`: of a finding with
    a confirmed culprit, its independent faults; the first has the row's verdict, blame, culprit, detail and example.
    `around`: the nodes near the culprit, with both sides' values where they were seen.
    `contradictions`: outputs that do not fit each other. `decisions`: those that came out otherwise, or may.
    """

    verdict: Verdict
    blame: Blame | None = None
    culprit: Culprit | None = None
    metrics: RowMetrics = field(default_factory=RowMetrics)
    detail: str = ""
    nodes: tuple[tuple[int, str, Role], ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    profiles: Mapping[str, bool] = field(default_factory=dict[str, bool])
    weaknesses: tuple[Weakness, ...] = ()
    example: Example | None = None
    faults: tuple[FoundFault, ...] = ()
    around: tuple[DrawnNode, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    decisions: tuple[OtherDecision, ...] = ()


def at_places(judgement: Judgement, places: str) -> Judgement:
    """The judgement of a finding, with its places. `places`: empty where that is not known."""
    if not places:
        return judgement
    first, *more = judgement.faults or (None,)
    if first is None:
        return replace(judgement, detail=f"{judgement.detail}; {places}")
    detail = f"{first.fault.detail}; {places}"
    return replace(judgement, detail=detail, faults=(replace(first, fault=replace(first.fault, detail=detail)), *more))


def near_culprit(
    graph: Graph, judgement: Judgement, value: Callable[[int], ValueDifference | None] = lambda node: None
) -> tuple[DrawnNode, ...]:
    """The nodes of the captured graph near the culprit of a judgement. `value`: a node's result on both sides."""
    nodes = judgement.faults[0].fault.nodes if judgement.faults else ()
    named = named_role(judgement.culprit, judgement.verdict, nodes)
    near = around(graph, [*named][:1]) if named else []
    roles = {**{node: role for node, _, role in judgement.nodes}, **named}
    values = {node: seen for node in near if (seen := value(node)) is not None}
    return drawn_nodes(graph, roles, near, values)
