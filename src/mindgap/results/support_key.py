"""Defines the key of a survey answer: operator, dtype, layout."""

from __future__ import annotations

from typing import Final, NamedTuple

from mindgap.graph import Graph, Node, TensorSpec, kind_of, operands
from mindgap.graph.features import layout_class

#: The layout of a call without an operand that has dimensions.
SCALAR: Final = "scalar"
_CONTINUOUS: Final = frozenset({"float", "complex"})


class Key(NamedTuple):
    """`dtype` and `layout` are those of the call's leading operand.

    That is the first one of floats or complex numbers, or the first one where there is none; of a call without
    operands the first result counts. `layout`: `mindgap.graph.features.layout_class`, or `scalar`.
    """

    op: str
    dtype: str
    layout: str

    @property
    def packet(self) -> str:
        """Returns the overload packet: `aten.add.Tensor` -> `aten.add`."""
        return packet_of(self.op)


def packet_of(op: str) -> str:
    """Returns the overload packet of an operator name."""
    return op.rpartition(".")[0]


def leading_operand(graph: Graph, node: Node) -> int | None:
    """Returns the value number of the operand that gives a call its dtype and layout; None without operands."""
    read = operands(node)
    values = graph.values
    for number in read:
        spec = values[number]
        if spec is not None and kind_of(spec.dtype) in _CONTINUOUS:
            return number
    return read[0] if read else None


def key_of(graph: Graph, node: Node) -> Key:
    """Returns the key of one call of a graph."""
    number = leading_operand(graph, node)
    if number is None:
        made = next((spec for spec in node.outputs if spec is not None), None)
        return Key(node.op, made.dtype if made is not None else "none", SCALAR)
    spec = graph.values[number]
    return Key(node.op, spec.dtype, layout_of(spec)) if spec is not None else Key(node.op, "none", SCALAR)


def layout_of(spec: TensorSpec) -> str:
    """Returns the layout class of a tensor, or `scalar`."""
    return layout_class(spec) if spec.shape else SCALAR
