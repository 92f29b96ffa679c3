"""The order of graphs by simplicity. A reduction only ever moves down in it, so it ends."""

from __future__ import annotations

import math

from mindgap.graph import Arg, Constant, Graph, Input, Literal, TensorStore, contiguous_stride, materialise

#: Fewer nodes, outputs, inputs, elements, bytes, dimensions, strided inputs; then simpler attributes and values.
Simplicity = tuple[int, int, int, int, int, int, int, int, int]

#: Elements up to which each value counts by itself; above, by the number of elements alone.
_SINGLY = 4096


def simplicity(graph: Graph, tensors: TensorStore | None = None) -> Simplicity:
    """A tuple that is smaller for a simpler graph. `tensors`: where `Stored` recipes are looked up."""
    specs = [spec for spec in graph.values if spec is not None]
    attributes = sum(_attribute(arg) for node in graph.nodes for arg in (*node.args, *(a for _, a in node.kwargs)))
    return (
        len(graph.nodes),
        len(graph.outputs),
        len(graph.inputs),
        sum(spec.numel for spec in specs),
        sum(spec.nbytes for spec in specs),
        sum(len(spec.shape) for spec in specs),
        sum(given.spec.stride != contiguous_stride(given.spec.shape) for given in graph.inputs),
        attributes,
        sum(_values(given, tensors) for given in graph.inputs),
    )


def _attribute(arg: Arg) -> int:
    """0 for what is left out, false or zero; larger for larger numbers and longer lists."""
    match arg:
        case tuple():
            return sum(1 + _attribute(item) for item in arg)
        case bool():
            return int(arg)
        case int() | float() if arg == 0:
            return 0
        case int():
            return 1 + abs(arg).bit_length() + (arg < 0)
        case float() if math.isfinite(arg) and arg.is_integer() and abs(arg) < 2**62:
            return 2 + int(abs(arg)).bit_length() + (arg < 0)
        case float():
            return 2 + len(repr(arg))
        case complex() | str():
            return 2 + len(repr(arg))
        case _:
            return 1 if arg is not None else 0


def _values(given: Input, tensors: TensorStore | None) -> int:
    """0 for all zeros, 1 for all ones, 2 for any other constant; else at least 3, and more for longer numbers."""
    if isinstance(given.recipe, Constant):
        return min(abs(int(given.recipe.value)), 2) if given.recipe.value in (0, 1) else 2
    count = given.spec.numel
    if count > _SINGLY or not isinstance(given.recipe, Literal):
        return 3 + 24 * count
    array = materialise(given, tensors)
    return 3 + sum(len(str(value)) for value in array.ravel() if value != 0)
