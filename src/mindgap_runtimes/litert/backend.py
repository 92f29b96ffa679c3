"""Backend `litert/cpu`: converts a graph with litert-torch, and runs the model in LiteRT's interpreter."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
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
    CompileFailure,
    Executable,
    Options,
    Unsupported,
)
from mindgap.platforms.script_runner import ScriptRunner, read_runner
from mindgap_runtimes.litert import messages
from mindgap_runtimes.litert.delegated_nodes import delegation
from mindgap_runtimes.litert.stages import litert_stage

if TYPE_CHECKING:
    from mindgap_runtimes.litert.conversion import LiteRtModel

MODULES: Final = {"torch": "torch", "litert_torch": "litert-torch", "ai_edge_litert": "ai-edge-litert"}
_OPTIONS: Final = (
    Option(
        "delegate", "the interpreter's default delegate (default), or LiteRT's own kernels alone", ("xnnpack", "none")
    ),
    Option(
        "kernels",
        "LiteRT's optimised kernels (default), or its reference kernels without a delegate",
        ("optimised", "reference"),
    ),
    Option("x64", "litert-torch makes 32 bits of 64 (its default), or keeps 64 bits (enable_x64=True)", ("off", "on")),
    threads("threads of the interpreter (default: its own, 1)"),
)
_PACKAGES: Final = ("litert-torch", "ai-edge-litert")
_FILE_PACKAGES: Final = ("ai-edge-litert",)
_RUN: Final = Path(__file__).with_name("run.py")
SIGNATURE: Final = "serving_default"


#: The choice of kernels that leaves a delegate out.
_REFERENCE: Final = "reference"


class LitertPlatform:
    """Converts graphs and makes interpreters. `threads`: None leaves the number to the interpreter."""

    def __init__(self, delegate: str, x64: bool, threads: int | None, kernels: str = "optimised") -> None:
        self._delegate = "none" if kernels == _REFERENCE else delegate
        self._kernels = kernels
        self._x64 = x64
        self._threads = threads
        self._library: Any = importlib.import_module("ai_edge_litert.interpreter")

    def describe(self) -> Mapping[str, Any]:
        return {
            **host.described(MODULES),
            "delegate": self._delegate,
            "kernels": self._kernels,
            "x64": self._x64,
            "threads": self._threads,
            INFERENCE_ONLY: True,
            WEIGHT_COPIES: 4,  # benchmarks/weight_copies.py
            "exporter": "torch.export, litert_torch.convert",
            dtype_policy.KEY: dtype_policy.measured_dtypes(self),
        }

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Converts and loads the graph. Raises `Unsupported` for what LiteRT lacks, else `CompileFailure`."""
        from mindgap_runtimes.litert.conversion import convert

        if graph.grad:
            raise Unsupported("backward", "a LiteRT model has no backward pass")
        return LitertExecutable(self._interpreter, convert(graph, inputs, x64=self._x64), self._delegate)

    def _interpreter(self, model: bytes) -> Any:
        """Makes an interpreter as `litert_torch.model.LiteRTModel` does, or one without the delegate.

        With the flag `experimental_default_delegate_latest_features` every resolver brings the delegate.
        """
        resolvers: Any = self._library.OpResolverType
        settings = (
            {"experimental_default_delegate_latest_features": True}
            if self._delegate == "xnnpack"
            else {"experimental_op_resolver_type": getattr(resolvers, _resolver(self._delegate, self._kernels))}
        )
        return self._library.Interpreter(model_content=model, num_threads=self._threads, **settings)


def _resolver(delegate: str, kernels: str) -> str:
    """The name of the interpreter's choice of kernels (`OpResolverType`)."""
    if kernels == _REFERENCE:
        return "BUILTIN_REF"
    return "AUTO" if delegate == "xnnpack" else "BUILTIN_WITHOUT_DEFAULT_DELEGATES"


class LitertExecutable:
    """Runs one model. `facts`: which of its operators the delegate took."""

    def __init__(self, make: Any, converted: LiteRtModel, delegate: str) -> None:
        """Raises `Unsupported` or `CompileFailure` for a model that the interpreter does not take."""
        self._converted = converted
        try:
            self._interpreter: Any = make(converted.model)
            self._interpreter.allocate_tensors()
            self._runner: Any = self._interpreter.get_signature_runner(SIGNATURE)
        except Exception as error:
            raise self._typed(error, running=False) from error
        self.facts = delegation(self._interpreter._get_ops_details(), delegate).as_fact()
        details = self._runner.get_input_details()
        self._dtypes = {name: np.dtype(each["dtype"]) for name, each in details.items()}
        unknown = set(self._dtypes) - {f"args_{place}" for place in range(len(converted.fed))}
        if unknown:
            raise CompileFailure(f"the converted model has the inputs {sorted(unknown)}, which the graph has not")

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the model. Raises `Unsupported` where a kernel reports that it lacks the case, else `RunFailure`."""
        given = {f"args_{place}": inputs[number] for place, number in enumerate(self._converted.fed)}
        # An input that the model does not use is none of its inputs. Without x64 it takes 32 bits for 64.
        fed = {
            name: np.ascontiguousarray(given[name], kind).reshape(given[name].shape)
            for name, kind in self._dtypes.items()
        }
        try:
            results = self._runner(**fed)
            return [np.array(results[f"output_{place}"], order="C") for place in range(self._converted.outputs)]
        except Exception as error:
            raise self._typed(error, running=True) from error

    def _typed(self, error: Exception, *, running: bool) -> Exception:
        if isinstance(error, MemoryError):
            return error
        reading = messages.read(error)
        text = f"{type(error).__name__}: {str(error).strip()}"
        op = self._converted.operator(text)
        return running_error(reading.kind, text, op) if running else loading_error(reading.kind, text, op)


def _script(options: Options) -> ScriptRunner | None:
    """The script takes the interpreter's number of threads, and its delegate."""
    if options.keys() & {"delegate", "kernels"}:
        return None
    edits = {"convert(model, fresh())": "convert(model, fresh(), enable_x64=True)"} if "x64" in options else {}
    return read_runner(_RUN, _PACKAGES, edits=edits, diagnostics=True)


def _file_script(options: Options, file: str) -> ScriptRunner | None:
    """A file is run as its users run it: without the flag that litert-torch's own runner sets."""
    if "x64" in options:
        return None
    resolver = _resolver(options.get("delegate", "xnnpack"), options.get("kernels", ""))
    edits = {'"FILE"': repr(file), "OpResolverType.AUTO": f"OpResolverType.{resolver}"}
    if "threads" in options:
        edits["num_threads=None"] = f"num_threads={int(options['threads'])}"
    return read_runner(_RUN, _FILE_PACKAGES, "run_file", edits=edits, diagnostics=True)


BACKEND: Final = HostRuntime(
    MODULES,
    lambda options: LitertPlatform(
        options["delegate"], options["x64"] == "on", thread_count(options), options["kernels"]
    ),
    _OPTIONS,
    # litert-torch has translations in JAX, which stays on the CPU.
    lambda options: {"JAX_PLATFORMS": "cpu"},
    script=_script,
    stage_at_fault=litert_stage,
    packages=_PACKAGES,
    recipe=Path(__file__).with_name("litert.toml"),
    front_end=lambda options: "litert_torch",
    file_suffixes=(".tflite",),
    file_script=_file_script,
)
