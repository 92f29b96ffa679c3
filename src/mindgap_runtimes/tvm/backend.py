"""Backend `tvm/cpu`: compiles a graph with `tvm.compile`, and runs it on Relax's virtual machine."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mindgap.graph import Graph
from mindgap.platforms import dtype_policy, host
from mindgap.platforms.host_runtime import HostRuntime, Option, processor, thread_count, threads
from mindgap.platforms.messages import loading_error, running_error
from mindgap.platforms.protocol import (
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
from mindgap_runtimes.tvm import messages
from mindgap_runtimes.tvm.stages import tvm_stage

MODULES: Final = {"torch": "torch", "tvm": "apache-tvm", "tvm_ffi": "apache-tvm-ffi"}
_OPTIONS: Final = (
    processor(),
    Option(
        "pipeline", "what tvm.compile runs, or Relax's pipeline zero before, which folds and fuses", ("default", "zero")
    ),
    Option("opt", "LLVM's optimisation of the code (default all)", ("all", "off")),
    Option("without", "passes to leave out, by name, joined by +", (), r"[\w.]+(\+[\w.]+)*", "names joined by +"),
    threads("threads within a kernel (default: one per core, or OMP_NUM_THREADS)"),
)
_PACKAGES: Final = ("apache-tvm",)
_RUN: Final = Path(__file__).with_name("run.py")


class TvmPlatform:
    """Compiles programs with one set of options."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._tvm: Any = importlib.import_module("tvm")
        self._target = _target(self._tvm, options)
        number, started = thread_count(options), int(self._tvm.runtime.num_threads())
        if number not in (None, started):
            raise Fallback(f"TVM runs {started} threads, not {number}")

    def describe(self) -> Mapping[str, Any]:
        """Describes the platform. `runtime_threads`: how many TVM uses."""
        return {
            **host.described(MODULES),
            WEIGHT_COPIES: 0,  # benchmarks/weight_copies.py
            "target": str(self._target),
            "llvm": int(self._tvm.target.codegen.llvm_version_major()),
            "optimization": self._options.get("opt", "all"),
            "pipeline": self._options.get("pipeline", "default"),
            "threads": thread_count(self._options),
            "runtime_threads": int(self._tvm.runtime.num_threads()),
            INFERENCE_ONLY: True,
            dtype_policy.KEY: dtype_policy.measured_dtypes(self),
        }

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Compiles the graph. Raises `Unsupported` for what the front end lacks, `CompileFailure` for the rest."""
        from mindgap.platforms.pytorch.compilation.exported_program import export_program, quiet

        if graph.grad:
            raise Unsupported("backward", "gradients of a PyTorch graph: the front end takes programs of inference")
        program = export_program(graph, inputs)
        frontend: Any = importlib.import_module("tvm.relax.frontend.torch")
        try:
            with quiet():
                module = frontend.from_exported_program(program.exported)
            if self._options.get("pipeline") == "zero":
                module = self._tvm.relax.get_pipeline("zero")(module)
            without = self._options.get("without", "").split("+")
            with self._tvm.transform.PassContext(disabled_pass=[each for each in without if each]):
                compiled = self._tvm.compile(module, self._target)
            machine = self._tvm.relax.VirtualMachine(compiled, self._tvm.cpu())
        except Exception as error:
            if isinstance(error, MemoryError):
                raise
            reading = messages.read(error)
            raise loading_error(reading.kind, messages.text(error), messages.aten_operator(reading, graph)) from error
        return TvmExecutable(graph, self._tvm, machine, program.fed)


def _target(tvm: Any, options: Options) -> Any:
    """Returns the target. Raises `PlatformError` for a processor that LLVM or this machine does not know."""
    wanted: dict[str, Any] = {"kind": "llvm"}
    if options.get("opt") == "off":
        wanted["opt-level"] = 0
    cpu = options.get("cpu")
    if cpu in (None, "generic"):
        return tvm.target.Target(wanted)
    codegen = tvm.target.codegen
    native = str(codegen.llvm_get_system_cpu())
    here = tvm.target.Target({**wanted, "mcpu": native})
    if cpu == "host":
        return here
    known = [str(name) for name in codegen.llvm_get_cpu_archlist(here)]
    if cpu not in known:
        raise PlatformError(f"option cpu={cpu}: LLVM does not know it; it knows {', '.join(sorted(known))}")
    target = tvm.target.Target({**wanted, "mcpu": cpu})
    missing = sorted(map(str, codegen.llvm_get_cpu_features(target) - codegen.llvm_get_cpu_features(here)))
    missing = [name for name in missing if host.COMPUTING.match(name)]
    if missing:
        raise PlatformError(f"option cpu={cpu}: this machine lacks {', '.join(missing)}; cpu=host compiles for it")
    return target


class TvmExecutable:
    """Runs one compiled program. TVM has no delegates on the CPU: all operators become its kernels."""

    def __init__(self, graph: Graph, tvm: Any, machine: Any, fed: Sequence[int]) -> None:
        self._graph = graph
        self._tvm = tvm
        self._machine = machine
        self._fed = fed

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the program. Raises `RunFailure`, or `Unsupported` where TVM reports that it lacks something."""
        import numpy as np

        try:
            given = [self._tvm.runtime.tensor(np.array(inputs[number], order="C")) for number in self._fed]
            results = self._machine["main"](*given)
            if len(results) != len(self._graph.outputs):
                raise RunFailure(f"TVM returned {len(results)} results, not {len(self._graph.outputs)}")
            return [np.array(each.numpy(), order="C") for each in results]
        except Exception as error:
            if isinstance(error, (MemoryError, RunFailure)):
                raise
            results = messages.read(error)
            raise running_error(
                results.kind, messages.text(error), messages.aten_operator(results, self._graph)
            ) from error


def properties(options: Options) -> dict[str, str | int]:
    """Returns what the options set in TVM's target."""
    values: dict[str, str | int] = {"kind": "llvm"}
    if options.get("cpu", "generic") != "generic":
        values["mcpu"] = options["cpu"]
    return {**values, "opt-level": 0} if options.get("opt") == "off" else values


def _script(options: Options) -> ScriptRunner | None:
    """`cpu=host` is another target on each machine; `threads` is a variable of the environment."""
    if {"pipeline", "without"} & options.keys() or options.get("cpu") == "host":
        return None
    return read_runner(_RUN, _PACKAGES, properties=properties(options))


def _file_script(options: Options, file: str) -> ScriptRunner | None:
    if {"pipeline", "without"} & options.keys() or options.get("cpu") == "host":
        return None
    return read_runner(
        _RUN, (*_PACKAGES, "onnx"), "run_file", properties=properties(options), edits={'"FILE"': repr(file)}
    )


BACKEND: Final = HostRuntime(
    MODULES,
    lambda options: TvmPlatform(options),
    _OPTIONS,
    lambda options: {"TVM_NUM_THREADS": options["threads"]} if "threads" in options else {},
    script=_script,
    stage_at_fault=tvm_stage,
    packages=_PACKAGES,
    recipe=Path(__file__).with_name("tvm.toml"),
    front_end=lambda options: "tvm",
    file_suffixes=(".onnx",),
    file_script=_file_script,
)
