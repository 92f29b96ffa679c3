"""Backend `iree/cpu`: compiles a graph with IREE's compiler and runs it on IREE's runtime for CPUs."""

from __future__ import annotations

import importlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Graph
from mindgap.platforms.iree import messages
from mindgap.platforms.iree.processor import require_processor
from mindgap.platforms.messages import running_error
from mindgap.platforms.onnx import host
from mindgap.platforms.protocol import (
    INFERENCE_ONLY,
    Array,
    Availability,
    Executable,
    Fallback,
    Options,
    Platform,
    PlatformError,
    RunFailure,
    Unsupported,
)

if TYPE_CHECKING:
    from mindgap.platforms.iree.compiler import Compiled

MODULES: Final = {
    "torch": "torch",
    "iree.compiler": "iree-base-compiler",
    "iree.runtime": "iree-base-runtime",
    "iree.turbine": "iree-turbine",
}
_OPTIONS: Final = {
    "target": "llvm-cpu|vmvx: machine code by LLVM (default), or IREE's interpreted portable code",
    "cpu": "processor that LLVM compiles for: generic, host, haswell, znver4, … (default: generic)",
    "opt": "default|O0|O1|O2|O3: iree-compile's --iree-opt-level (default O0, as IREE's)",
    "float64": "default|kept: as IREE has it, in float32; or in float64 (--iree-input-demote-f64-to-f32=false)",
    "parameters": "inline|external: parameters are constants of the program (default), or kept outside of it",
    "threads": "threads of IREE's task system (default: one per physical core)",
}
_LEVELS: Final = ("default", "O0", "O1", "O2", "O3")
#: IREE's runtime reads its flags from this variable when it is imported.
_FLAGS: Final = "IREE_PY_RUNTIME_FLAGS"
_NAMING_S: Final = 5.0
_CPU_NAME: Final = re.compile(r"[\w.-]+")


class IreeBackend:
    """Makes platforms `iree/cpu`."""

    @property
    def options(self) -> Mapping[str, str]:
        return _OPTIONS

    def probe(self) -> Availability:
        return host.available(MODULES)

    def environment(self, options: Options) -> Mapping[str, str]:
        _check(options)
        threads = host.thread_count(options)
        if threads is None:
            return {}
        return {_FLAGS: f"{os.environ.get(_FLAGS, '')} --task_topology_group_count={threads}".strip()}

    def open(self, options: Options) -> Platform:
        return IreePlatform(options)


def _check(options: Options) -> None:
    host.reject_unknown(options, _OPTIONS)
    target = host.choice("target", options, ("llvm-cpu", "vmvx"))
    host.choice("opt", options, _LEVELS)
    host.choice("float64", options, ("default", "kept"))
    host.choice("parameters", options, ("inline", "external"))
    cpu = options.get("cpu")
    if cpu is not None and (target != "llvm-cpu" or not _CPU_NAME.fullmatch(cpu)):
        raise PlatformError(f"option cpu={cpu}: must be a processor's name, with target=llvm-cpu")


class IreePlatform:
    """Compiles programs with one set of options, and runs them on the device `local-task`."""

    def __init__(self, options: Options) -> None:
        _check(options)
        self._options = options
        self._target = options.get("target", "llvm-cpu")
        cpu, level = options.get("cpu"), options.get("opt", "default")
        if cpu not in (None, "generic", "host"):
            require_processor(cpu)
        self._flags = [] if cpu is None else [f"--iree-llvmcpu-target-cpu={cpu}"]
        self._flags += [] if level == "default" else [f"--iree-opt-level={level}"]
        self._flags += ["--iree-input-demote-f64-to-f32=false"] if options.get("float64") == "kept" else []
        self._external = options.get("parameters") == "external"
        runtime: Any = importlib.import_module("iree.runtime")
        self._device = runtime.get_device("local-task")
        threads = host.thread_count(options)
        if threads is not None and (found := _workers(threads)) != threads:
            raise Fallback(f"IREE runs {found} threads, not {threads}")

    def describe(self) -> Mapping[str, Any]:
        """Describes the platform. `workers`: the threads of IREE's task system.

        The dtypes that it computes in are not measured: a compilation takes about half a processor second.
        """
        found = host.available(MODULES)
        return {
            "hardware": found.hardware,
            "cpu_flags": host.cpu_flags(),
            "versions": dict(found.versions),
            "target": self._target,
            "target_cpu": self._options.get("cpu", "default"),
            "optimization": self._options.get("opt", "default"),
            "float64": self._options.get("float64", "default"),
            "parameters": self._options.get("parameters", "inline"),
            "threads": host.thread_count(self._options),
            "workers": _workers(),
            INFERENCE_ONLY: True,
        }

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Compiles the graph. Raises `Unsupported` for what IREE has no lowering of, `CompileFailure` for the rest."""
        from mindgap.platforms.iree.compiler import compile_graph

        if graph.grad:
            raise Unsupported("backward", "gradients of a PyTorch graph: IREE's users run inference")
        compiled = compile_graph(graph, inputs, self._target, self._flags, external=self._external)
        return IreeExecutable(graph, self._device, compiled)


def _workers(expected: int = 0) -> int:
    """Returns the number of this process's threads that IREE's task system has named, once there are `expected`.

    A thread names itself after it has started.
    """
    until = time.monotonic() + _NAMING_S
    while (found := _named_workers()) < expected and time.monotonic() < until:
        time.sleep(0.01)
    return found


def _named_workers() -> int:
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    return sum(name.startswith("iree-worker") for name in names)


class IreeExecutable:
    """Runs one compiled program."""

    def __init__(self, graph: Graph, device: Any, compiled: Compiled) -> None:
        from mindgap.platforms.iree.module import Module

        self._graph = graph
        self._fed = compiled.fed
        self._outputs = [graph.values[number] for number in graph.outputs]
        try:
            self._module = Module(device, compiled.program, compiled.parameters, compiled.scope)
        except Exception as error:
            raise self._typed(error) from error

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the program. Raises `RunFailure`, or `Unsupported` where the runtime says that it lacks something."""
        try:
            return self._module.run([inputs[number] for number in self._fed], self._outputs)
        except Exception as error:
            raise self._typed(error) from error

    def _typed(self, error: Exception) -> Exception:
        if isinstance(error, (MemoryError, Unsupported, RunFailure)):
            return error
        found = messages.read(error)
        text = f"{type(error).__name__}: {error}"
        return running_error(found.kind, text, messages.aten_operator(found, self._graph))


BACKEND: Final = IreeBackend()
