"""Describes nodes of a graph for pictures and tables: what each reads and makes, how far two sides are apart."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mindgap.graph import Graph, operands
from mindgap.graph.compare.culprit import Culprit

#: Edges from a culprit to the nodes around it that are shown: towards the inputs, and towards the outputs.
BEFORE: Final = 3
AFTER: Final = 4
#: Nodes around a culprit that are shown, at most: the nearest.
MOST_AROUND: Final = 30
_ONLY_LINE: Final = re.compile(r"[^\s()]+:\d+")


@dataclass(frozen=True, slots=True)
class SideStatistics:
    """One value on one side: the smallest, largest and mean of its finite elements, and how many are NaN or infinite.

    A complex value has those of its magnitude. None where no element is finite.
    """

    least: float | None
    largest: float | None
    mean: float | None
    non_finite: int = 0


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """One value on both sides.

    max_abs: the largest absolute difference of elements that are finite on both sides; None where there is none, or
        the sides differ in shape.
    relative: root mean square of the difference over that of the reference; infinite for another shape, dtype or class.
    """

    platform: SideStatistics
    reference: SideStatistics
    max_abs: float | None
    relative: float


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node of a graph as a picture needs it.

    reads: positions, in the sequence of drawn nodes, of the nodes whose results it reads.
    made: dtype and shape of each result.
    role: `introduces`, `amplifies`, `propagates` or `masks`; `fails` for the operator named of a failure; empty where
        the difference does not reach.
    label: module and line of the user's program.
    node: its number in the captured graph; -1 where that is its position in the sequence.
    value: its first result on both sides; None where that was not looked at.
    """

    op: str
    reads: tuple[int, ...]
    made: tuple[str, ...]
    role: str = ""
    label: str = ""
    node: int = -1
    value: ValueDifference | None = None


def drawn_nodes(
    graph: Graph,
    roles: Mapping[int, str],
    among: Sequence[int] | None = None,
    values: Mapping[int, ValueDifference] | None = None,
) -> tuple[DrawnNode, ...]:
    """The nodes of a graph in execution order, `among` these only. `roles`, `values`: by node."""
    chosen = range(len(graph.nodes)) if among is None else sorted(among)
    place = {node: position for position, node in enumerate(chosen)}
    labels = graph.labels.nodes or ("",) * len(graph.nodes)
    return tuple(
        DrawnNode(
            graph.nodes[node].op,
            tuple(sorted({place[n] for v in operands(graph.nodes[node]) if (n := graph.producer[v]) in place})),
            tuple(str(spec) for spec in graph.nodes[node].outputs if spec is not None),
            roles.get(node, ""),
            labels[node],
            -1 if among is None else node,
            (values or {}).get(node),
        )
        for node in chosen
    )


def named_role(culprit: Culprit | None, verdict: str, nodes: Sequence[int] = ()) -> dict[int, str]:
    """The role of the operator that a row without roles names; of a policy, that of its `nodes`."""
    named = [culprit.node] if culprit is not None and culprit.node >= 0 else nodes
    return dict.fromkeys(named, "fails" if verdict in ("failed", "reference_failed") else "introduces")


def around(graph: Graph, centres: Collection[int]) -> list[int]:
    """The nodes of a graph that are few edges from the given ones, those included; the nearest where they are many."""
    before: list[set[int]] = [{p for v in operands(node) if (p := graph.producer[v]) >= 0} for node in graph.nodes]
    after: list[set[int]] = [set() for _ in graph.nodes]
    for node, reads in enumerate(before):
        for read in reads:
            after[read].add(node)
    nodes = dict.fromkeys(sorted(centres)[:MOST_AROUND])
    up = down = list(nodes)
    for distance in range(max(BEFORE, AFTER)):
        # Of nodes that are equally near, those towards the outputs first: the difference goes there.
        down = [n for n in _next(after, down) if n not in nodes] if distance < AFTER else []
        up = [n for n in _next(before, up) if n not in nodes] if distance < BEFORE else []
        for node in (*down, *up):
            if len(nodes) < MOST_AROUND:
                nodes[node] = None
    return sorted(nodes)


def _next(edges: Sequence[Collection[int]], nodes: Sequence[int]) -> list[int]:
    return sorted({other for node in nodes for other in edges[node]})


def submodule_nodes(graph: Graph, path: str) -> list[int]:
    """The nodes that a submodule of the program makes, by their labels; all nodes for the path of the whole program."""
    modules = map(module_of, graph.labels.nodes)
    return [n for n, module in enumerate(modules) if not path or module == path or module.startswith(f"{path}.")]


def module_of(label: str) -> str:
    """The submodule in the label of a node: of `layers.1 (model.py:42)` and of `layers.1`; empty for `model.py:42`."""
    return "" if _ONLY_LINE.fullmatch(label) else label.partition(" (")[0]
