"""Backend `onnxruntime/cpu`: runs ONNX models of PyTorch's exporter on ONNX Runtime's CPU execution provider."""

from __future__ import annotations

import ctypes
import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindgap.graph import Graph, TensorSpec, dtype_name, numpy_dtype
from mindgap.platforms import dtype_policy
from mindgap.platforms.delegation import Delegation
from mindgap.platforms.messages import loading_error, running_error
from mindgap.platforms.onnx import host as onnx_host
from mindgap.platforms.onnx.arrays import ONNX_ELEMENT, as_declared, as_real, carrier
from mindgap.platforms.onnxruntime import messages as onnxruntime_messages
from mindgap.platforms.protocol import (
    INFERENCE_ONLY,
    Array,
    Availability,
    CompileFailure,
    Executable,
    Fallback,
    Options,
    Platform,
    Unsupported,
)

if TYPE_CHECKING:
    from mindgap.platforms.onnx.export import Exported

_PROVIDER: Final = "CPUExecutionProvider"
_MODULES: Final = {
    "torch": "torch",
    "onnx": "onnx",
    "onnxscript": "onnxscript",
    "onnxruntime": "onnxruntime",
}
_OPTIONS: Final = {
    "export": "direct|official: mindgap's fast way to the exporter's translations (default), or torch.onnx.export",
    "opt": "all|off: ONNX Runtime's graph optimisations (default all)",
    "threads": "threads within an operator (default: ONNX Runtime takes one per core)",
}
_EXPORTERS: Final = {
    "direct": "torch.onnx, operator set 20, onnxscript optimizer on",
    "official": "torch.onnx.export(dynamo=True) on torch.export's program",
}
#: `tensor(bfloat16)` -> the graph's dtype name, for the outputs that numpy cannot hold.
_UNNAMED: Final = {
    "tensor(bfloat16)": "bfloat16",
    "tensor(float8e4m3fn)": "float8_e4m3fn",
    "tensor(float8e4m3fnuz)": "float8_e4m3fnuz",
    "tensor(float8e5m2)": "float8_e5m2",
    "tensor(float8e5m2fnuz)": "float8_e5m2fnuz",
}


class OnnxRuntimeBackend:
    """Makes platforms `onnxruntime/cpu`."""

    @property
    def options(self) -> Mapping[str, str]:
        return _OPTIONS

    def probe(self) -> Availability:
        return onnx_host.available(_MODULES)

    @property
    def forkable(self) -> bool:
        return True

    def environment(self, options: Options) -> Mapping[str, str]:
        _settings(options)
        return {}

    def open(self, options: Options) -> Platform:
        way, opt, threads = _settings(options)
        return OnnxRuntimePlatform(opt, threads, way)


def _settings(options: Options) -> tuple[str, str, int | None]:
    onnx_host.reject_unknown(options, _OPTIONS)
    way = onnx_host.choice("export", options, ("direct", "official"))
    return way, onnx_host.choice("opt", options, ("all", "off")), onnx_host.thread_count(options)


def _runtime() -> Any:
    """Imports ONNX Runtime, which has no types."""
    return importlib.import_module("onnxruntime")


class OnnxRuntimePlatform:
    """Makes sessions with one set of options. `threads`: None leaves the number to ONNX Runtime."""

    def __init__(self, opt: str, threads: int | None, way: str) -> None:
        self._export = way
        self._opt = opt
        self._threads = threads
        _runtime().set_default_logger_severity(4)

    def describe(self) -> Mapping[str, Any]:
        found = onnx_host.available(_MODULES)
        return {
            "hardware": found.hardware,
            "cpu_flags": onnx_host.cpu_flags(),
            "versions": dict(found.versions),
            "provider": _PROVIDER,
            "graph_optimization": self._opt,
            "intra_op_threads": self._threads,
            "execution_mode": "sequential",
            INFERENCE_ONLY: True,
            "exporter": _EXPORTERS[self._export],
            dtype_policy.KEY: dtype_policy.measured_dtypes(self._measured()),
        }

    def _measured(self) -> OnnxRuntimePlatform:
        """Returns the platform for measuring dtypes: both exports write the same operators, and this one is fast."""
        return self if self._export == "direct" else OnnxRuntimePlatform(self._opt, self._threads, "direct")

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        from mindgap.platforms.onnx.export_cache import shared_export
        from mindgap.platforms.onnx.official_export import export_official

        if graph.grad:
            raise Unsupported("backward", "ONNX Runtime's inference sessions run no backward pass")
        if self._export == "direct":
            exported = shared_export(graph, inputs, apart=True)
        else:
            exported = export_official(graph, inputs)
        session, assigned = _session(exported, self._opt, self._threads)
        outputs = [graph.values[number] for number in graph.outputs]
        if len(session.get_outputs()) != len(outputs):
            raise CompileFailure(f"the model has {len(session.get_outputs())} outputs, not {len(outputs)}")
        return OnnxRuntimeExecutable(session, exported, outputs, assigned)


def _session(exported: Exported, opt: str, threads: int | None) -> tuple[Any, Delegation]:
    """Makes a session, and says what its provider runs.

    A session reads the weights outside the model where they are: they must outlive it.

    Raises `Unsupported`, `CompileFailure` or `Fallback`.
    """
    onnxruntime = _runtime()
    settings = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel
    settings.graph_optimization_level = level.ORT_ENABLE_ALL if opt == "all" else level.ORT_DISABLE_ALL
    # 0 is ONNX Runtime's default: it chooses. Its default execution mode is sequential: no threads between operators.
    settings.intra_op_num_threads = threads or 0
    settings.log_severity_level = 4
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    weights = exported.external.arrays
    if weights:
        settings.add_external_initializers([*weights], [_to_ort(array) for array in weights.values()])
    try:
        session = onnxruntime.InferenceSession(exported.model, settings, providers=[_PROVIDER])
    except Exception as error:
        raise _typed(error, exported.origin) from error
    assigned = _assigned(session)
    # Most weights are packed for their kernels by now.
    exported.external.forget_pages()
    return session, assigned


def _typed(error: Exception, origin: Mapping[str, str], *, running: bool = False) -> Exception:
    """Converts an error of a session or a run to a refusal or failure by the table of messages."""
    if isinstance(error, MemoryError):
        return error
    found = onnxruntime_messages.read(str(error))
    op = onnx_host.aten_operator(found, origin)
    if running:
        return running_error(found.kind, f"{type(error).__name__}: {error}", op)
    return loading_error(found.kind, str(error), op)


def _assigned(session: Any) -> Delegation:
    """Returns which nodes of the optimised graph the CPU provider runs. Raises `Fallback` if it does not run all."""
    if session.get_providers() != [_PROVIDER]:
        raise Fallback(f"ONNX Runtime runs on {session.get_providers()}, not on {_PROVIDER} alone")
    ran = Counter[str]()
    for part in session.get_provider_graph_assignment_info():
        if part.ep_name != _PROVIDER:
            raise Fallback(f"ONNX Runtime gave {[n.op_type for n in part.get_nodes()]} to {part.ep_name}")
        ran.update(str(node.op_type) for node in part.get_nodes())
    return Delegation(_PROVIDER, dict(ran))


class OnnxRuntimeExecutable:
    """Runs one session. `facts`: changes that the translation made to the graph."""

    def __init__(
        self, session: Any, exported: Exported, outputs: Sequence[TensorSpec | None], assigned: Delegation
    ) -> None:
        self.facts = {**exported.facts, **assigned.as_fact()}
        self._origin = exported.origin
        self._session = session
        #: The session reads their memory.
        self._weights = exported.external
        self._feeds = list(zip(exported.inputs, exported.fed, strict=True))
        self._outputs = outputs
        self._unnamed = [_UNNAMED.get(o.type) for o in session.get_outputs()]
        self._plain = not any(self._unnamed)

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the session. Raises `Unsupported` if a kernel refuses, `RunFailure` for other errors."""
        feeds = {name: as_real(inputs[number]) for name, number in self._feeds}
        try:
            found = self._run(feeds)
        except Exception as error:
            raise _typed(error, self._origin, running=True) from error
        return [
            array if spec is None else as_declared(array, spec)
            for array, spec in zip(found, self._outputs, strict=True)
        ]

    def _run(self, feeds: Mapping[str, Array]) -> list[Array]:
        if self._plain and all(carrier(a.dtype) == a.dtype for a in feeds.values()):
            return self._session.run(None, feeds)
        return self._run_values(feeds)

    def _run_values(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Runs through OrtValues, which support dtypes that numpy lacks."""
        values = {name: _to_ort(array) for name, array in feeds.items()}
        found = self._session.run_with_ort_values(None, values)
        return [
            value.numpy() if name is None else _bytes_of(value, name)
            for value, name in zip(found, self._unnamed, strict=True)
        ]


def _to_ort(array: Array) -> Any:
    unsigned = carrier(array.dtype)
    make = _runtime().OrtValue
    if unsigned == array.dtype:
        return make.ortvalue_from_numpy(array)
    element = ONNX_ELEMENT[dtype_name(array.dtype)]
    return make.ortvalue_from_numpy_with_onnx_type(array.view(unsigned), element)


def _bytes_of(value: Any, name: str) -> Array:
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(bytearray(raw), dtype=numpy_dtype(name)).reshape(value.shape())


BACKEND: Final = OnnxRuntimeBackend()
