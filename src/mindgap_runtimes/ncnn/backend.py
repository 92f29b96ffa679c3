"""Backends `ncnn/cpu` and `ncnn/vulkan`: convert a graph with pnnx, and run it in ncnn, on the CPU or with Vulkan.

ncnn runs a layer without shaders on the CPU. On `ncnn/vulkan` a graph with such a layer is refused.
"""

from __future__ import annotations

import importlib
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindgap.graph import Graph
from mindgap.platforms import dtype_policy, host
from mindgap.platforms.delegation import Delegation
from mindgap.platforms.host_runtime import HostRuntime, Option, thread_count, threads
from mindgap.platforms.messages import end_where_lost, running_error
from mindgap.platforms.protocol import (
    ACCURACY,
    INFERENCE_ONLY,
    Array,
    CompileFailure,
    Executable,
    Fallback,
    Options,
    RunFailure,
    Unsupported,
)
from mindgap.platforms.script_runner import ScriptRunner, read_runner
from mindgap.platforms.standard_error import kept_standard_error
from mindgap_runtimes import vulkan_driver
from mindgap_runtimes.ncnn import messages
from mindgap_runtimes.ncnn.stages import ncnn_stage

if TYPE_CHECKING:
    from mindgap_runtimes.ncnn.conversion import ModelPort, NcnnModel

MODULES: Final = {"torch": "torch", "ncnn": "ncnn", "pnnx": "pnnx"}
_OPTIONS: Final = (
    Option(
        "precision",
        "ncnn's, with weights in float16; or float32 throughout (fp16=0, use_fp16_*=False)",
        ("default", "f32"),
    ),
    Option(
        "opt",
        "ncnn's kernels (default), or those without Winograd, matrix products and packed layouts",
        ("all", "off"),
    ),
    threads("threads of ncnn (default: one per large physical core)"),
)
_PACKAGES: Final = ("ncnn", "pnnx")
_VULKAN: Final = "ncnn's shaders"
#: Attributes of `ncnn.Option` that an option of the platform switches off.
_REDUCED: Final = (
    "use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_packed", "use_bf16_storage",
)  # fmt: skip
_OPTIMISED: Final = ("use_winograd_convolution", "use_sgemm_convolution", "use_packing_layout")


class NcnnPlatform:
    """Converts graphs and makes nets.

    fp16: weights are stored in float16.
    settings: of `ncnn.Option`.
    vulkan: layers run with Vulkan.
    """

    def __init__(self, fp16: bool, settings: Mapping[str, str | int], *, vulkan: bool = False) -> None:
        """Raises `Fallback` for a setting that is not in force, and where Vulkan has no loader, driver or device."""
        self._fp16, self._vulkan = fp16, vulkan
        self._settings = {"use_vulkan_compute": vulkan, **settings}
        self._facts = {**vulkan_driver.described(), ACCURACY: "SPIR-V"} if vulkan else dict[str, Any]()
        self._library: Any = importlib.import_module("ncnn")
        if vulkan and self._library.get_gpu_count() == 0:
            raise Fallback("ncnn finds no Vulkan device")
        options = self._net().opt
        for name, value in self._settings.items():
            if getattr(options, name, 0) != value:
                raise Fallback(f"ncnn has not taken {name}={value}: it has {getattr(options, name, 'no such switch')}")

    def describe(self) -> Mapping[str, Any]:
        """Describes the platform. `ncnn_options`: every switch of `ncnn.Option` that is in force."""
        option = self._net().opt
        return {
            **host.described(MODULES),
            **self._facts,
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
        from mindgap_runtimes.ncnn.conversion import convert

        if graph.grad:
            raise Unsupported("backward", "a model of ncnn's has no backward pass")
        net = self._net()
        made = NcnnExecutable(graph, self._library, net, convert(graph, inputs, fp16=self._fp16))
        if self._vulkan:
            made.facts = _vulkan_layers(graph, net)
        return made

    def _net(self) -> Any:
        net = self._library.Net()
        for name, value in self._settings.items():
            # What a version does not have cannot be switched on.
            if hasattr(net.opt, name):
                setattr(net.opt, name, value)
        return net


class NcnnExecutable:
    """Runs one model. Every call has a new extractor, as in the script that pnnx writes."""

    def __init__(self, graph: Graph, library: Any, net: Any, converted: NcnnModel) -> None:
        """Raises `CompileFailure` for a model that ncnn does not load. `facts`: the layers that Vulkan runs."""
        self.facts = dict[str, Any]()
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
            end_where_lost(printed.text)
            raise CompileFailure(f"ncnn does not load the model: {' '.join(printed.text.split())}")

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the model. Raises `Unsupported` for what an ncnn matrix cannot hold, else `RunFailure`."""
        try:
            with kept_standard_error() as printed:
                results = self._run(inputs)
        except MemoryError:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            op = messages.aten_operator(self._graph, ())
            raise running_error(messages.kind_of(text, type(error).__name__), text, op) from error
        failed = next((each for each in results if isinstance(each, str)), None)
        if failed is not None:
            text = " ".join([failed, *printed.text.split()])
            end_where_lost(text)
            raise RunFailure(text, messages.aten_operator(self._graph, ()))
        return [each for each in results if not isinstance(each, str)]

    def _run(self, inputs: Sequence[Array]) -> list[Array | str]:
        """Returns the outputs, and a sentence in place of one that ncnn does not compute."""
        extractor = self._net.create_extractor()
        for port in self._converted.inputs:
            array = inputs[self._converted.fed[int(port.name.removeprefix("in"))]]
            if port.indexed:
                matrix = self._library.Mat(np.ascontiguousarray(array), batch_index=port.batch)
            else:
                without = array if port.batch is None else array.squeeze(port.batch)
                matrix = self._library.Mat(np.ascontiguousarray(without))
            status = extractor.input(port.name, matrix.clone())
            if status != 0:
                return [f"ncnn takes no input {port.name}: error {status}."]
        return [self._output(extractor, port) for port in self._converted.outputs]

    def _output(self, extractor: Any, port: ModelPort) -> Array | str:
        status, matrix = extractor.extract(port.name)
        if status != 0:
            return f"ncnn computes no {port.name}: error {status}."
        if matrix.empty():
            return f"ncnn computes no {port.name}: its matrix is empty."
        if port.indexed:
            return np.array(matrix.numpy(batch_index=port.batch), order="C")
        result = np.array(matrix, order="C")
        return result if port.batch is None else np.expand_dims(result, port.batch)


def _vulkan_layers(graph: Graph, net: Any) -> dict[str, Any]:
    """The layers of a loaded net, as a fact. Raises `Unsupported` where Vulkan does not run all of them."""
    layers = [each for each in net.layers() if each.type != "Input"]
    left = [*dict.fromkeys(str(each.type) for each in layers if not each.support_vulkan)]
    if left:
        op = messages.aten_operator(graph, ()) or f"ncnn.{left[0]}"
        why = f"ncnn runs {', '.join(left)} on the CPU, it has no shaders for them"
        raise Unsupported(op, why, left[1:], "ran_elsewhere")
    return Delegation(_VULKAN, dict(Counter(str(each.type) for each in layers))).as_fact()


def properties(options: Options) -> dict[str, str | int]:
    """Returns what the options set in `ncnn.Option`."""
    values = dict[str, str | int]()
    if options.get("precision") == "f32":
        values |= dict.fromkeys(_REDUCED, False)
    if options.get("opt") == "off":
        values |= dict.fromkeys(_OPTIMISED, False)
    number = thread_count(options)
    return values if number is None else {**values, "num_threads": number}


def _script(options: Options) -> ScriptRunner:
    return read_runner(Path(__file__).with_name("run.py"), _PACKAGES, properties=properties(options))


_MADE: Final = "    net = ncnn.Net()\n"


def _vulkan_script(options: Options) -> ScriptRunner:
    given = {"use_vulkan_compute": True, **properties(options)}
    there = {_MADE: f'    assert ncnn.get_gpu_count(), "ncnn finds no Vulkan device"\n{_MADE}'}
    return read_runner(Path(__file__).with_name("run.py"), _PACKAGES, properties=given, edits=there)


BACKEND: Final = HostRuntime(
    MODULES,
    lambda options: NcnnPlatform(options["precision"] == "default", properties(options)),
    _OPTIONS,
    script=_script,
    stage_at_fault=ncnn_stage,
    packages=_PACKAGES,
    recipe=Path(__file__).with_name("ncnn.toml"),
)
VULKAN: Final = HostRuntime(
    MODULES,
    lambda options: NcnnPlatform(options["precision"] == "default", properties(options), vulkan=True),
    (*_OPTIONS, vulkan_driver.DEVICE),
    variables=vulkan_driver.variables,
    script=_vulkan_script,
    stage_at_fault=ncnn_stage,
    packages=_PACKAGES,
    recipe=Path(__file__).with_name("ncnn.toml"),
)
