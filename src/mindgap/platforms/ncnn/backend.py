"""Backend `ncnn/cpu`: converts a graph with pnnx, and runs the model in ncnn on the CPU."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindgap.graph import Graph
from mindgap.platforms import dtype_policy
from mindgap.platforms.messages import running_error
from mindgap.platforms.ncnn import messages
from mindgap.platforms.onnx import host
from mindgap.platforms.protocol import (
    INFERENCE_ONLY,
    Array,
    Availability,
    CompileFailure,
    Executable,
    Fallback,
    Options,
    Platform,
    RunFailure,
    Unsupported,
)
from mindgap.platforms.standard_error import kept_standard_error

if TYPE_CHECKING:
    from mindgap.platforms.ncnn.conversion import Converted

MODULES: Final = {"torch": "torch", "ncnn": "ncnn", "pnnx": "pnnx"}
_OPTIONS: Final = {
    "precision": "default|f32: ncnn's, with weights in float16; or float32 throughout (fp16=0, use_fp16_*=False)",
    "opt": "all|off: ncnn's kernels (default), or those without Winograd, matrix products and packed layouts",
    "threads": "threads of ncnn (default: one per large physical core)",
}
#: Attributes of `ncnn.Option` that an option of the platform switches off.
_REDUCED: Final = (
    "use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_packed", "use_bf16_storage",
)  # fmt: skip
_OPTIMISED: Final = ("use_winograd_convolution", "use_sgemm_convolution", "use_packing_layout")


class NcnnBackend:
    """Makes platforms `ncnn/cpu`."""

    @property
    def options(self) -> Mapping[str, str]:
        return _OPTIONS

    def probe(self) -> Availability:
        return host.available(MODULES)

    def environment(self, options: Options) -> Mapping[str, str]:
        _settings(options)
        return {}

    def open(self, options: Options) -> Platform:
        return NcnnPlatform(*_settings(options))


def _settings(options: Options) -> tuple[bool, Mapping[str, bool | int]]:
    """Returns whether pnnx stores weights in float16, and what is set in `ncnn.Option`."""
    host.reject_unknown(options, _OPTIONS)
    settings: dict[str, bool | int] = {"use_vulkan_compute": False}
    fp16 = host.choice("precision", options, ("default", "f32")) == "default"
    if not fp16:
        settings |= dict.fromkeys(_REDUCED, False)
    if host.choice("opt", options, ("all", "off")) == "off":
        settings |= dict.fromkeys(_OPTIMISED, False)
    threads = host.thread_count(options)
    return fp16, settings if threads is None else {**settings, "num_threads": threads}


class NcnnPlatform:
    """Converts graphs and makes nets. `fp16`: weights are stored in float16. `settings`: of `ncnn.Option`."""

    def __init__(self, fp16: bool, settings: Mapping[str, bool | int]) -> None:
        self._fp16 = fp16
        self._settings = settings
        self._library: Any = importlib.import_module("ncnn")
        found = self._net().opt
        for name, value in settings.items():
            if getattr(found, name) != value:
                raise Fallback(f"ncnn has not taken {name}={value}: it has {getattr(found, name)}")

    def describe(self) -> Mapping[str, Any]:
        """Describes the platform. `ncnn_options`: every switch of `ncnn.Option` that is in force."""
        found = host.available(MODULES)
        option = self._net().opt
        return {
            "hardware": found.hardware,
            "cpu_flags": host.cpu_flags(),
            "versions": dict(found.versions),
            "ncnn_options": {name: getattr(option, name) for name in dir(option) if name.startswith("use_")},
            "weights_in_float16": self._fp16,
            "threads": self._settings.get("num_threads"),
            "threads_in_force": int(option.num_threads),
            INFERENCE_ONLY: True,
            "exporter": "torch.jit.trace, pnnx",
            dtype_policy.KEY: dtype_policy.measured_dtypes(self),
        }

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Converts and loads the graph. Raises `Unsupported` for what pnnx or ncnn lacks, else `CompileFailure`."""
        from mindgap.platforms.ncnn.conversion import convert

        if graph.grad:
            raise Unsupported("backward", "a model of ncnn's has no backward pass")
        return NcnnExecutable(graph, self._library, self._net(), convert(graph, inputs, fp16=self._fp16))

    def _net(self) -> Any:
        net = self._library.Net()
        for name, value in self._settings.items():
            setattr(net.opt, name, value)
        return net


class NcnnExecutable:
    """Runs one model. Every call has an extractor of its own, as in the script that pnnx writes."""

    def __init__(self, graph: Graph, library: Any, net: Any, converted: Converted) -> None:
        """Raises `CompileFailure` for a model that ncnn does not load."""
        self._graph = graph
        self._library = library
        self._net = net
        self._converted = converted
        with tempfile.TemporaryDirectory(prefix="mindgap-ncnn-") as name, kept_standard_error() as printed:
            param, weights = Path(name, "model.param"), Path(name, "model.bin")
            param.write_text(converted.param)
            weights.write_bytes(converted.weights)
            loaded = net.load_param(str(param)) == 0 and net.load_model(str(weights)) == 0
        if not loaded:
            raise CompileFailure(f"ncnn does not load the model: {' '.join(printed.text.split())}")

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the model. Raises `Unsupported` for what an ncnn matrix cannot hold, else `RunFailure`."""
        try:
            with kept_standard_error() as printed:
                found = self._run(inputs)
        except MemoryError:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            op = messages.aten_operator(self._graph, ())
            raise running_error(messages.kind_of(text, type(error).__name__), text, op) from error
        failed = next((each for each in found if isinstance(each, str)), None)
        if failed is not None:
            text = " ".join([failed, *printed.text.split()])
            raise RunFailure(text, messages.aten_operator(self._graph, ()))
        return [each for each in found if not isinstance(each, str)]

    def _run(self, inputs: Sequence[Array]) -> list[Array | str]:
        """Returns the outputs, and a sentence in place of one that ncnn does not compute."""
        extractor = self._net.create_extractor()
        for port in self._converted.inputs:
            array = inputs[self._converted.fed[int(port.name.removeprefix("in"))]]
            matrix = self._library.Mat(np.ascontiguousarray(array), batch_index=port.batch).clone()
            status = extractor.input(port.name, matrix)
            if status != 0:
                return [f"ncnn takes no input {port.name}: error {status}."]
        return [self._output(extractor, port.name, port.batch) for port in self._converted.outputs]

    def _output(self, extractor: Any, name: str, batch: int) -> Array | str:
        status, matrix = extractor.extract(name)
        if status != 0:
            return f"ncnn computes no {name}: error {status}."
        if matrix.empty():
            return f"ncnn computes no {name}: its matrix is empty."
        return np.array(matrix.numpy(batch_index=batch), order="C")


BACKEND: Final = NcnnBackend()
