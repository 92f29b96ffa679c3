"""Backend `executorch/cpu`: lowers a graph to a program, and runs it in ExecuTorch's Python runtime."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindgap.graph import Graph
from mindgap.platforms import dtype_policy, host
from mindgap.platforms.host_runtime import HostRuntime, Option, thread_count, threads
from mindgap.platforms.messages import loading_error, running_error
from mindgap.platforms.protocol import (
    INFERENCE_ONLY,
    WEIGHT_COPIES,
    Array,
    Executable,
    Fallback,
    Options,
    RunFailure,
    Unsupported,
)
from mindgap.platforms.script_runner import ScriptRunner, read_runner
from mindgap_runtimes.executorch import messages
from mindgap_runtimes.executorch.stages import executorch_stage

if TYPE_CHECKING:
    from mindgap_runtimes.executorch.lowering import Lowered
import contextlib
import os
import sys
import tempfile


def printed_by(call: Callable[[], object]) -> str:
    """Makes a call that has failed once more, and returns what it prints on standard error.

    The first call prints to the worker's standard error, where a crash leaves its last words.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 2)
        try:
            with contextlib.suppress(Exception):
                call()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        printed.seek(0)
        return printed.read().decode(errors="replace")


MODULES: Final = {"torch": "torch", "executorch": "executorch"}
_OPTIONS: Final = (
    Option(
        "delegate",
        "XnnpackPartitioner, with portable kernels for the rest (default), or portable kernels",
        ("xnnpack", "none"),
    ),
    threads("threads of the runtime's pool (default: one per core)"),
)
_PACKAGES: Final = ("executorch",)


class ExecutorchPlatform:
    """Lowers and loads programs. `threads`: None leaves the number to the runtime."""

    def __init__(self, delegate: str, threads: int | None) -> None:
        self._delegate = delegate
        self._threads = threads
        self._library: Any = importlib.import_module("executorch.extension.pybindings.portable_lib")
        self._runtime: Any = importlib.import_module("executorch.runtime").Runtime.get()
        if threads is not None:
            self._library._unsafe_reset_threadpool(threads)
            if self._library._threadpool_get_thread_count() != threads:
                raise Fallback(f"ExecuTorch has not taken threads={threads}")
        if delegate == "xnnpack" and not self._runtime.backend_registry.is_available("XnnpackBackend"):
            raise Fallback("this build of ExecuTorch's runtime has no XNNPACK")

    def describe(self) -> Mapping[str, Any]:
        return {
            **host.described(MODULES),
            "delegate": self._delegate,
            "threads": self._threads,
            "pool_threads": int(self._library._threadpool_get_thread_count()),
            "kernels": len(self._runtime.operator_registry.operator_names),
            INFERENCE_ONLY: True,
            WEIGHT_COPIES: 4,  # benchmarks/weight_copies.py
            "exporter": "torch.export, to_edge_transform_and_lower, to_executorch",
            dtype_policy.KEY: dtype_policy.measured_dtypes(self),
        }

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Lowers and loads the graph. Raises `Unsupported` for what ExecuTorch lacks, else `CompileFailure`."""
        from mindgap_runtimes.executorch.lowering import lower, require_kernels

        if graph.grad:
            raise Unsupported("backward", "a program of ExecuTorch's inference runtime has no backward pass")
        lowered = lower(graph, inputs, self._delegate)
        require_kernels(lowered, self._runtime.operator_registry.operator_names)
        return ExecutorchExecutable(self._runtime, lowered)


class ExecutorchExecutable:
    """Runs one program. `facts`: which operators the delegate took.

    The runtime crashes unless the program's bytes, the program and the method live as long as the method is called.
    """

    def __init__(self, runtime: Any, lowered: Lowered) -> None:
        self.facts = lowered.delegation.as_fact()
        self._lowered = lowered
        try:
            self._program: Any = runtime.load_program(lowered.buffer)
            self._method: Any = self._program.load_method("forward")
        except Exception as error:
            raise self._typed(error, lambda: runtime.load_program(lowered.buffer).load_method("forward")) from error

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the program. Raises `Unsupported` where a kernel reports that it lacks the case, else `RunFailure`."""
        from mindgap.aten.tensors import input_tensors

        tensors = input_tensors(self._lowered.graph, inputs)
        fed = [tensors[number] for number in self._lowered.fed]
        try:
            results = self._method.execute(fed)
        except Exception as error:
            raise self._typed(error, lambda: self._method.execute(fed), running=True) from error
        return [_to_array(value) for value in results]

    def _typed(self, error: Exception, again: Callable[[], object], *, running: bool = False) -> Exception:
        if isinstance(error, MemoryError):
            return error
        text = messages.runtime_text(error, printed_by(again))
        reading = messages.read_runtime(text)
        op = self._lowered.operator(text)
        return running_error(reading.kind, text, op) if running else loading_error(reading.kind, text, op)


def _to_array(value: Any) -> Array:
    import torch

    from mindgap.aten.tensors import to_numpy

    if not isinstance(value, torch.Tensor):
        raise RunFailure(f"ExecuTorch returned a {type(value).__name__}, not a tensor")
    return np.array(to_numpy(value), order="C")


def _script(options: Options) -> ScriptRunner:
    """The script takes the runtime's number of threads."""
    edits = {"partitioner=[XnnpackPartitioner()]": "partitioner=None"} if "delegate" in options else {}
    return read_runner(Path(__file__).with_name("run.py"), _PACKAGES, edits=edits, diagnostics=True)


def _file_script(options: Options, file: str) -> ScriptRunner:
    edits = {'"FILE"': repr(file)}
    return read_runner(Path(__file__).with_name("run.py"), _PACKAGES, "run_file", edits=edits, diagnostics=True)


BACKEND: Final = HostRuntime(
    MODULES,
    lambda options: ExecutorchPlatform(options["delegate"], thread_count(options)),
    _OPTIONS,
    script=_script,
    stage_at_fault=executorch_stage,
    packages=_PACKAGES,
    recipe=Path(__file__).with_name("executorch.toml"),
    file_suffixes=(".pte",),
    file_script=_file_script,
)
