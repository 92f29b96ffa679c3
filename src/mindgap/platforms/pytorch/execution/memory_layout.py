"""Rewrites a graph for inputs of 4 and 5 dimensions in another memory layout."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mindgap.aten.operators import facts
from mindgap.graph import Graph, TensorSpec, contiguous_stride, refs
from mindgap.platforms.protocol import Unsupported

#: Operators that name memory rather than elements: with other strides they would mean something else.
_BY_ADDRESS: Final = (
    "aten.as_strided", "aten.set_.", "aten.resize_", "aten.view.dtype", "aten.new_empty_strided", "aten.empty_strided",
)  # fmt: skip
_VIEWS: Final = ("aten.view.default", "aten._unsafe_view.default")


def with_memory_layout(graph: Graph, layout: str) -> Graph:
    """Rewrites the graph for inputs in `layout` (`channels_last` or `contiguous`); returns it if none changes.

    `view` becomes `reshape`, which copies where a view cannot be had. Raises `Unsupported` where that copy
    would be written to, and for operators that address memory.
    """
    inputs = tuple(replace(i, spec=_laid(i.spec, layout)) for i in graph.inputs)
    if inputs == graph.inputs:
        return graph
    nodes = list(graph.nodes)
    written: list[bool] | None = None
    for index, node in enumerate(nodes):
        if node.op.startswith(_BY_ADDRESS):
            raise Unsupported(node.op, f"addresses memory, which layout={layout} moves")
        if node.op in _VIEWS:
            written = written_later(graph) if written is None else written
            if written[index]:
                raise Unsupported(node.op, f"is written through, and layout={layout} may turn it into a copy")
            nodes[index] = replace(node, op="aten.reshape.default")
    return replace(graph, inputs=inputs, nodes=tuple(nodes))


def written_later(graph: Graph) -> list[bool]:
    """Returns, for each node, whether a later node may write to memory that its results share."""
    owners: dict[int, frozenset[int]] = {i: frozenset({i}) for i in range(len(graph.inputs))}
    made: list[frozenset[int]] = []
    last_write: dict[int, int] = {}
    number = len(graph.inputs)
    for index, node in enumerate(graph.nodes):
        known = facts(node.op)
        shared: set[int] = set()
        for position, arg in [*enumerate(node.args), *node.kwargs]:
            if position in known.mutates or position in known.views:
                roots = {root for value in refs(arg) for root in owners[value]}
                shared |= roots
                if position in known.mutates:
                    last_write.update(dict.fromkeys(roots, index))
        results: set[int] = set()
        for _ in node.outputs:
            owners[number] = frozenset(shared or {number})
            results |= owners[number]
            number += 1
        made.append(frozenset(results))
    return [any(last_write.get(root, -1) > index for root in roots) for index, roots in enumerate(made)]


def _laid(spec: TensorSpec, layout: str) -> TensorSpec:
    if len(spec.shape) not in (4, 5):
        return spec
    if layout == "contiguous":
        return TensorSpec.contiguous(spec.dtype, spec.shape)
    batch, channels, *space = spec.shape
    last = contiguous_stride((batch, *space, channels))
    return TensorSpec(spec.dtype, spec.shape, (last[0], last[-1], *last[1:-1]))
