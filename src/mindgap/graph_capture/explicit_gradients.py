"""Writes out the backward pass of a calls-level graph as calls.

Platforms run the backward pass of such a graph by autograd. Code that examines each operator needs the pass written
out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import TORCH_DTYPES, cotangent_of, spec_of, to_numpy
from mindgap.aten.torch_private.fake_tensors import FakeTensorMode
from mindgap.graph import Graph, Input, Labels, Literal as LiteralBytes, Recipe
from mindgap.graph_capture.kernel_recorder import KernelRecorder
from mindgap.graph_capture.neutral_settings import neutral_kernel_settings
from mindgap.graph_capture.recording import CallRecording
from mindgap.graph_capture.tracing import run_traced


def with_explicit_gradients(graph: Graph) -> Graph:
    """Returns the kernels-level graph of a calls-level graph and its backward pass; gradients are the last outputs.

    Inputs are those of `graph`, in order, then the constants fed into its outputs as cotangents. Returns `graph`
    itself if it asks for no gradient. Raises `CaptureError` if its backward pass cannot be recorded.
    """
    if not graph.grad:
        return graph
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
    with neutral_kernel_settings(gradients=True):
        running = _GraphRunner(graph)
        recorder = KernelRecorder(fake_mode, running.place)
        with fake_mode:
            fakes = [
                torch.empty_strided(i.spec.shape, i.spec.stride, dtype=TORCH_DTYPES[i.spec.dtype]) for i in graph.inputs
            ]
        for fake, given, name in zip(fakes, graph.inputs, _names(graph), strict=True):
            recorder.values.add_input(None, fake, given.role, name, given.recipe)
        result = _forward_and_backward(graph, fakes, fake_mode, recorder, running)
        with fake_mode:
            outputs = [recorder.values.number(tensor) for tensor in result]
    return _assembled(graph, recorder.values.recorded, outputs)


class _GraphRunner:
    """Runs the nodes of a graph and keeps the number of the current one."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._at = -1

    def __call__(self, index: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        self._at = index
        return function(*args, **kwargs)

    def place(self) -> str:
        """Returns the label of the current node, or its number and operator."""
        if self._at < 0:
            return ""
        labels = self._graph.labels.nodes
        return (labels[self._at] if labels else "") or f"node {self._at} ({self._graph.nodes[self._at].op})"


def _forward_and_backward(
    graph: Graph, leaves: list[torch.Tensor], fake_mode: FakeTensorMode, recorder: KernelRecorder, running: _GraphRunner
) -> list[torch.Tensor]:
    """Returns outputs, then gradients. The gradient of an input that no output depends on is zero."""
    for index in graph.grad:
        leaves[index].requires_grad_()
    outputs: list[torch.Tensor] = run_traced(lambda: Tape(graph).run(leaves, call=running), fake_mode, recorder)
    roots = [output for output in outputs if output.requires_grad]
    fed: list[torch.Tensor] = []
    for number, root in enumerate(roots):
        real = cotangent_of(tuple(root.shape), root.dtype)
        fed.append(fake_mode.from_tensor(real, static_shapes=True))
        recorder.values.add_input(real, fed[-1], "constant", f"cotangent.{number}")

    def back() -> Any:
        wanted = [leaves[i] for i in graph.grad]
        if not roots:
            return [torch.zeros_like(leaf) for leaf in wanted]
        return torch.autograd.grad(roots, wanted, fed, materialize_grads=True)

    return [*outputs, *run_traced(back, fake_mode, recorder)]


def _assembled(graph: Graph, recorded: CallRecording, outputs: list[int]) -> Graph:
    renumber = {-(i + 1): i for i in range(len(recorded.inputs))}
    slots = sum(len(call.outputs) for call in recorded.calls)
    renumber.update({slot: len(recorded.inputs) + slot for slot in range(slots)})
    names = _names(graph)
    labelled = graph.labels.outputs or tuple(f"output.{i}" for i in range(len(graph.outputs)))
    return Graph(
        inputs=tuple(
            graph.inputs[i] if i < len(graph.inputs) else Input(spec_of(s.fake), _bytes(s.real), "constant")
            for i, s in enumerate(recorded.inputs)
        ),
        nodes=tuple(call.node(renumber) for call in recorded.calls),
        outputs=tuple(renumber[number] for number in outputs),
        labels=Labels(
            tuple(s.name for s in recorded.inputs),
            tuple(c.origin for c in recorded.calls),
            (*labelled, *(f"grad:{names[i]}" for i in graph.grad)),
        ),
    )


def _names(graph: Graph) -> tuple[str, ...]:
    return graph.labels.inputs or tuple(f"input.{i}" for i in range(len(graph.inputs)))


def _bytes(real: torch.Tensor | None) -> Recipe:
    assert real is not None
    return LiteralBytes(np.ascontiguousarray(to_numpy(real)).tobytes())
