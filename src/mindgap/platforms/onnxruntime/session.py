"""Makes sessions of ONNX Runtime, with one execution provider or several, and runs them."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindgap.graph import Graph, TensorSpec, dtype_name, numpy_dtype
from mindgap.platforms.delegation import Delegation
from mindgap.platforms.messages import loading_error, running_error
from mindgap.platforms.onnx.arrays import ONNX_ELEMENT, as_declared, as_real, carrier
from mindgap.platforms.onnx.messages import aten_operator
from mindgap.platforms.onnxruntime import messages as onnxruntime_messages
from mindgap.platforms.protocol import Array, CompileFailure
from mindgap.platforms.standard_error import Printed, kept_standard_error

if TYPE_CHECKING:
    from mindgap.platforms.onnx.export import Exported

#: The name of an execution provider, with its options where it has some.
Provider = str | tuple[str, dict[str, str]]

#: `tensor(bfloat16)` -> the graph's dtype name, for the outputs that numpy cannot hold.
_UNNAMED: Final = {
    "tensor(bfloat16)": "bfloat16",
    "tensor(float8e4m3fn)": "float8_e4m3fn",
    "tensor(float8e4m3fnuz)": "float8_e4m3fnuz",
    "tensor(float8e5m2)": "float8_e5m2",
    "tensor(float8e5m2fnuz)": "float8_e5m2fnuz",
}
#: ONNX Runtime's message where the CPU provider may run nothing and would.
LEFT_TO_CPU: Final = "graph nodes that are assigned to the default CPU EP"


def runtime() -> Any:
    """Imports ONNX Runtime, which has no types."""
    return importlib.import_module("onnxruntime")


class LeftToCpu(Exception):
    """The provider leaves nodes to the CPU provider, in a session that forbids it."""


def new_session(
    exported: Exported, providers: Sequence[Provider], opt: str, threads: int | None, *, alone: bool = False,
    plugin: Any = None, entries: Mapping[str, str] | None = None, deterministic: bool = False,
    without: Sequence[str] = (),
) -> Any:  # fmt: skip
    """Makes a session that records which provider gets which node.

    A session reads the weights outside the model where they are: they must outlive it.

    threads: None leaves the number to ONNX Runtime.
    alone: ONNX Runtime makes no session where the CPU provider would run a node.
    entries: further entries of the session's configuration.
    deterministic: ONNX Runtime takes deterministic kernels where it has others as well (`use_deterministic_compute`).
    without: optimizers that ONNX Runtime leaves out.
    plugin: the device of a plug-in that is the first of `providers`; None for providers within ONNX Runtime.

    Raises `Unsupported`, `CompileFailure` or, with `alone`, `LeftToCpu`.
    """
    onnxruntime = runtime()
    settings = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel
    settings.graph_optimization_level = level.ORT_ENABLE_ALL if opt == "all" else level.ORT_DISABLE_ALL
    # 0 is ONNX Runtime's default: it chooses. Its default execution mode is sequential: no threads between operators.
    settings.intra_op_num_threads = threads or 0
    settings.log_severity_level = 4
    settings.use_deterministic_compute = deterministic
    settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for name, value in (entries or {}).items():
        settings.add_session_config_entry(name, value)
    if alone:
        settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    names: dict[str, Any] = {} if plugin is not None else {"providers": [*providers]}
    names |= {"disabled_optimizers": [*without]} if without else {}
    if plugin is not None:
        settings.add_provider_for_devices([plugin], providers[0][1])
    weights = exported.external.arrays
    if weights:
        settings.add_external_initializers([*weights], [_to_ort(array) for array in weights.values()])
    try:
        # With ONNX Runtime's fallback, a session that cannot be made is made again without the provider.
        session = onnxruntime.InferenceSession(exported.model, settings, enable_fallback=0, **names)
    except Exception as error:
        if alone and LEFT_TO_CPU in str(error):
            raise LeftToCpu from error
        raise _typed(error, exported.origin) from error
    # Most weights are packed for their kernels by now.
    exported.external.forget_pages()
    return session


@contextlib.contextmanager
def logged() -> Generator[Printed]:
    """Keeps ONNX Runtime's log of all that happens in the block, to be read after it."""
    with kept_standard_error(passed_on=False) as log:
        runtime().set_default_logger_severity(0)
        try:
            yield log
        finally:
            runtime().set_default_logger_severity(4)


def _typed(error: Exception, origin: Mapping[str, str], *, running: bool = False) -> Exception:
    """Converts an error of a session or a run to a refusal or failure by the table of messages."""
    if isinstance(error, MemoryError):
        return error
    reading = onnxruntime_messages.read(str(error))
    op = aten_operator(reading, origin)
    if running:
        return running_error(reading.kind, f"{type(error).__name__}: {error}", op)
    return loading_error(reading.kind, str(error), op)


class OnnxRuntimeExecutable:
    """Runs one session. `facts`: changes that the translation made to the graph."""

    def __init__(self, session: Any, exported: Exported, graph: Graph, assigned: Delegation) -> None:
        """`assigned`: what each provider runs. Raises `CompileFailure` for a session with other outputs."""
        outputs: list[TensorSpec | None] = [graph.values[number] for number in graph.outputs]
        if len(session.get_outputs()) != len(outputs):
            raise CompileFailure(f"the model has {len(session.get_outputs())} outputs, not {len(outputs)}")
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
            results = self._run(feeds)
        except Exception as error:
            raise _typed(error, self._origin, running=True) from error
        return [
            array if spec is None else as_declared(array, spec)
            for array, spec in zip(results, self._outputs, strict=True)
        ]

    def _run(self, feeds: Mapping[str, Array]) -> list[Array]:
        if self._plain and all(carrier(a.dtype) == a.dtype for a in feeds.values()):
            return self._session.run(None, feeds)
        return self._run_values(feeds)

    def _run_values(self, feeds: Mapping[str, Array]) -> list[Array]:
        """Runs through OrtValues, which support dtypes that numpy lacks."""
        values = {name: _to_ort(array) for name, array in feeds.items()}
        results = self._session.run_with_ort_values(None, values)
        return [
            value.numpy() if name is None else _bytes_of(value, name)
            for value, name in zip(results, self._unnamed, strict=True)
        ]


def _to_ort(array: Array) -> Any:
    unsigned = carrier(array.dtype)
    make = runtime().OrtValue
    if unsigned == array.dtype:
        return make.ortvalue_from_numpy(array)
    element = ONNX_ELEMENT[dtype_name(array.dtype)]
    return make.ortvalue_from_numpy_with_onnx_type(array.view(unsigned), element)


def _bytes_of(value: Any, name: str) -> Array:
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(bytearray(raw), dtype=numpy_dtype(name)).reshape(value.shape())
