"""Runs a graph that was compiled as a whole, and classifies compile errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx

from mindgap.aten.tape import clone_strided, written_inputs
from mindgap.graph import Graph
from mindgap.platforms.delegation import Delegation
from mindgap.platforms.protocol import Array, CompileFailure, Executable, Fallback, Options, Unsupported
from mindgap.platforms.pytorch.compilation.fx_module import foldable, to_fx
from mindgap.platforms.pytorch.device.devices import TorchDevice
from mindgap.platforms.pytorch.device.runtime import synchronise, watched
from mindgap.platforms.pytorch.device.settings import in_force
from mindgap.platforms.pytorch.execution.eager_executable import EagerExecutable, as_leaves, gradients
from mindgap.platforms.pytorch.execution.input_binding import (
    InputBinder,
    check_devices,
    declared_dtypes,
    given_out,
    same_bytes,
)
from mindgap.platforms.pytorch.refusals import causes, message_of, refusal, refused_operator

#: What runs a whole graph: the inputs that were not folded -> the outputs.
Program = Callable[..., Sequence[torch.Tensor]]
#: Makes one: (module, its inputs, a whole run forward and backward with a program) -> program.
Compile = Callable[[torch.fx.GraphModule, Sequence[torch.Tensor], Callable[[Program], Any]], Program]

_LONGEST_MESSAGE = 2000
#: What holds for a graph however it is run; the others are the compilers' own.
_UNCOMPILED = frozenset(
    {"matmul", "onednn", "tf32", "hf32", "sdpa", "deterministic", "cudnn", "miopen", "precision",
     "fp16_reduction", "bf16_reduction", "fp16_accumulation"}
)  # fmt: skip


class CompiledExecutable:
    """An executable around a program. With `graph.grad` the gradients follow the outputs."""

    def __init__(
        self, graph: Graph, device: TorchDevice, options: Options, inputs: Sequence[Array], fold: bool
    ) -> None:
        self._graph = graph
        self._device = device
        self._options = options
        self._feeds = InputBinder(graph.inputs, device.torch_name)
        self._written = frozenset(written_inputs(graph))
        self._dtypes = declared_dtypes(graph)
        chosen = foldable(graph) if fold else frozenset[int]()
        self._folded = {i: inputs[i] for i in sorted(chosen)}
        self._program: Program | None = None
        self._names = [node.op for node in graph.nodes]
        self.facts: dict[str, Any] = {}

    def compile(self, compile_program: Compile, inputs: Sequence[Array]) -> None:
        """Builds the program and runs it until it is optimised. Raises the compiler's errors."""
        with in_force(self._options, self._device), watched(self._device, operators=self._names) as seen:
            tensors = self._feeds(inputs)
            # Inputs are on xla:0, and Dynamo takes "xla" for another device.
            place = "xla:0" if self._device.name == "xla" else self._device.torch_name
            module = to_fx(self._graph, place, {i: tensors[i] for i in self._folded})
            # Compiling may run the program, and so write to what it writes to.
            sample = [
                clone_strided(tensor) if i in self._written else tensor
                for i, tensor in enumerate(tensors)
                if i not in self._folded
            ]
            self._program = compile_program(module, sample, lambda program: self._run(program, tensors))
        if seen.lowered:
            self.facts |= Delegation(self._device.maker, seen.lowered).as_fact()

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the program. Raises `ValueError` if an input that was folded at load has other bytes now."""
        if self._program is None:
            raise RuntimeError("the graph was not compiled")
        for index, held in self._folded.items():
            if inputs[index] is not held:
                if not same_bytes(inputs[index], held):
                    raise ValueError(f"input {index} was folded into the program; load the graph anew to change it")
                self._folded[index] = inputs[index]
        with in_force(self._options, self._device):
            with watched(self._device, operators=self._names):
                results = self._run(self._program, self._feeds(inputs))
                synchronise(self._device)
            check_devices(results, self._device.torch_name, len(self._graph.grad))
            return given_out(results, self._dtypes, self._feeds, cast=False)

    def _run(self, program: Program, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        graph = self._graph
        with torch.set_grad_enabled(bool(graph.grad)):
            leaves = as_leaves(tensors, graph.grad)
            arguments = [
                clone_strided(leaf) if index in self._written else leaf
                for index, leaf in enumerate(leaves)
                if index not in self._folded
            ]
            outputs = list(program(*arguments))
            if graph.grad:
                outputs += gradients(outputs, [leaves[i] for i in graph.grad])
            return outputs


class Failing:
    """An executable for a program that raises by itself, compiled or not: it raises the same when run."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        raise self._error


def load(
    graph: Graph, device: TorchDevice, options: Options, inputs: Sequence[Array], compile_program: Compile, fold: bool
) -> Executable:
    """Compiles the graph. Raises `Unsupported`, `CompileFailure` or `Fallback`.

    A graph that fails uncompiled too is no failure to compile: it loads, and raises its error when run.
    """
    executable = CompiledExecutable(graph, device, options, inputs, fold)
    try:
        executable.compile(compile_program, inputs)
    except (Unsupported, Fallback, MemoryError):
        raise
    except Exception as error:
        own = _own_error(graph, device, options, inputs)
        if own is not None:
            return Failing(own)
        why = refusal(error)
        if why is not None:
            raise Unsupported(refused_operator(error) or "the graph", why) from error
        raise CompileFailure(error_summary(error), refused_operator(error) or "") from error
    return executable


def error_summary(error: BaseException) -> str:
    """Returns the outermost error's class and the innermost message, cut to fit a table."""
    innermost = causes(error)[-1]
    kinds = dict.fromkeys((type(error).__name__, type(innermost).__name__))
    return f"{' < '.join(kinds)}: {message_of(innermost)[:_LONGEST_MESSAGE]}"


def _own_error(
    graph: Graph, device: TorchDevice, options: Mapping[str, str], inputs: Sequence[Array]
) -> Exception | None:
    """Returns the graph's error when it runs operator by operator. Raises `Unsupported` if that is a refusal."""
    try:
        EagerExecutable(graph, {k: v for k, v in options.items() if k in _UNCOMPILED}, device)(inputs)
    except (Unsupported, Fallback):
        raise
    except Exception as error:
        return error
    return None
