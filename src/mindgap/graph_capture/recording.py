"""Data of a recording: the inputs and calls of a program, before they become a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from mindgap.aten.operators import overload_name
from mindgap.aten.tensors import torch_dtype_name
from mindgap.graph import Arg, Device, DType, Layout, MemoryFormat, Node, Recipe, Role, TensorSpec, map_refs
from mindgap.graph.graph import DecisionKind
from mindgap.graph_capture.errors import CaptureError
from mindgap.graph_capture.origin import current_line


@dataclass(frozen=True)
class RecordedInput:
    """An input of the recording: the tensor (None for a drawn one), its fake, its role and name."""

    real: torch.Tensor | None
    fake: torch.Tensor
    role: Role
    name: str
    recipe: Recipe | None = None


@dataclass(frozen=True)
class RecordedDecision:
    """A decision by the value with this number. The other fields are those of `mindgap.graph.Decision`."""

    number: int
    kind: DecisionKind
    taken: str
    line: str
    text: str


@dataclass
class CallRecording:
    """The inputs and calls so far. A `Ref` holds -(k + 1) for input k, and n for the n-th output slot of all calls.

    `decisions`: values by which the program decided. `reads`: what Python code was given for a tensor, in order: a
    number, a truth value, or a list. `custom`: it calls an operator that the user registered.
    """

    inputs: list[RecordedInput] = field(default_factory=list[RecordedInput])
    calls: list[RecordedCall] = field(default_factory=list["RecordedCall"])
    written: set[int] = field(default_factory=set[int])
    decisions: list[RecordedDecision] = field(default_factory=list[RecordedDecision])
    reads: list[Any] = field(default_factory=list[Any])
    custom: bool = False


@dataclass(frozen=True)
class RecordedCall:
    """One recorded call. `fixed`: it depends on no argument, parameter or drawn tensor."""

    func: Any
    args: tuple[Arg, ...]
    kwargs: tuple[tuple[str, Arg], ...]
    outputs: tuple[TensorSpec | None, ...]
    origin: str
    fixed: bool
    first: int

    def node(self, renumber: dict[int, int]) -> Node:
        """Returns the call as a node with operands renumbered by `renumber`."""
        return Node(
            overload_name(self.func),
            tuple(map_refs(arg, renumber) for arg in self.args),
            tuple((name, map_refs(arg, renumber)) for name, arg in self.kwargs),
            self.outputs,
        )


def norm_with_declared_writes(bound: Mapping[str, Any]) -> Any:
    """Calls a batch norm whose schema declares its writes to running statistics, which those of other names do not."""
    names = ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps")
    return torch.ops.aten._native_batch_norm_legit.default(*(bound[name] for name in names))


def is_idle(key: str, arg: Any) -> bool:
    """Whether an operator does the same without this keyword argument."""
    return arg is None or key == "generator" or (key == "pin_memory" and not arg)


def plain_argument(arg: Any) -> Arg:
    """Returns an attribute as a graph holds it. Raises `CaptureError` for one that graphs do not hold."""
    if arg is None or isinstance(arg, (bool, int, float, complex, str)):
        return arg
    if isinstance(arg, torch.dtype):
        try:
            return DType(torch_dtype_name(arg))
        except KeyError:
            raise CaptureError(f"a tensor of dtype {arg}, which graphs do not hold", current_line()) from None
    if isinstance(arg, torch.device):
        if arg.type != "cpu":
            empty = "a tensor without values; call torch.load before the program runs, as in __init__"
            why = empty if arg.type == "meta" else "capture on the CPU; each platform puts its own device"
            raise CaptureError(f"device {arg}: {why}", current_line())
        return Device()
    if isinstance(arg, torch.memory_format):
        return MemoryFormat(str(arg).removeprefix("torch."))
    if isinstance(arg, torch.layout):
        if arg != torch.strided:
            raise CaptureError(f"layout {arg}; graphs hold strided tensors", current_line())
        return Layout("strided")
    raise CaptureError(f"an operand of type {type(arg).__name__}", current_line())
