"""Runs the program that PyTorch's ONNX exporter translates, after its decompositions, in eager PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from mindgap.aten.functional import functionalize
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import Graph, GraphError
from mindgap.platforms.onnx.fx_program import to_fx
from mindgap.platforms.protocol import Array, Unsupported


class DecomposedProgram:
    """An executable: the exporter's decompositions and explicit casts, run operator by operator."""

    def __init__(self, graph: Graph) -> None:
        """Decomposes the graph. Raises `Unsupported` or `CompileFailure` as the export does."""
        try:
            pure = functionalize(graph)
        except GraphError as error:
            raise Unsupported("model", str(error)) from None
        self._inputs = graph.inputs
        self._program = to_fx(pure.graph, [graph.nodes[index].op for index in pure.origin])
        self._outputs = pure.graph.outputs

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        given = iter([to_torch(array, each.spec) for array, each in zip(inputs, self._inputs, strict=True)])
        values: dict[torch.fx.Node, Any] = {}
        with torch.no_grad():
            for node in self._program.graph.nodes:
                values[node] = _run(node, values, given)
        results = [self._program.values[number] for number in self._outputs]
        return [to_numpy(values[node]) for node in results if node is not None]


def _run(node: torch.fx.Node, found: dict[torch.fx.Node, Any], given: Any) -> Any:
    if node.op == "placeholder":
        return next(given)
    if node.op == "get_attr":
        return node.meta["val"]
    target: Any = node.target
    args = torch.fx.map_arg(node.args, found.__getitem__)
    kwargs = torch.fx.map_arg(node.kwargs, found.__getitem__)
    return target(*args, **kwargs)
