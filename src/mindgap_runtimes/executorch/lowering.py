"""Lowers a graph to an ExecuTorch program (`.pte`) as users do: `torch.export`, edge dialect, delegate, program."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from mindgap.aten.functional import functionalize
from mindgap.aten.storage import READS_STORAGE
from mindgap.aten.torch_private.overloads import OpOverload
from mindgap.graph import Graph, GraphError, TensorSpec
from mindgap.platforms.delegation import Delegation
from mindgap.platforms.messages import loading_error
from mindgap.platforms.protocol import Array, CompileFailure, Unsupported
from mindgap.platforms.pytorch.compilation.exported_program import (
    ExportedGraph,
    export_program,
    operator_named,
    quiet,
)
from mindgap_runtimes.executorch import messages

XNNPACK: Final = "XNNPACK"
KERNELS: Final = "ExecuTorch's kernels"
#: The name of the delegate's backend in a program.
_BACKEND: Final = "XnnpackBackend"


@dataclass(frozen=True)
class Lowered:
    """An ExecuTorch program. `buffer`: its bytes. `graph`: what it was made of, with the layouts of its inputs.

    `fed`: the number of the graph input behind each of its inputs.
    `kernels`: the kernels that it calls, by the runtime's names (`aten::add.out`). `called`: the operators of
    `torch.export`'s program.
    """

    buffer: bytes
    graph: Graph
    fed: tuple[int, ...]
    kernels: tuple[str, ...]
    called: tuple[str, ...]
    delegation: Delegation

    def operator(self, message: str) -> str:
        """The operator that a message is about; empty where it names none, and the program calls several."""
        return operator_named(message, self.called)


def lower(graph: Graph, inputs: Sequence[Array], delegate: str) -> Lowered:
    """Lowers the graph. `delegate`: `xnnpack` or `none`. Raises `Unsupported` or `CompileFailure`."""
    graph = with_layouts_taken(graph)
    edge, program = lower_to_edge(graph, inputs, partitioners(delegate))
    called = program.operators()
    # `to_executorch` rewrites the graph in place.
    taken = delegation(edge.exported_program().graph_module, delegate)
    with _typed_errors(called):
        made = edge.to_executorch()
    plan = made.executorch_program.execution_plan[0]
    _require_delegateedge_calls(plan, taken)
    kernels = tuple(_kernel(operator) for operator in plan.operators)
    return Lowered(bytes(made.buffer), graph, program.fed, kernels, called, taken)


def lower_to_edge(graph: Graph, inputs: Sequence[Array], partitioner: list[Any] | None) -> tuple[Any, ExportedGraph]:
    """Lowers a graph to the edge dialect, with the parts of a delegate, and exports it before.

    Returns ExecuTorch's `EdgeProgramManager`, and the exported program. Raises `Unsupported` or `CompileFailure`.
    """
    program = export_program(graph, inputs)
    exir: Any = importlib.import_module("executorch.exir")
    with _typed_errors(program.operators()):
        return exir.to_edge_transform_and_lower(program.exported, partitioner=partitioner), program


@contextmanager
def _typed_errors(called: Sequence[str]) -> Generator[None]:
    """Converts what ExecuTorch's exporter raises to a refusal or failure. `called`: the operators of the program."""
    try:
        with torch.no_grad(), quiet():
            yield
    except Exception as error:
        reading = messages.read(error)
        text = messages.exporter_text(error)
        raise loading_error(reading.kind, text, operator_named(text, called)) from error


def with_layouts_taken(graph: Graph) -> Graph:
    """Makes inputs contiguous that are neither that nor in the channels-last format: the runtime takes no others.

    What depends on strides is made explicit before. Raises `Unsupported` where it cannot be.
    """
    specs = [
        given.spec if _is_taken(given.spec) else TensorSpec.contiguous(given.spec.dtype, given.spec.shape)
        for given in graph.inputs
    ]
    if specs == [given.spec for given in graph.inputs]:
        return graph
    try:
        pure = functionalize(graph).graph
    except GraphError as error:
        raise Unsupported("model", f"its inputs' strides matter, and ExecuTorch takes none: {error}") from None
    reader = next((node.op for node in pure.nodes if node.op in READS_STORAGE), "")
    if reader:
        raise Unsupported(reader, "ExecuTorch takes contiguous inputs, and the operator reads the memory of one")
    inputs = tuple(replace(given, spec=spec) for given, spec in zip(pure.inputs, specs, strict=True))
    return replace(pure, inputs=inputs)


def _is_taken(spec: TensorSpec) -> bool:
    tensor = torch.empty_strided(spec.shape, spec.stride, device="meta")
    return tensor.is_contiguous() or (tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last))


def partitioners(delegate: str) -> list[Any] | None:
    """The partitioners of a delegate, None for `none`."""
    if delegate == "none":
        return None
    xnnpack: Any = importlib.import_module("executorch.backends.xnnpack.partition.xnnpack_partitioner")
    return [xnnpack.XnnpackPartitioner()]


def delegation(module: torch.fx.GraphModule, delegate: str) -> Delegation:
    """Counts the operators of the edge dialect inside the parts that the delegate took, and outside."""
    outside = edge_calls(module)
    if delegate == "none":
        return Delegation(KERNELS, dict(outside))
    inside, parts = Counter[str](), 0
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is torch.ops.higher_order.executorch_call_delegate:
            parts += 1
            lowered: Any = getattr(module, str(node.args[0].target))
            inside += edge_calls(lowered.original_module.graph_module)
    return Delegation(XNNPACK, dict(inside), dict(outside), KERNELS, parts)


def edge_calls(module: torch.fx.GraphModule) -> Counter[str]:
    """Counts the operators of PyTorch that a program of the edge dialect calls."""
    counts = Counter[str]()
    kind: Any = OpOverload
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        target: Any = node.target
        # An operator of the edge dialect holds the one of PyTorch that it stands for.
        operators: list[object] = [target, getattr(target, "_op", None)]
        counts.update(str(each) for each in operators if isinstance(each, kind))
    return counts


def _require_delegateedge_calls(plan: Any, taken: Delegation) -> None:
    """Raises `CompileFailure` for a program that does not call the delegate for each part that it took."""
    backends = [str(each.id) for each in plan.delegates]
    calls = sum(
        type(each.instr_args).__name__ == "DelegateCall" for chain in plan.chains for each in chain.instructions
    )
    if calls != taken.parts or any(name != _BACKEND for name in backends):
        raise CompileFailure(f"the program calls {calls} delegates of {backends}, not {taken.parts} of {_BACKEND}")


def _kernel(operator: Any) -> str:
    return f"{operator.name}.{operator.overload}" if operator.overload else str(operator.name)


def require_kernels(lowered: Lowered, registered: Collection[str]) -> None:
    """Raises `Unsupported` for a kernel that the program calls and the runtime lacks."""
    for name in lowered.kernels:
        if name not in registered:
            raise Unsupported(lowered.operator(name) or name, f"ExecuTorch's runtime has no kernel {name}")
