"""Backends `iree/cpu` and `iree/vulkan`: compile a graph with IREE's compiler and run it on IREE's runtime, on CPUs or
with Vulkan."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Graph
from mindgap.platforms import host
from mindgap.platforms.host_runtime import HostRuntime, Option, processor, thread_count, threads
from mindgap.platforms.messages import running_error
from mindgap.platforms.protocol import (
    ACCURACY,
    INFERENCE_ONLY,
    WEIGHT_COPIES,
    Array,
    Executable,
    Fallback,
    Options,
    PlatformError,
    RunFailure,
    Unsupported,
)
from mindgap.platforms.script_runner import ScriptRunner, read_runner
from mindgap_runtimes import vulkan_driver
from mindgap_runtimes.iree import messages
from mindgap_runtimes.iree.processor import require_processor
from mindgap_runtimes.iree.stages import iree_stage

if TYPE_CHECKING:
    from mindgap_runtimes.iree.compiler import CompiledGraph

MODULES: Final = {
    "torch": "torch",
    "iree.compiler": "iree-base-compiler",
    "iree.runtime": "iree-base-runtime",
    "iree.turbine": "iree-turbine",
}
#: What the option `cpu` must be.
_PROCESSOR: Final = "a processor's name, with target=llvm-cpu"
_COMPILED: Final = (
    Option("opt", "iree-compile's --iree-opt-level (default O0, as IREE's)", ("default", "O0", "O1", "O2", "O3")),
    Option(
        "float64",
        "as IREE has it, in float32; or in float64 (--iree-input-demote-f64-to-f32=false)",
        ("default", "kept"),
    ),
    Option(
        "without",
        "flags of iree-compile to set false, joined by +",
        (),
        r"iree-[\w-]+(\+iree-[\w-]+)*",
        "flags joined by +",
    ),
    Option(
        "parameters",
        "parameters are constants of the program (default), or kept outside of it",
        ("inline", "external"),
    ),
)
_OPTIONS: Final = (
    Option("target", "machine code by LLVM (default), or IREE's interpreted portable code", ("llvm-cpu", "vmvx")),
    processor(_PROCESSOR),
    *_COMPILED,
    threads("threads of IREE's task system (default: one per physical core)"),
)
#: The target of programs for Vulkan.
_SPIRV: Final = "vulkan-spirv"
_PACKAGES: Final = ("iree-base-compiler", "iree-base-runtime", "iree-turbine")
#: The flag of IREE's compiler for the option `target`.
_TARGETS: Final = "iree-hal-target-backends"
#: IREE's runtime reads its flags from this variable when it is imported.
_FLAGS: Final = "IREE_PY_RUNTIME_FLAGS"
_NAMING_S: Final = 5.0


class IreePlatform:
    """Compiles programs with one set of options, and runs them on the device `local-task`, or on Vulkan's first."""

    def __init__(self, options: Options, *, vulkan: bool = False) -> None:
        """Raises `Fallback` for a setting that is not in force, and where Vulkan has no loader, driver or device."""
        self._options = options
        self._target = _SPIRV if vulkan else options.get("target", "llvm-cpu")
        self._facts = {**vulkan_driver.described(), ACCURACY: "SPIR-V"} if vulkan else dict[str, Any]()
        cpu = options.get("cpu")
        if cpu not in (None, "generic", "host"):
            require_processor(cpu)
        self._flags = [f"--{name}={value}" for name, value in properties(options).items() if name != _TARGETS]
        self._external = options.get("parameters") == "external"
        runtime: Any = importlib.import_module("iree.runtime")
        try:
            self._device = runtime.get_device("vulkan" if vulkan else "local-task")
        except Exception as error:
            raise Fallback(f"IREE opens no device: {str(error).strip()}") from error
        number = thread_count(options)
        if number is not None and (workers := _workers(number)) != number:
            raise Fallback(f"IREE runs {workers} threads, not {number}")

    def describe(self) -> Mapping[str, Any]:
        """Describes the platform. `workers`: the threads of IREE's task system.

        The dtypes that it computes in are not measured: a compilation takes about half a processor second.
        """
        return {
            **host.described(MODULES),
            WEIGHT_COPIES: 5,  # benchmarks/weight_copies.py
            **self._facts,
            "target": self._target,
            "target_cpu": self._options.get("cpu", "default"),
            "optimization": self._options.get("opt", "default"),
            "float64": self._options.get("float64", "default"),
            "parameters": self._options.get("parameters", "inline"),
            "threads": thread_count(self._options),
            "workers": _workers(),
            INFERENCE_ONLY: True,
        }

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Compiles the graph. Raises `Unsupported` for what IREE has no lowering of, `CompileFailure` for the rest."""
        from mindgap_runtimes.iree.compiler import compile_graph

        if graph.grad:
            raise Unsupported("backward", "gradients of a PyTorch graph: IREE's users run inference")
        compiled = compile_graph(graph, inputs, self._target, self._flags, external=self._external)
        return IreeExecutable(graph, self._device, compiled)


def _workers(expected: int = 0) -> int:
    """Returns the number of this process's threads that IREE's task system has named, once there are `expected`.

    A thread names itself after it has started.
    """
    until = time.monotonic() + _NAMING_S
    while (count := _named_workers()) < expected and time.monotonic() < until:
        time.sleep(0.01)
    return count


def _named_workers() -> int:
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    return sum(name.startswith("iree-worker") for name in names)


class IreeExecutable:
    """Runs one compiled program."""

    def __init__(self, graph: Graph, device: Any, compiled: CompiledGraph) -> None:
        from mindgap_runtimes.iree.module import Module

        self._graph = graph
        self._fed = compiled.fed
        self._outputs = [graph.values[number] for number in graph.outputs]
        try:
            self._module = Module(device, compiled.program, compiled.parameters, compiled.scope)
        except Exception as error:
            raise self._typed(error) from error

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the program. Raises `RunFailure`, or `Unsupported` where the runtime reports that it lacks something."""
        try:
            return self._module.run([inputs[number] for number in self._fed], self._outputs)
        except Exception as error:
            raise self._typed(error) from error

    def _typed(self, error: Exception) -> Exception:
        if isinstance(error, (MemoryError, Unsupported, RunFailure)):
            return error
        reading = messages.read(error)
        text = f"{type(error).__name__}: {error}"
        return running_error(reading.kind, text, messages.aten_operator(reading, self._graph))


def properties(options: Options) -> dict[str, str | int]:
    """Returns what the options set in IREE's compiler, by its flags."""
    values: dict[str, str | int] = {_TARGETS: options.get("target", "llvm-cpu")}
    if options.get("float64") == "kept":
        values["iree-input-demote-f64-to-f32"] = "false"
    if "cpu" in options:
        values["iree-llvmcpu-target-cpu"] = options["cpu"]
    if options.get("opt", "default") != "default":
        values["iree-opt-level"] = options["opt"]
    return {**values, **dict.fromkeys(filter(None, options.get("without", "").split("+")), "false")}


def _variables(options: Options) -> Mapping[str, str]:
    if "cpu" in options and options["target"] != "llvm-cpu":
        raise PlatformError(f"option cpu={options['cpu']}: must be {_PROCESSOR}")
    if "threads" not in options:
        return {}
    return {_FLAGS: f"{os.environ.get(_FLAGS, '')} --task_topology_group_count={options['threads']}".strip()}


def _script(options: Options) -> ScriptRunner | None:
    """`threads` is a variable of the environment."""
    if "parameters" in options:
        return None
    file = Path(__file__).with_name("run.py")
    return read_runner(file, _PACKAGES, properties=properties(options), diagnostics=True)


def _vulkan_script(options: Options) -> ScriptRunner | None:
    if "parameters" in options:
        return None
    given = {**properties(options), _TARGETS: _SPIRV}
    return read_runner(Path(__file__).with_name("run.py"), _PACKAGES, "run_vulkan", properties=given, diagnostics=True)


BACKEND: Final = HostRuntime(
    MODULES,
    lambda options: IreePlatform(options),
    _OPTIONS,
    _variables,
    script=_script,
    stage_at_fault=iree_stage,
    packages=_PACKAGES,
    recipe=Path(__file__).with_name("iree.toml"),
)
VULKAN: Final = HostRuntime(
    MODULES,
    lambda options: IreePlatform(options, vulkan=True),
    (*_COMPILED, vulkan_driver.DEVICE),
    variables=vulkan_driver.variables_with_loader,
    script=_vulkan_script,
    packages=_PACKAGES,
    recipe=Path(__file__).with_name("iree.toml"),
)
