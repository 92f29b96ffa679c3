"""Finds what triggers a fault: varies one thing of the reduced graph at a time, and sees which neighbours show it.

The condition is the set of facts that the graph shares with all neighbours that show the fault, and that the calm ones
lack. A graph of ordinary size and values that shows it too is looked for first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from mindgap.aten.dead_nodes import without_dead_nodes
from mindgap.aten.specs import with_specs
from mindgap.findings.reduction import edits, variants
from mindgap.findings.reduction.condition_words import Trial, facts_of, right_for
from mindgap.findings.reduction.reducer import Answer, Check, Specify
from mindgap.findings.reduction.specification import MOST_BYTES
from mindgap.findings.reduction.validity import Validity
from mindgap.graph import Graph, GraphError, TensorStore, digest

#: Other flags that a node does not give are turned for so many at most.
_MOST_FLAGS: Final = 3
#: The share of the seconds that is kept for steps to a graph of ordinary size.
_KEPT_FOR_NATURAL: Final = 0.25
#: Values of an ordinary input, the most ordinary first.
_ORDINARY_VALUES: Final = ("uniform", "negative", "integers", "large", "tiny")


@dataclass(frozen=True, slots=True)
class TriggerCondition:
    """What triggers a fault.

    - `phrase`: the facts, joined by commas: `0-d input`, `dtype float16 only`, `any input tried`. Empty where nothing
      was tried.
    - `trials`: each neighbour that ran in eager PyTorch and that public functions accept: what it differs in, how, and
      the answer of the check.
    - `natural`: a graph of ordinary size and values that shows the fault; None where none was found.
    - `right_for`: neighbours that are calm, in words; empty without one.
    - `complete`: all neighbours were tried; false where a limit was reached first.
    """

    phrase: str = ""
    trials: tuple[Trial, ...] = ()
    natural: Graph | None = None
    right_for: str = ""
    complete: bool = True


class _Exhausted(Exception):
    """A limit has been reached."""


@dataclass
class _Trials:
    """Runs neighbours of one graph, each at most once, and keeps the answers."""

    graph: Graph
    check: Check
    specify: Specify
    tensors: TensorStore | None
    checks: int
    ends: float
    trials: list[Trial] = field(default_factory=list[Trial])
    _answers: dict[str, Answer] = field(default_factory=dict[str, Answer])

    def __post_init__(self) -> None:
        self._validity = Validity(self.tensors)
        self._is_valid = not self._validity.refused_operator(self.graph)
        self._answers[digest(self.graph)] = "shows"

    def answer(self, draft: Callable[[], Graph]) -> tuple[Answer | None, Graph | None]:
        """Returns what a neighbour shows, and the neighbour as it was run.

        None where it does not run in eager PyTorch, and where public functions refuse it, though not the graph itself.
        """
        try:
            graph = self.specify(without_dead_nodes(draft()))
        except (GraphError, ValueError, IndexError, OverflowError):
            return None, None
        if not graph.nodes or (self._is_valid and self._validity.refused_operator(graph)):
            return None, None
        key = digest(graph)
        if key not in self._answers:
            if self.checks <= 0 or time.perf_counter() >= self.ends:
                raise _Exhausted
            self.checks -= 1
            self._answers[key] = self.check(graph)
        return self._answers[key], graph

    def vary(self, axis: str, value: str, *drafts: Callable[[], Graph]) -> Answer | None:
        """Tries the first of the drafts that runs, and records what it shows."""
        for draft in drafts:
            answer, graph = self.answer(draft)
            if answer is not None and graph is not None:
                if graph.inputs != self.graph.inputs or graph.nodes != self.graph.nodes:
                    self.trials.append((axis, value, answer))
                return answer
        return None


def condition_of(
    graph: Graph, check: Check, tensors: TensorStore | None = None, *, specify: Specify | None = None,
    checks: int = 80, seconds: float = 30.0,
) -> TriggerCondition:  # fmt: skip
    """Finds what triggers the fault that `graph` shows.

    `check`: as of the reduction. `specify`: runs neighbours to learn the specs of their values; by default eager
    PyTorch in this process. It ends after so many `checks` or `seconds`, the check that is running included.
    """
    specify = specify or partial(with_specs, tensors=tensors, most_bytes=MOST_BYTES)
    started = time.perf_counter()
    tried = _Trials(graph, check, specify, tensors, checks, started + seconds)
    natural, complete = None, True
    try:
        natural = _whole_natural(tried)
        tried.ends = started + seconds * (1 if natural is not None else 1 - _KEPT_FOR_NATURAL)
        for axis in (_ranks, _sizes, _attributes, _dtypes, _values, _layouts, _roles):
            axis(tried)
    except _Exhausted:
        complete = False
    tried.ends = started + seconds
    natural = natural or _stepwise_natural(tried)
    facts = facts_of(graph, tried.trials)
    phrase = ", ".join(facts) or ("any input tried" if tried.trials else "")
    return TriggerCondition(phrase, tuple(tried.trials), natural, right_for(tried.trials), complete)


def _ranks(tried: _Trials) -> None:
    graph, tensors = tried.graph, tried.tensors
    possible = variants.RANKS.get(variants.layout_of(graph), ())
    for rank in range(6 if variants.rank_of(graph) > 2 else 4):
        if graph.inputs and rank in possible and rank != variants.rank_of(graph):
            tried.vary(
                "rank", str(rank), lambda r=rank: variants.with_rank(graph, r, tensors, every=False),
                lambda r=rank: variants.with_rank(graph, r, tensors, every=True),
            )  # fmt: skip


def _sizes(tried: _Trials) -> None:
    graph, tensors = tried.graph, tried.tensors
    if not variants.rank_of(graph) or variants.layout_of(graph) not in variants.RANKS:
        return
    for size in variants.SIZES:
        tried.vary("size", str(size), lambda s=size: variants.with_sizes(graph, s, tensors))
    shapes = [given.spec.shape for given in graph.inputs]
    small = [(number, d, s) for number, shape in enumerate(shapes) for d, s in enumerate(shape) if s < 2]
    for number, dimension, size in small[:4] if len(small) > 1 else ():
        tried.vary(
            f"size of dimension {dimension} of input {number} from {size}", "3",
            lambda n=number, d=dimension: variants.with_sizes(graph, 3, tensors, (n, d)),
        )  # fmt: skip


def _attributes(tried: _Trials) -> None:
    graph = tried.graph
    for index, node in enumerate(graph.nodes):
        flags = 0
        for each in variants.parameters(node):
            axis = f"attribute {each.name} {index}"
            others = variants.other_values(graph, index, each)
            if each.given:
                if each.has_default and each.default != each.value:
                    tried.vary(
                        axis, f"default {each.default}", lambda i=index, p=each: variants.with_default(graph, i, p),
                        lambda i=index, p=each: variants.with_value(graph, i, p, p.default),
                    )  # fmt: skip
            elif isinstance(each.value, bool) and flags < _MOST_FLAGS:
                flags += 1
            else:
                continue
            for other in others:
                tried.vary(axis, str(other), lambda i=index, p=each, v=other: variants.with_value(graph, i, p, v))


def _dtypes(tried: _Trials) -> None:
    graph, tensors = tried.graph, tried.tensors
    dtypes = [given.spec.dtype for given in graph.inputs]
    known = (*variants.FLOATS, *variants.OTHERS)
    old = next((dtype for dtype in dtypes if dtype in variants.FLOATS), dtypes[0] if dtypes else "")
    for new in known if old else ():
        if new != old:
            tried.vary("dtype", new, lambda n=new: edits.with_dtype(graph, old, n, tensors))


def _values(tried: _Trials) -> None:
    graph, tensors = tried.graph, tried.tensors
    if not any(given.spec.kind in ("float", "complex") and given.spec.numel for given in graph.inputs):
        return
    for name in variants.VALUES:
        tried.vary(
            "values", name, lambda v=name: variants.with_values(graph, v, tensors),
            lambda v=name: variants.with_values(graph, v, tensors, first=True),
        )  # fmt: skip


def _layouts(tried: _Trials) -> None:
    graph = tried.graph
    mine = variants.layout_of(graph)
    for layout in ("contiguous", "transposed", "channels_last"):
        if layout != mine:
            tried.vary("layout", layout, lambda name=layout: variants.with_layout(graph, name))


def _roles(tried: _Trials) -> None:
    graph = tried.graph
    for number, given in enumerate(graph.inputs[:3]):
        other = "constant" if given.role in ("input", "random") else "input"
        tried.vary(f"role of input {number}", other, lambda n=number, r=other: variants.with_roles(graph, r, n))


def _whole_natural(tried: _Trials) -> Graph | None:
    """Returns a graph of ordinary sizes and values with the fault, every thing changed at once; None without one."""
    graph, tensors = tried.graph, tried.tensors
    for plain in (True, False):
        for shaped in variants.natural_drafts(graph, tensors):
            found = _shown(tried, lambda s=shaped, p=plain: _ordinary(s(), tensors, p))
            if found is not None and any(given.spec.numel > 1 for given in found.inputs):
                return found
    return None


def _shown(tried: _Trials, draft: Callable[[], Graph]) -> Graph | None:
    answer, shown = tried.answer(draft)
    return shown if answer == "shows" else None


def _ordinary(graph: Graph, tensors: TensorStore | None, defaults: bool) -> Graph:
    """Returns the graph with ordinary values in contiguous inputs, and, with `defaults`, with default attributes."""
    graph = variants.with_layout(variants.with_values(graph, "uniform", tensors), "contiguous")
    for index in range(len(graph.nodes)) if defaults else ():
        for each in reversed(list(variants.parameters(graph.nodes[index]))):
            if each.given and each.has_default and each.default != each.value and isinstance(each.value, bool | float):
                graph = variants.with_value(graph, index, each, each.default)
    return graph


def _stepwise_natural(tried: _Trials) -> Graph | None:
    """Returns a graph that is made ordinary step by step, as far as the fault stays.

    None where its sizes or its values stay as the reduction left them.
    """
    tensors = tried.tensors
    graph: Graph | None = None
    try:
        graph = _first(tried, variants.natural_drafts(tried.graph, tensors))
        if graph is not None:
            fills = (partial(variants.with_values, graph, name, tensors) for name in _ORDINARY_VALUES)
            graph = _first(tried, fills)
        if graph is not None:
            graph = _shown(tried, partial(variants.with_layout, graph, "contiguous")) or graph
    except _Exhausted:
        pass
    return graph if graph is not None and any(given.spec.numel > 1 for given in graph.inputs) else None


def _first(tried: _Trials, drafts: Iterable[Callable[[], Graph]]) -> Graph | None:
    return next((shown for draft in drafts if (shown := _shown(tried, draft)) is not None), None)
