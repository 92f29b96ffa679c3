"""One operator applied to given tensors, with what the oracle expects of it; graphs of whole functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mindgap.aten.functional import functionalize
from mindgap.aten.operators import overload
from mindgap.aten.tape import Tape, flatten_result
from mindgap.aten.tensors import spec_of, to_numpy, to_torch, torch_dtype_name
from mindgap.graph import Arg, Constant, DType, Graph, Input, MemoryFormat, Node, Ref, TensorStore, materialise_all
from mindgap.judge.oracle import LocalExpectation, Oracle, local_expectation
from mindgap.judge.trace.single_operators import Kind, kind_of_error


@dataclass(frozen=True)
class Applied:
    """A node alone in its graph. `outputs`: what PyTorch gave, by slot; None where it gave no tensor."""

    graph: Graph
    oracle: Oracle
    expected: LocalExpectation
    outputs: list[torch.Tensor | None]

    def kind(self, result: torch.Tensor, slot: int = 0) -> Kind | None:
        """The finding that this result would be."""
        return kind_of_error(self.expected.examine(slot, to_numpy(result)))

    def kinds(self) -> list[Kind | None]:
        """The findings that PyTorch's own results would be."""
        return [self.kind(y, slot) for slot, y in enumerate(self.outputs) if y is not None]

    def hard(self, slot: int = 0) -> torch.Tensor:
        """The hard bound of a slot."""
        expectation = self.expected.hard[slot]
        assert expectation is not None
        return expectation.sigma


def applied(op: str, *args: Any, **kwargs: Any) -> Applied:
    """`op` (an overload) on tensors and constants, run by PyTorch and expected by the oracle."""
    inputs: list[torch.Tensor] = []

    def argument(value: Any) -> Arg:
        if isinstance(value, torch.Tensor):
            inputs.append(value.detach().clone())
            return Ref(len(inputs) - 1)
        if isinstance(value, (list, tuple)):
            return tuple(argument(v) for v in value)
        if isinstance(value, torch.dtype):
            return DType(torch_dtype_name(value))
        if isinstance(value, torch.memory_format):
            return MemoryFormat(str(value).removeprefix("torch."))
        return value

    positional = tuple(argument(a) for a in args)
    named = tuple(sorted((k, argument(v)) for k, v in kwargs.items()))
    with torch.no_grad():
        results = flatten_result(overload(op)(*args, **kwargs))
    node = Node(op, positional, named, tuple(spec_of(t) if t is not None else None for t in results))
    shown = tuple(len(inputs) + slot for slot, t in enumerate(results) if t is not None)
    graph = Graph(tuple(Input(spec_of(t), Constant(0)) for t in inputs), (node,), shown)
    oracle = Oracle(graph, [to_numpy(t) for t in inputs])
    return Applied(graph, oracle, local_expectation(oracle, 0), results)


@dataclass(frozen=True)
class Program:
    """A captured function in functional form, its inputs and its outputs as PyTorch computes them."""

    graph: Graph
    inputs: list[np.ndarray[Any, Any]]
    outputs: list[np.ndarray[Any, Any]]

    def oracle(self, hard: bool = False) -> Oracle:
        return Oracle(self.graph, self.inputs, hard=hard)


def program(function: Callable[..., Any], *tensors: torch.Tensor, store: Path) -> Program:
    """`function` captured on `tensors`."""
    from mindgap.graph_capture import capture

    tensor_store = TensorStore(store)
    captured = capture(function, tensors, tensors=tensor_store)
    graph = functionalize(captured).graph
    inputs = materialise_all(graph, tensor_store)
    with torch.no_grad():
        outputs = Tape(graph).run([to_torch(a, i.spec) for a, i in zip(inputs, graph.inputs, strict=True)])
    return Program(graph, inputs, [to_numpy(t).copy() for t in outputs])


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32, scale: float = 1.0, shift: float = 0.0):
    """Normal numbers, the same everywhere."""
    drawn = np.random.Generator(np.random.Philox(seed)).standard_normal(shape) * scale + shift
    return torch.from_numpy(np.asarray(drawn)).to(dtype)
