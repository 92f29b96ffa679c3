"""Backends `tinygrad/DEVICE`: run ONNX models of PyTorch's exporter in `tinygrad.nn.onnx.OnnxRunner`, on the CPU, with
OpenCL or with WebGPU."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindgap.graph import Graph, dtype_name, numpy_dtype
from mindgap.platforms import dtype_policy, host
from mindgap.platforms.host_runtime import HostRuntime, Option, thread_count, threads
from mindgap.platforms.messages import loading_error, running_error
from mindgap.platforms.onnx.arrays import as_declared, as_real, carrier
from mindgap.platforms.onnx.messages import aten_operator
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
from mindgap_runtimes import vulkan_driver
from mindgap_runtimes.tinygrad import messages, opencl_driver, webgpu_driver
from mindgap_runtimes.tinygrad.stages import tinygrad_stage

if TYPE_CHECKING:
    from mindgap.platforms.onnx.export import Exported
import os
from collections.abc import Generator
from contextlib import contextmanager

from mindgap.platforms.standard_error import kept_standard_error


class CompilerError(Exception):
    """The compiler does not take the code that tinygrad wrote. The message is the compiler's first error."""


@contextmanager
def compiler_errors() -> Generator[None]:
    """Raises `CompilerError` for a compiler that failed in the block."""
    failed: subprocess.CalledProcessError | None = None
    with kept_standard_error() as printed:
        try:
            yield
        except subprocess.CalledProcessError as error:
            failed = error
    if failed is not None:
        lines = printed.text.splitlines()
        first = next((line.partition("error: ")[2] for line in lines if "error: " in line), str(failed))
        raise CompilerError(f"{os.path.basename(str(failed.cmd[0]))}: {first}") from failed


MODULES: Final = {"torch": "torch", "onnx": "onnx", "onnxscript": "onnxscript", "tinygrad": "tinygrad"}
_COMPILER: Final = "clang"
_OPTIMISATION: Final = Option("opt", "tinygrad's optimisation of kernels (default all)", ("all", "off"))
_OPTIONS: Final = (
    _OPTIMISATION,
    threads("threads within a kernel (default: tinygrad takes one per core)"),
)
_PACKAGES: Final = ("tinygrad", "onnx", "onnxscript")
_RUN: Final = Path(__file__).with_name("run.py")
#: numpy's name of a dtype -> tinygrad's, for those that numpy holds through ml_dtypes only.
_UNNAMED: Final = {"bfloat16": "bfloat16", "float8_e4m3fn": "fp8e4m3", "float8_e5m2": "fp8e5m2"}


class TinygradPlatform:
    """Makes runners. `threads`: None leaves the number to tinygrad. `device`: tinygrad's name of it."""

    def __init__(self, opt: str, threads: int | None, device: str = "CPU") -> None:
        self._opt = opt
        self._threads = threads
        if device == "WEBGPU":
            webgpu_driver.load()
        helpers: Any = importlib.import_module("tinygrad.helpers")
        default = str(importlib.import_module("tinygrad").Device.DEFAULT)
        if default != device:
            raise Fallback(f"tinygrad computes on {default}, not on its device {device}")
        self._facts = {"CPU": _compiler, "CL": opencl_driver.described, "WEBGPU": webgpu_driver.described}[device]()
        # The variable of the threads was CPU_COUNT before tinygrad 0.14.
        count = getattr(helpers, "NUM_CPU_THREADS", getattr(helpers, "CPU_COUNT", None))
        if int(helpers.NOOPT.value) != (opt == "off") or (
            threads is not None and threads != getattr(count, "value", 0)
        ):
            raise Fallback(f"tinygrad has not taken opt={opt}, threads={threads}")

    def describe(self) -> Mapping[str, Any]:
        return {
            **host.described(MODULES),
            **self._facts,
            WEIGHT_COPIES: 3,  # benchmarks/weight_copies.py
            "optimization": self._opt,
            "threads": self._threads,
            INFERENCE_ONLY: True,
            "exporter": "torch.onnx, operator set 20, onnxscript optimizer on",
            dtype_policy.KEY: dtype_policy.measured_dtypes(self),
        }

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Reads the model. Raises `Unsupported` for what the front end lacks, else what the export raises."""
        from mindgap.platforms.onnx.export_cache import shared_export

        if graph.grad:
            raise Unsupported("backward", "an ONNX model has no backward pass")
        return TinygradExecutable(graph, shared_export(graph, inputs))


class TinygradExecutable:
    """Runs one model. `facts`: changes that the translation made to the graph.

    Every call reads the model anew: a runner keeps values of its first call, and uses them in later ones.
    """

    def __init__(self, graph: Graph, exported: Exported) -> None:
        self.facts = exported.facts
        self._exported = exported
        self._outputs = [graph.values[number] for number in graph.outputs]
        self._file = tempfile.NamedTemporaryFile(suffix=".onnx")  # noqa: SIM115 # deleted with the executable
        self._file.write(exported.model)
        self._file.flush()
        try:
            self._require_operators(self._runner())
        except Exception as error:
            raise self._typed(error, running=False) from error

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the model. Raises `Unsupported` for a case that tinygrad lacks, `RunFailure` for other errors."""
        try:
            with compiler_errors():
                arrays = [_to_array(each) for each in self._tensors(inputs)]
        except Exception as error:
            raise self._typed(error, running=True) from error
        return [
            array if spec is None else as_declared(array, spec)
            for array, spec in zip(arrays, self._outputs, strict=True)
        ]

    def tensors(self, inputs: Sequence[Array]) -> list[Any]:
        """The results as tensors of tinygrad's, which are not computed yet. Raises as a call does."""
        try:
            with compiler_errors():
                return self._tensors(inputs)
        except Exception as error:
            raise self._typed(error, running=True) from error

    def _tensors(self, inputs: Sequence[Array]) -> list[Any]:
        feeds = zip(self._exported.inputs, self._exported.fed, strict=True)
        results = self._runner()({name: _to_tensor(as_real(inputs[number])) for name, number in feeds})
        return [results[name] for name in self._exported.outputs]

    def _runner(self) -> Any:
        return importlib.import_module("tinygrad.nn.onnx").OnnxRunner(self._file.name)

    def _require_operators(self, runner: Any) -> None:
        """Raises what the runner raises for an operator that it lacks, before anything runs."""
        for node in runner.graph_nodes:
            runner._select_op(node.op, node.opset_id)

    def _typed(self, error: Exception, *, running: bool) -> Exception:
        if isinstance(error, (MemoryError, Unsupported, RunFailure)):
            return error
        reading = messages.read(error)
        op = aten_operator(reading, self._exported.origin)
        text = f"{type(error).__name__}: {error}"
        return running_error(reading.kind, text, op) if running else loading_error(reading.kind, text, op)


def _to_tensor(array: Array) -> Any:
    tinygrad = importlib.import_module("tinygrad")
    unsigned = carrier(array.dtype)
    if unsigned == array.dtype:
        return tinygrad.Tensor(array)
    kind = _UNNAMED.get(dtype_name(array.dtype))
    if kind is None:
        raise Unsupported("model", f"tinygrad has no dtype {dtype_name(array.dtype)}")
    return tinygrad.Tensor(array.view(unsigned)).bitcast(getattr(tinygrad.dtypes, kind))


def _to_array(value: Any) -> Array:
    """Copies a tensor's bytes: `Tensor.numpy` converts dtypes that numpy lacks."""
    tinygrad = importlib.import_module("tinygrad")
    if not isinstance(value, tinygrad.Tensor):
        raise RunFailure(f"tinygrad returned a {type(value).__name__}, not a tensor")
    for name, kind in _UNNAMED.items():
        if value.dtype == getattr(tinygrad.dtypes, kind):
            dtype = numpy_dtype(name)
            raw = value.bitcast(tinygrad.dtypes.uint16 if dtype.itemsize == 2 else tinygrad.dtypes.uint8).numpy()
            return np.array(raw, order="C").view(dtype)
    return np.array(value.numpy(), order="C")


def _compiler() -> dict[str, Any]:
    version = subprocess.run([_COMPILER, "--version"], capture_output=True, text=True, check=True).stdout
    return {"compiler": version.splitlines()[0]}


def _missing() -> str:
    if importlib.util.find_spec("tinygrad") is None or shutil.which(_COMPILER) is not None:
        return ""
    return f"tinygrad compiles with {_COMPILER}, which is not on the PATH: apt install clang"


def _variables(options: Options) -> Mapping[str, str]:
    """Returns the settings that tinygrad reads when it is imported.

    `PARALLEL=0`: kernels are compiled in the worker itself, not in a pool of further processes.
    """
    variables = {"DEV": "CPU", "PARALLEL": "0"}
    if options["opt"] == "off":
        variables["NOOPT"] = "1"
    names = ("NUM_CPU_THREADS", "CPU_COUNT") if "threads" in options else ()
    return {**variables, **dict.fromkeys(names, options.get("threads", ""))}


def _missing_opencl() -> str:
    return "" if importlib.util.find_spec("tinygrad") is None else opencl_driver.missing()


def _opencl_variables(options: Options) -> Mapping[str, str]:
    """As `_variables`, with the driver. Raises `NotOnThisMachine` for one that is absent."""
    return {**_variables(options), **opencl_driver.variables(options), "DEV": "CL"}


def _file_script(options: Options, file: str) -> ScriptRunner:
    return read_runner(_RUN, _PACKAGES, "run_file", edits={'"FILE"': repr(file)})


def _missing_dawn() -> str:
    return "" if importlib.util.find_spec("tinygrad") is None else webgpu_driver.missing()


def _webgpu_variables(options: Options) -> Mapping[str, str]:
    """As `_variables`, with the driver. Raises `NotOnThisMachine` for one that is absent."""
    return {**_variables(options), **webgpu_driver.variables(options), "DEV": "WEBGPU"}


def _device_backend(
    device: str, declared: Sequence[Option], variables: Callable[[Options], Mapping[str, str]],
    missing: Callable[[], str], function: str = "run", recipe: str = "tinygrad.toml",
) -> HostRuntime:  # fmt: skip
    """Makes the backend of one of tinygrad's devices. All its options are variables of the environment."""
    modules = {**MODULES, "pydawn": "dawn-python"} if device == "WEBGPU" else MODULES
    return HostRuntime(
        modules,
        lambda options: TinygradPlatform(options["opt"], thread_count(options), device),
        declared,
        variables,
        missing,
        script=lambda options: read_runner(_RUN, _PACKAGES, function),
        stage_at_fault=tinygrad_stage if device == "CPU" else None,
        packages=_PACKAGES,
        recipe=Path(__file__).with_name(recipe),
        front_end=lambda options: "torch.onnx",
        # Dawn's library is found by a step of the script, which that of a file lacks.
        file_suffixes=() if device == "WEBGPU" else (".onnx",),
        file_script=_file_script,
    )


BACKEND: Final = _device_backend("CPU", _OPTIONS, _variables, _missing)
CL: Final = _device_backend("CL", (_OPTIMISATION, opencl_driver.DEVICE), _opencl_variables, _missing_opencl)
WEBGPU: Final = _device_backend(
    "WEBGPU",
    (_OPTIMISATION, vulkan_driver.DEVICE),
    _webgpu_variables,
    _missing_dawn,
    "run_webgpu",
    "tinygrad-webgpu.toml",
)
