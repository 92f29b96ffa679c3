"""Finds outputs of one run that contradict each other: `isinf(y)` is false where `y` is infinite.

Each of them may be within rounding of the reference's. Whoever reads both gets an answer that no input has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from mindgap.graph import Graph, extract, operands
from mindgap.graph.compare.verdict import Contradiction
from mindgap.graph.conventions import packet_of
from mindgap.graph.operators.registry import traits
from mindgap.judge.trace.output_verdicts import same_bits
from mindgap.judge.trace.subgraphs import Array, Execute, Subgraph, fits, run_subgraphs
from mindgap.platforms.name import PlatformName

#: Tests of elements with one right answer for every operand. `signbit` of NaN and of zero is not defined alike.
_TESTS: Final = frozenset(
    {"eq", "ge", "greater", "greater_equal", "gt", "isfinite", "isinf", "isnan", "isneginf", "isposinf"}
    | {"le", "less", "less_equal", "lt", "ne", "not_equal"}
)


def contradictions(
    graph: Graph, inputs: Sequence[Array], ours: Sequence[Array], theirs: Sequence[Array], execute: Execute,
    reference: PlatformName,
) -> list[Contradiction]:  # fmt: skip
    """Returns the outputs of `ours` that the reference does not make from the others of `ours`.

    Only outputs that come from other outputs by tests of elements or by movement of data are looked at, where one of
    them differs from the reference's. `graph`: functional. `ours`, `theirs`: arrays in the order of its outputs;
    another number, shape or dtype is a separate finding.
    """
    if not len(ours) == len(theirs) == len(graph.outputs):
        return []
    shown = {number: graph.outputs.index(number) for number in graph.outputs}
    ways = [cut for number in shown for cut in _exact_way(graph, number, shown)]
    # Large outputs are compared only where such a way leads to them.
    looked_at = {number for cut in ways for number in (*cut.borders, *cut.outputs) if number in shown}
    other = {number for number in looked_at if not same_bits(ours[shown[number]], theirs[shown[number]])}
    values = {number: ours[position] for number, position in shown.items()}
    values |= {number: array for number, array in enumerate(inputs) if number not in values}
    cuts = [cut for cut in ways if other.intersection((*cut.borders, *cut.outputs)) and fits(cut, values)]
    contradictions_found: list[Contradiction] = []
    for result in run_subgraphs(cuts, values, reference, execute):
        if result.arrays is None:
            continue
        (number,) = result.cut.outputs
        wrong = _differing(ours[shown[number]], result.arrays[0])
        if wrong.any():
            contradictions_found.append(_contradiction(graph, result.cut, shown, ours, result.arrays[0], wrong))
    return contradictions_found


def _exact_way(graph: Graph, number: int, shown: dict[int, int]) -> Iterator[Subgraph]:
    """The cut of exact nodes that makes a value from other outputs and inputs, if nothing else makes it."""
    nodes: set[int] = set()
    wanted = [number]
    while wanted:
        value = wanted.pop()
        index = graph.producer[value]
        if index < 0 or (value in shown and value != number) or index in nodes:
            continue
        node = graph.nodes[index]
        if len(node.outputs) != 1 or not _exact(node.op, packet_of(node)[1]):
            return
        nodes.add(index)
        wanted += operands(node)
    if nodes:
        small, borders = extract(graph, sorted(nodes), [number])
        yield Subgraph(tuple(sorted(nodes)), small, tuple(borders), (number,))


def _exact(op: str, packet: str) -> bool:
    known = traits(op)
    settled = not (known.decides or known.random or known.returns_uninitialised or known.undefined_where)
    return packet in _TESTS or bool(known.moves_data and settled)


def _differing(ours: Array, right: Array) -> Array:
    """Where elements differ; NaN equals NaN. Nowhere where shapes or dtypes do: that is a separate finding."""
    if ours.shape != right.shape or ours.dtype != right.dtype:
        return np.zeros(ours.shape, np.bool_)
    both_nan = np.not_equal(ours, ours) & np.not_equal(right, right)
    return np.not_equal(ours, right) & ~both_nan


def _contradiction(
    graph: Graph, cut: Subgraph, shown: dict[int, int], ours: Sequence[Array], right: Array, wrong: Array,
) -> Contradiction:  # fmt: skip
    (number,) = cut.outputs
    position, of = shown[number], tuple(shown[n] for n in cut.borders if n in shown)
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    index = ", ".join(map(str, at))
    operand = "".join(f"output {n} is {ours[n][at]!s}, " for n in of if ours[n].shape == right.shape)
    example = f"at [{index}] {operand}output {position} is {ours[position][at]!s} where {right[at]!s} follows"
    return Contradiction(position, of, graph.nodes[cut.nodes[-1]].op, int(wrong.sum()), wrong.size, example)
