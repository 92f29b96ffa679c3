"""Binds a graph to PyTorch callables, so that it runs many times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from mindgap.aten.dead_nodes import memory_groups
from mindgap.aten.operators import attribute, callable_of, facts
from mindgap.aten.state import TORCH_STATE
from mindgap.aten.tensors import extent
from mindgap.graph import Arg, Graph, Node, Ref, operands

#: Called after each node: (node index, its flattened results). May return replacements for the results.
OnNode = Callable[[int, list[torch.Tensor | None]], "list[torch.Tensor | None] | None"]
#: Runs a node instead of its operator: (node index, callable, args, kwargs) -> the operator's result.
Call = Callable[[int, Any, list[Any], dict[str, Any]], Any]


class Tape:
    """Runs a graph whose calls are resolved once. Frees values after their last use.

    Raises `UnknownOperator` when it is built.
    """

    def __init__(self, graph: Graph, device: str = "cpu") -> None:
        self.graph = graph
        self._device = torch.device(device)
        self._steps = [self._bind(node) for node in graph.nodes]
        self._dying = last_uses(graph)
        self.written_inputs = written_inputs(graph)

    def run(
        self, inputs: Sequence[torch.Tensor], on_node: OnNode | None = None, call: Call | None = None
    ) -> list[torch.Tensor]:
        """Returns the outputs for `inputs` (all of them, in order). Written inputs are cloned first.

        No other thread evaluates in float64 meanwhile: the default dtype is the whole process's.
        """
        values: list[Any] = list(inputs)
        with TORCH_STATE:
            for index in self.written_inputs:
                values[index] = clone_strided(values[index])
            for index, (function, args, kwargs) in enumerate(self._steps):
                bound = [_fill(arg, values) for arg in args]
                named = {key: _fill(arg, values) for key, arg in kwargs.items()}
                result = function(*bound, **named) if call is None else call(index, function, bound, named)
                flat = flatten_result(result)
                if on_node is not None:
                    flat = on_node(index, flat) or flat
                values.extend(flat)
                for dead in self._dying[index]:
                    values[dead] = None
        return [values[i] for i in self.graph.outputs]

    def _bind(self, node: Node) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        args = tuple(self._constant(arg) for arg in node.args)
        kwargs = {name: self._constant(arg) for name, arg in node.kwargs}
        known = facts(node.op)
        if known.takes_device and "device" not in kwargs and len(args) <= known.arguments.index("device"):
            kwargs["device"] = self._device
        return callable_of(node), args, kwargs

    def _constant(self, arg: Arg) -> Any:
        if isinstance(arg, tuple):
            items = [self._constant(item) for item in arg]
            return _Items(items) if any(isinstance(i, (Ref, _Items)) for i in items) else items
        return attribute(arg, self._device)


class _Items(list[Any]):
    """A list argument that holds references somewhere inside."""


def _fill(arg: Any, values: list[Any]) -> Any:
    if isinstance(arg, Ref):
        return values[arg.index]
    if isinstance(arg, _Items):
        return [_fill(item, values) for item in arg]
    return arg


def flatten_result(result: Any) -> list[torch.Tensor | None]:
    """Converts an operator's result to slots: tuples and lists flattened, None kept, nothing for no result."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, (tuple, list)):
        return [slot for member in result for slot in (flatten_result(member) if member is not None else [None])]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] # operators are untyped
    return [] if result is None else [None]


def written_inputs(graph: Graph) -> tuple[int, ...]:
    """Returns the numbers of the inputs that some node may write to, directly or through a view."""
    memory, writes = memory_groups(graph)
    written = set[int]().union(*writes)
    return tuple(number for number in range(len(graph.inputs)) if memory[number] in written)


def clone_strided(tensor: torch.Tensor) -> torch.Tensor:
    """Copies with the same strides, overlapping ones included."""
    cells = torch.as_strided(tensor, (extent(tensor),), (1,), tensor.storage_offset()).clone()
    return torch.as_strided(cells, tensor.shape, tensor.stride(), 0)


def last_uses(graph: Graph) -> list[list[int]]:
    """Returns, for each node, the values that no later node and no output needs."""
    kept = set(graph.outputs)
    last: dict[int, int] = {}
    number = len(graph.inputs)
    for index, node in enumerate(graph.nodes):
        for value in operands(node):
            last[value] = index
        for _ in node.outputs:
            last[number] = index
            number += 1
    dying: list[list[int]] = [[] for _ in graph.nodes]
    for value, index in last.items():
        if value not in kept and value >= len(graph.inputs):
            dying[index].append(value)
    return dying
