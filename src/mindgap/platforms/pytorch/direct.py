"""A graph run operator by operator: what PyTorch's eager mode does, with every value in reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from mindgap.aten.operators import facts
from mindgap.aten.tape import Tape, flatten_result
from mindgap.aten.tensors import TORCH_DTYPES, to_numpy, torch_dtype_name
from mindgap.graph import Graph
from mindgap.platforms.protocol import Array, Options, Unsupported
from mindgap.platforms.pytorch.feeds import Feeds, check_devices, declared_dtypes, given_out
from mindgap.platforms.pytorch.gradients import as_leaves, gradients
from mindgap.platforms.pytorch.refusals import refusal
from mindgap.platforms.pytorch.relay import relaid
from mindgap.platforms.pytorch.settings import in_force
from mindgap.platforms.pytorch.widen import wide, widened


def rewritten(graph: Graph, options: Options) -> Graph:
    """The graph that the options ask for. Raises `Unsupported` where it has no such form."""
    if "dtype" in options:
        graph = widened(graph)
    return relaid(graph, options["layout"]) if "layout" in options else graph


class Direct:
    """Executable and traceable. With `graph.grad` the gradients follow the outputs."""

    def __init__(self, graph: Graph, options: Options, device: str) -> None:
        self._graph = graph
        self._options = options
        self._device = device
        program = rewritten(graph, options)
        self._feeds = Feeds(program.inputs, device)
        self._tape = Tape(program, device)
        self._dtypes = declared_dtypes(graph)
        #: Options that change dtypes on the way; without them a wrong dtype is there to be seen.
        self._cast = "dtype" in options or "autocast" in options
        self._at = 0

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Outputs (and gradients) as arrays. Raises `Unsupported`, `Fallback`, or what PyTorch raises."""
        with in_force(self._options, self._device):
            tensors = self._feeds(inputs)
            try:
                found = self._backward(tensors) if self._graph.grad else self._forward(tensors)
            except Exception as error:
                self._refuse(error)
                raise
            check_devices(found, self._device)
            return given_out(found, self._dtypes, self._feeds, self._cast)

    def trace(self, inputs: Sequence[Array]) -> list[Array | None]:
        """Every output slot of every node as it was when the node returned, of the declared dtypes."""
        seen = _Seen()
        with in_force(self._options, self._device), torch.no_grad():
            try:
                self._tape.run(self._feeds(inputs), on_node=seen.record, call=self._watched(seen))
            except Exception as error:
                self._refuse(error)
                raise
        declared = self._graph.values[len(self._graph.inputs) :]
        return [
            None if array is None or spec is None else self._as_declared(array, spec.dtype)
            for array, spec in zip(seen.arrays(), declared, strict=True)
        ]

    def _forward(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad():
            return self._tape.run(tensors, call=self._counted)

    def _backward(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        with torch.enable_grad():
            leaves = as_leaves(tensors, self._graph.grad)
            outputs = self._tape.run(leaves, call=self._counted)
            self._at = -1
            return outputs + gradients(outputs, [leaves[i] for i in self._graph.grad])

    def _counted(self, index: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        self._at = index
        return function(*args, **kwargs)

    def _watched(self, seen: _Seen) -> Any:
        """Runs a node after copying what it is about to overwrite."""
        writers = [facts(node.op).mutates for node in self._graph.nodes]

        def call(index: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
            self._at = index
            for place, value in [*enumerate(args), *kwargs.items()]:
                if place in writers[index]:
                    seen.save(value)
            return function(*args, **kwargs)

        return call

    def _refuse(self, error: Exception) -> None:
        """Raises `Unsupported` in place of an error that is a refusal."""
        why = refusal(error)
        if why is not None:
            nodes = self._graph.nodes
            raise Unsupported(nodes[self._at].op if 0 <= self._at < len(nodes) else "backward", why) from error

    def _as_declared(self, tensor: torch.Tensor, dtype: str) -> Array:
        name = torch_dtype_name(tensor.dtype)
        if self._cast and name != dtype and wide(name) == wide(dtype):
            tensor = tensor.to(TORCH_DTYPES[dtype])
        array = to_numpy(tensor)
        return array.copy() if self._feeds.owns(tensor) else array


class _Seen:
    """Values in order. One is copied only when its memory is about to be written to."""

    def __init__(self) -> None:
        self._values: list[torch.Tensor | None] = []
        self._by_storage: dict[int, list[int]] = {}

    def record(self, index: int, results: list[torch.Tensor | None]) -> None:
        for result in results:
            if result is not None:
                self._by_storage.setdefault(result.untyped_storage().data_ptr(), []).append(len(self._values))
            self._values.append(result)

    def save(self, target: Any) -> None:
        """Copies every value so far that lives in the memory of `target` (a tensor, or a list of them)."""
        for tensor in flatten_result(target):
            if tensor is None:
                continue
            for number in self._by_storage.pop(tensor.untyped_storage().data_ptr(), ()):
                held = self._values[number]
                self._values[number] = None if held is None else held.clone()

    def arrays(self) -> list[torch.Tensor | None]:
        return self._values
