"""Finds the smallest part of a graph that makes a platform fail in the same way.

An operator is named only if a graph of it alone fails. Otherwise a set of operators is searched. Every part must fail
with the status and the signature of the whole graph's failure.

A failure that ends its worker (a crash, a time-out, exhausted memory) costs seconds for a new worker, and any other job
milliseconds. For such a failure single operators run before larger parts, since only the culprit costs a worker, and
prefixes are tried in steps of a quarter, so that fewer of them fail. Of the larger parts that end a worker, only the
one that is named runs a second time, on a fresh worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from mindgap.graph import Arg, Graph, map_refs, operands
from mindgap.graph.compare.reason import Reason
from mindgap.graph.compare.verdict import Fault
from mindgap.judge.trace.judgement import FoundFault, Judgement, near_culprit
from mindgap.judge.trace.known_failures import KnownFailures
from mindgap.judge.trace.sentences import words_of_part
from mindgap.judge.trace.smallest_part import PartSearch, SmallestPart, culprit_of_part
from mindgap.judge.trace.subgraphs import Array, Execute
from mindgap.run.outcome import Job, Outcome

#: Deadline in seconds for a part of a graph that hangs, and for a part of any other.
SHORT_S: Final = 20.0
LONG_S: Final = 60.0
#: Failures that end the worker.
_COSTLY: Final = frozenset({"crash", "timeout", "oom"})
#: How many calls are run alone: of the operator that the platform names, and of all where a failure is costly.
_MOST_NAMED: Final = 8
_MOST_ALONE: Final = 200
#: How many parts that fail the search for the smallest one may run: where a failure is costly, and otherwise.
_MOST_FAILING: Final = {True: 10, False: 60}


def judged_failure(
    graph: Graph, failure: Outcome, execute: Execute, inputs: dict[int, Array], known: KnownFailures | None = None
) -> Judgement:
    """The judgement of an outcome that failed: the operators that make the platform fail, each fault by itself."""
    part = failing_part(graph, failure, execute, inputs, known)
    if not part.nodes:
        named = f"; the platform names {failure.op}, which alone does not fail" if failure.op else ""
        why = f"no operator is named: {part.reason}{named}"
        return Judgement("failed", "platform", detail=f"{failure.status} ({why}): {failure.message}")
    faults: list[Fault] = []
    for one, outcome in separate_faults(graph, part, failure, execute, inputs):
        reason = Reason("failed_alone", names=(outcome.signature,), message=outcome.message)
        faults.append(
            Fault(
                culprit_of_part(graph, one), "failed", "platform", one.nodes,
                f"{outcome.status} ({words_of_part(one, 'fails')}): {outcome.message}",
                reasons=() if outcome is failure else (reason,),
            )
        )  # fmt: skip
    first = faults[0]
    found = Judgement("failed", "platform", first.culprit, detail=first.detail, faults=tuple(map(FoundFault, faults)))
    return replace(found, around=near_culprit(graph, found))


def failing_part(
    graph: Graph, failure: Outcome, execute: Execute, inputs: dict[int, Array], known: KnownFailures | None = None
) -> SmallestPart:
    """The smallest part of the graph that makes the platform fail with the same status and signature.

    What made other graphs fail in this way is tried first (`known`, which remembers what is found), then the operator
    that the platform names (`failure.op`). A worker that died before it got the graph accuses no node.
    """
    known = known or KnownFailures()
    if failure.status == "crash" and failure.reason is not None and failure.reason.stage == "starting":
        return SmallestPart((), "the worker failed before it had the graph")
    costly = failure.status in _COSTLY
    deadline_s = SHORT_S if failure.status == "timeout" else LONG_S

    def run(part: Graph, given: dict[int, Array], *, confirmed: bool = True) -> bool:
        short = SHORT_S if len(part.nodes) == 1 else deadline_s
        job = Job(failure.platform, part, repeat=1, deadline_s=short, inputs=given, confirmed=confirmed)
        return _alike(execute(job), failure)

    #: The part that failed last, and so the smallest.
    last: list[tuple[Graph, dict[int, Array]]] = []

    def fails(part: Graph, given: dict[int, Array]) -> bool:
        failed = run(part, given, confirmed=not costly)
        if failed:
            last[:] = [(part, given)]
        return failed

    alone = PartSearch(graph, inputs, run, folding=True)
    tried = (*known.places(failure, graph), *((node,) for node in _candidates(graph, failure, costly)))
    for nodes in dict.fromkeys(tried):
        if alone.holds(nodes, once=True):
            # The search in another graph may have ended before it came to one operator.
            one = next((node for node in nodes if len(nodes) > 1 and alone.holds([node], once=True)), None)
            nodes = nodes if one is None else (one,)
            known.add(failure, graph, nodes)
            return SmallestPart(nodes)
    if not fails(graph, inputs):
        return SmallestPart((), "the failure did not come again")
    if graph.grad and not fails(replace(graph, grad=()), inputs):
        return SmallestPart((), "only the gradients fail")
    smallest = PartSearch(graph, inputs, fails, costly=costly, most=_MOST_FAILING[costly], folding=True).smallest()
    if failure.status in ("crash", "oom") and smallest.nodes and not run(*last[0]):
        return SmallestPart((), "the part that was found does not fail when it is run again")
    if smallest.nodes and not smallest.twice:
        known.add(failure, graph, smallest.nodes)
    return smallest


def separate_faults(
    graph: Graph, part: SmallestPart, failure: Outcome, execute: Execute, inputs: dict[int, Array]
) -> list[tuple[SmallestPart, Outcome]]:
    """The faults of a part of several nodes, each with its outcome; only the part where it is one fault.

    A converter that reports all that it could not convert fails in the same way only with all of it, though each of
    these operators fails by itself. Nodes that do not fail alone are one more fault if they fail together, and none if
    the platform refuses them.
    """
    whole = [(part, failure)]
    if len(part.nodes) < 2 or part.twice or failure.status in _COSTLY:
        return whole
    seen: list[Outcome] = []

    def fails(tried: Graph, given: dict[int, Array]) -> bool:
        seen[:] = [execute(Job(failure.platform, tried, repeat=1, deadline_s=LONG_S, inputs=given))]
        return seen[0].status == failure.status

    search = PartSearch(graph, inputs, fails, folding=True)
    faults = [(SmallestPart((node,)), seen[0]) for node in part.nodes if search.holds([node], once=True)]
    alone = {node for one, _ in faults for node in one.nodes}
    rest = tuple(node for node in part.nodes if node not in alone)
    if not faults or not rest:
        return faults or whole
    if search.holds(rest, once=True):
        return [*faults, (SmallestPart(rest), seen[0])]
    return faults if seen[0].status == "unsupported" else whole


def _candidates(graph: Graph, failure: Outcome, costly: bool) -> Iterator[int]:
    """Nodes to run alone: calls of the operator that the platform names, then, where it pays, all others.

    Of calls that differ in their operands' values alone, the first.
    """
    nodes = range(len(graph.nodes))
    named = [i for i in nodes if graph.nodes[i].op == failure.op]
    yield from _distinct(graph, named)[:_MOST_NAMED]
    if costly:
        yield from _distinct(graph, [i for i in nodes if i not in named])[:_MOST_ALONE]


def _distinct(graph: Graph, nodes: list[int]) -> list[int]:
    """The first node of each kind of call: operator, attributes, operands' dtypes and layouts."""
    first: dict[object, int] = {}
    for index in nodes:
        node = graph.nodes[index]
        numbers = dict.fromkeys(operands(node))
        positions = {number: position for position, number in enumerate(numbers)}
        arguments: list[Arg] = [map_refs(arg, positions) for arg in (*node.args, *(arg for _, arg in node.kwargs))]
        # By its text: 1, 1.0 and True are equal.
        kind = node.op, repr(arguments), tuple(graph.values[number] for number in numbers)
        first.setdefault(kind, index)
    return list(first.values())


def _alike(outcome: Outcome, failure: Outcome) -> bool:
    """The same status and the same signature. Of a crash the signal and the stage count, for what a library prints
    before it aborts depends on how memory happens to lie; a time-out or exhausted memory has no message of its own."""
    if outcome.status != failure.status:
        return False
    if failure.status == "crash":
        return outcome.signature.partition(" | ")[0] == failure.signature.partition(" | ")[0]
    return failure.status in _COSTLY or outcome.signature == failure.signature
