"""Rewrites a graph for inputs of 4 and 5 dimensions in another memory layout."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mindgap.aten.dead_nodes import memory_groups
from mindgap.graph import Graph, TensorSpec, contiguous_stride
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
    memory, writes = memory_groups(graph)
    last_write = {group: index for index, groups in enumerate(writes) for group in groups}
    return [
        any(last_write.get(memory[value], -1) > index for value in graph.results(index))
        for index in range(len(graph.nodes))
    ]


def _laid(spec: TensorSpec, layout: str) -> TensorSpec:
    if len(spec.shape) not in (4, 5):
        return spec
    if layout == "contiguous":
        return TensorSpec.contiguous(spec.dtype, spec.shape)
    batch, channels, *space = spec.shape
    last = contiguous_stride((batch, *space, channels))
    return TensorSpec(spec.dtype, spec.shape, (last[0], last[-1], *last[1:-1]))
