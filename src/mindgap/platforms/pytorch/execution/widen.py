"""Rewrites a graph so that every float dtype is float64 and every complex dtype complex128."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mindgap.graph import Arg, DType, Graph, Node, TensorSpec, kind_of
from mindgap.platforms.protocol import Unsupported

#: Operators whose meaning is in the bits of a narrow dtype, so that they say nothing in float64.
_NARROW: Final = ("aten.view.dtype", "aten._scaled_mm", "aten.nextafter", "aten.frexp", "aten._weight_int")
#: `_softmax(x, dim, half_to_float)`: the flag is for half-precision operands alone.
_HALF_TO_FLOAT: Final = ("aten._softmax.", "aten._log_softmax.")


def widened(graph: Graph) -> Graph:
    """Rewrites specs and dtype arguments to float64. Raises `Unsupported` if that has no meaning."""
    inputs = tuple(replace(i, spec=_spec(i.spec)) for i in graph.inputs)
    return replace(graph, inputs=inputs, nodes=tuple(_node(node) for node in graph.nodes))


def _node(node: Node) -> Node:
    if node.op.startswith(_NARROW):
        raise Unsupported(node.op, "depends on the bits of its dtype, so it cannot be computed in float64")
    args = tuple(_arg(arg) for arg in node.args)
    if node.op.startswith(_HALF_TO_FLOAT) and len(args) > 2:
        args = (*args[:2], False, *args[3:])
    kwargs = tuple((name, _arg(arg)) for name, arg in node.kwargs)
    return replace(node, args=args, kwargs=kwargs, outputs=tuple(s if s is None else _spec(s) for s in node.outputs))


def _arg(arg: Arg) -> Arg:
    if isinstance(arg, DType):
        return DType(wide(arg.name))
    if isinstance(arg, tuple):
        return tuple(_arg(item) for item in arg)
    return arg


def _spec(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(wide(spec.dtype), spec.shape, spec.stride)


def wide(dtype: str) -> str:
    """Returns float64 for a float, complex128 for a complex, else the same dtype."""
    return {"float": "float64", "complex": "complex128"}.get(kind_of(dtype), dtype)
