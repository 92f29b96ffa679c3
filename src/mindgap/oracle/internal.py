"""Which values of a graph no public function returns, and which of them a later operator computes with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mindgap.aten.internal import INTERNAL_RESULTS, KERNELS_CHOICE
from mindgap.graph import Graph, operands
from mindgap.oracle.float64 import packet_of

#: Operators that hand an operand on, all of it or a part: what they give is as internal as what they take.
HANDS_ON: Final = frozenset(
    {
        "alias", "detach", "clone", "contiguous", "lift_fresh", "lift_fresh_copy", "to", "_to_copy", "view",
        "_unsafe_view", "reshape", "t", "numpy_T", "transpose", "permute", "movedim", "squeeze", "unsqueeze", "flatten",
        "unflatten", "expand", "slice", "select", "narrow", "split", "split_with_sizes", "tensor_split", "chunk",
        "unbind", "cat", "concat", "stack",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class InternalValues:
    """Values by number. `values`: all that are internal. `read`: those that some operator computes with.

    `hidden`: those that are never judged: nothing computes with them, or each kernel fills them as it likes.
    """

    values: frozenset[int] = frozenset()
    read: frozenset[int] = frozenset()
    hidden: frozenset[int] = frozenset()


def internal_values(graph: Graph, asked: bool = False) -> InternalValues:
    """The internal values of a functional graph: results that no public function returns, and parts of them that
    views and copies hand on. `asked`: none is taken for internal, since somebody wants to hear of them."""
    found: set[int] = set()
    chosen: set[int] = set()
    for index, node in enumerate(graph.nodes):
        packet, first = packet_of(node.op), graph.first_value[index]
        found |= {first + slot for slot in INTERNAL_RESULTS.get(packet, ()) if slot < len(node.outputs)}
        chosen |= {first + slot for slot in KERNELS_CHOICE.get(packet, ()) if slot < len(node.outputs)}
        taken = set(operands(node))
        if packet in HANDS_ON and taken and taken <= found:
            found |= set(range(first, first + len(node.outputs)))
    if asked or not found:
        return InternalValues(hidden=frozenset(chosen.difference(graph.outputs)))
    read: set[int] = set()
    for index in reversed(range(len(graph.nodes))):
        node, first = graph.nodes[index], graph.first_value[index]
        made = set(range(first, first + len(node.outputs)))
        hands_on = packet_of(node.op) in HANDS_ON and bool(made) and made <= found
        if not hands_on or made & read:
            read |= set(operands(node)) & found
    return InternalValues(frozenset(found), frozenset(read), frozenset((found - read) | chosen))
