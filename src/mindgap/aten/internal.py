"""Finds results that no public function returns: values that a kernel saves for its backward pass.

`internal_values` finds them in a graph, and which of them a later operator computes with.
"""

from __future__ import annotations

from dataclasses import dataclass

from mindgap.graph import Graph, operands
from mindgap.graph.operators import traits


@dataclass(frozen=True, slots=True)
class InternalValues:
    """Numbers of internal values. `values`: all of them. `read`: those that some operator computes with.

    `hidden`: those that are never judged: nothing computes with them, or each kernel fills them as it likes.
    """

    values: frozenset[int] = frozenset()
    read: frozenset[int] = frozenset()
    hidden: frozenset[int] = frozenset()


def internal_values(graph: Graph, judged: bool = False) -> InternalValues:
    """Returns the internal values of a functional graph: results that no public function returns, and their views
    and copies. `judged`: treats none as internal, so that all are judged."""
    internal: set[int] = set()
    chosen: set[int] = set()
    for index, node in enumerate(graph.nodes):
        known, first = traits(node.op), graph.first_value[index]
        internal |= {first + slot for slot in known.internal_outputs if slot < len(node.outputs)}
        chosen |= {first + slot for slot in known.kernel_chosen_outputs if slot < len(node.outputs)}
        taken = set(operands(node))
        if known.hands_on and taken and taken <= internal:
            internal |= set(graph.results(index))
    if judged or not internal:
        return InternalValues(hidden=frozenset(chosen.difference(graph.outputs)))
    read: set[int] = set()
    for index in reversed(range(len(graph.nodes))):
        node, made = graph.nodes[index], set(graph.results(index))
        hands_on = traits(node.op).hands_on and bool(made) and made <= internal
        if not hands_on or made & read:
            read |= set(operands(node)) & internal
    return InternalValues(frozenset(internal), frozenset(read), frozenset((internal - read) | chosen))
