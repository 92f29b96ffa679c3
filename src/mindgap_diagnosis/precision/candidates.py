"""Divides a functional graph's nodes into operators that may be lowered, and nodes that only hand on what they read."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mindgap.graph import Graph, operands
from mindgap.judge.oracle.evaluation.float64 import BoundCall, Float64Graph

#: The dtype that is lowered.
WIDE = "float32"
_LABEL = re.compile(r"(?:(?P<path>.*?)\s*\()?(?P<line>[^()]+:\d+)\)?$")


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator that runs in float32 or lower. `name`: the path of its module, or its node in an ONNX file. `line`:
    of the user's program, or empty. `kind`: `aten.linear.default`, or `Gemm`. `nodes`: of the functional graph.

    Of one that stays in float32, `given_back`: the measured error without it; None where it was not given back: the
    platform has no kernel for it (`refused`), or runs did not suffice.
    """

    name: str
    line: str
    kind: str
    nodes: tuple[int, ...]
    given_back: float | None = None
    refused: bool = False


@dataclass(frozen=True)
class Candidates:
    """The operators of a graph that may be lowered, and where each value comes from.

    `owner`: by node, the position of its operator, -1 for none. `roots`: by value, the operators whose results it
    holds: several where nodes that only move data join them; none for inputs and what is made of them by such nodes.
    `carriers`: nodes that only move data.
    """

    operators: tuple[Operator, ...]
    owner: tuple[int, ...]
    roots: tuple[frozenset[int], ...]
    carriers: frozenset[int]


def is_wide(graph: Graph, number: int) -> bool:
    """Returns whether a value is of the dtype that is lowered."""
    spec = graph.values[number]
    return spec is not None and spec.dtype == WIDE


def _carries(call: BoundCall, joins: bool) -> bool:
    known, dtypes = call.traits, [dtype for dtype in call.dtypes if dtype == WIDE]
    same = all(spec is None or spec.dtype == WIDE for spec in call.node.outputs)
    return bool(dtypes) and (joins or len(dtypes) == 1) and (call.moves or (known.hands_on and known.casts and same))


def parted_label(label: str) -> tuple[str, str]:
    """Returns the path and the line of a node's label: `layer1.0 (model.py:42)`, or either alone."""
    match = _LABEL.match(label)
    return (match["path"] or "", match["line"]) if match else (label, "")


def candidates(
    graph: Graph, named: Sequence[tuple[str, str]] | None = None, kinds: Collection[str] = (), joins: bool = True
) -> Candidates:
    """Finds the operators of a functional graph. `named`: by node, the name and kind of the ONNX node that it
    translates; nodes of one name are one operator, if it is of `kinds`. Without names each node is one.
    `joins`: joining values (`cat`) moves data; False where all parts of the result then have one scale."""
    carriers = frozenset(i for i, call in enumerate(Float64Graph(graph).calls) if _carries(call, joins))
    groups: dict[tuple[str, int], list[int]] = {}
    for index, node in enumerate(graph.nodes):
        if any(is_wide(graph, n) for n in operands(node)) and (named is None or named[index][1] in kinds):
            groups.setdefault(("", index) if named is None else (named[index][0], -1), []).append(index)
    operators: list[Operator] = []
    owner = [-1] * len(graph.nodes)
    for nodes in groups.values():
        if carriers.issuperset(nodes):
            continue
        for index in nodes:
            owner[index] = len(operators)
        first = nodes[0]
        path, line = parted_label(graph.labels.nodes[first] if graph.labels.nodes else "")
        (name, kind), line = ((path, graph.nodes[first].op), line) if named is None else (named[first], "")
        operators.append(Operator(name, line, kind, tuple(nodes)))
    return Candidates(tuple(operators), tuple(owner), _roots(graph, owner, carriers), carriers)


def _roots(graph: Graph, owner: Sequence[int], carriers: frozenset[int]) -> tuple[frozenset[int], ...]:
    roots: list[frozenset[int]] = [frozenset()] * len(graph.inputs)
    for index, node in enumerate(graph.nodes):
        own = frozenset[int]() if owner[index] < 0 else frozenset((owner[index],))
        if owner[index] < 0 and index in carriers:
            own = own.union(*(roots[n] for n in operands(node) if is_wide(graph, n)))
        roots.extend([own] * len(node.outputs))
    return tuple(roots)
