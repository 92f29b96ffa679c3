"""Reduces a graph by passes, each with a guarantee, until none of them makes it simpler."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from mindgap.aten.dead_nodes import without_dead_nodes
from mindgap.aten.specs import with_specs
from mindgap.findings.reduction.simplicity_order import Simplicity, simplicity
from mindgap.findings.reduction.specification import MOST_BYTES
from mindgap.findings.reduction.validity import Validity
from mindgap.graph import Graph, GraphError, TensorStore, digest

#: The answer of a check for a graph: it shows the symptom, it shows nothing, or it shows something else or does not
#: run.
Answer = Literal["shows", "calm", "other"]
Check = Callable[[Graph], Answer]
#: Returns a draft with the specs of its values. Raises `GraphError` where it does not run.
Specify = Callable[[Graph], Graph]


@dataclass(frozen=True, slots=True)
class ReductionLimits:
    """When a reduction ends early: after `checks` checks, or `seconds` of wall-clock time.

    `stage`: whether the stage at fault is looked for, which takes a worker for each run. `condition_s`:
    seconds for what triggers the fault, after the reduction; 0: it is not looked for.
    """

    checks: int = 1000
    seconds: float = 120.0
    stage: bool = True
    condition_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Reduction:
    """What a reduction came to.

    `graph`: the simplest graph found that shows the symptom. `passing`: the graph nearest to it, of those tried, that
    does not show it; None where every one of them showed it or something else. `checks`: how often the check ran.
    `complete`: no pass makes the graph any simpler; false where a limit was reached first.
    """

    graph: Graph
    passing: Graph | None
    checks: int
    seconds: float
    complete: bool


class Exhausted(Exception):
    """A limit has been reached."""


class Reducer:
    """The simplest graph so far, and what has been tried.

    A graph stays one that public functions can make: where they accept what the graph calls, a candidate that calls an
    operator with operands that they refuse is not taken.
    """

    def __init__(
        self, graph: Graph, check: Check, tensors: TensorStore | None, limits: ReductionLimits, specify: Specify | None
    ) -> None:
        self._specify: Specify = specify or partial(with_specs, tensors=tensors, most_bytes=MOST_BYTES)
        self.graph, self.tensors = graph, tensors
        self._check, self._limits = check, limits
        self._order = simplicity(graph, tensors)
        self._tried: dict[str, Answer] = {}
        self._validity = Validity(tensors)
        self._refused: tuple[Graph, str | None] | None = None
        self._passing: tuple[Simplicity, Graph] | None = None
        self._started = time.perf_counter()
        self.checks = 0

    def consider(self, candidate: Callable[[], Graph]) -> bool:
        """Takes the candidate where it is simpler than the graph and shows the symptom.

        `candidate` may raise `GraphError`: then there is none. Raises `Exhausted`.
        """
        try:
            graph = self._specify(without_dead_nodes(candidate()))
        except GraphError:
            return False
        order = simplicity(graph, self.tensors)
        if not graph.nodes or order >= self._order:
            return False
        answer = self._answer(graph)
        if answer == "shows" and self._is_newly_refused(graph):
            return False
        if answer == "shows":
            self.graph, self._order, self._passing = graph, order, None
        elif answer == "calm" and (self._passing is None or order > self._passing[0]):
            self._passing = order, graph
        return answer == "shows"

    def _is_newly_refused(self, candidate: Graph) -> bool:
        """Returns whether public functions refuse what the candidate calls, and accept what the graph calls."""
        if not self._validity.refused_operator(candidate):
            return False
        if self._refused is None or self._refused[0] is not self.graph:
            self._refused = self.graph, self._validity.refused_operator(self.graph)
        return self._refused[1] == ""

    def _answer(self, graph: Graph) -> Answer:
        key = digest(graph)
        if key not in self._tried:
            if self.checks >= self._limits.checks or self.seconds >= self._limits.seconds:
                raise Exhausted
            self.checks += 1
            self._tried[key] = self._check(graph)
        return self._tried[key]

    @property
    def seconds(self) -> float:
        """Since the reduction began."""
        return time.perf_counter() - self._started

    def result(self, complete: bool) -> Reduction:
        """What was reached."""
        passing = None if self._passing is None else self._passing[1]
        return Reduction(self.graph, passing, self.checks, self.seconds, complete)


def reduce(
    graph: Graph, check: Check, tensors: TensorStore | None = None, *, nodes: tuple[int, ...] = (),
    limits: ReductionLimits | None = None, specify: Specify | None = None,
) -> Reduction:  # fmt: skip
    """The simplest graph with the symptom that the passes reach.

    `nodes`: those that are taken for the cause; the part of the graph that holds them alone is tried first.
    `specify`: runs candidates to learn the specs of their values; by default eager PyTorch in this process, where a
    kernel that crashes ends it.
    Raises `GraphError` where the graph itself does not show the symptom.
    """
    from mindgap.findings.reduction.passes import PASSES, only

    reducer = Reducer(graph, check, tensors, limits or ReductionLimits(), specify)
    if check(graph) != "shows":
        raise GraphError("the graph does not show the symptom that was to be reduced")
    try:
        if nodes and not graph.grad:
            only(reducer, nodes)
        while True:
            before = reducer.graph
            for each in PASSES:
                each(reducer)
            if reducer.graph is before:
                return reducer.result(complete=True)
    except Exhausted:
        return reducer.result(complete=False)
