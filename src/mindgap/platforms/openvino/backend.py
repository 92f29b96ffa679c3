"""Backends `openvino/DEVICE`: run a plugin of OpenVINO's, through its PyTorch front end or an ONNX model."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindgap.graph import Graph, TensorSpec, dtype_name, numpy_dtype
from mindgap.platforms import dtype_policy, host
from mindgap.platforms.host_runtime import HostRuntime, Option, thread_count, threads
from mindgap.platforms.onnx.arrays import as_declared, as_real, carrier
from mindgap.platforms.onnx.messages import aten_operator
from mindgap.platforms.openvino import messages as openvino_messages
from mindgap.platforms.openvino.stages import openvino_stage
from mindgap.platforms.protocol import (
    HALF_WEIGHT_COPIES,
    INFERENCE_ONLY,
    WIDENED_COPIES,
    Alternative,
    Array,
    CompileFailure,
    Executable,
    Fallback,
    Options,
    Unsupported,
)
from mindgap.platforms.script_runner import ScriptRunner, read_runner

if TYPE_CHECKING:
    from mindgap.platforms.openvino.pytorch_frontend import OpenVinoModel

#: Import name of what the platform needs -> distribution.
MODULES: Final = {"torch": "torch", "onnx": "onnx", "onnxscript": "onnxscript", "openvino": "openvino"}
_FRONTEND: Final = Option(
    "frontend", "openvino.convert_model on a torch.export program (default), or on an ONNX model", ("pytorch", "onnx")
)
#: Parts of the CPU plugin that a property switches off: code generated for several operators, and integer arithmetic.
SWITCHES: Final = {"SNIPPETS_MODE": "DISABLE", "LP_TRANSFORMS_MODE": "NO"}
_OPTIONS: Final = (
    _FRONTEND,
    Option(
        "precision",
        "default leaves the choice to OpenVINO, which takes bfloat16 where the CPU has it; bf16 emulates it elsewhere",
        ("default", "f32", "bf16"),
    ),
    threads("threads (default: OpenVINO takes one per core)"),
    Option(
        "activations",
        "default lets OpenVINO quantise what is multiplied by integer weights to 8 bits, float does not",
        ("default", "float"),
    ),
    Option(
        "without",
        "properties that switch a part off, joined by +",
        (),
        rf"({'|'.join(SWITCHES)})(\+({'|'.join(SWITCHES)}))*",
        " and ".join(SWITCHES),
    ),
)
#: OpenVINO's element type -> the graph's dtype name, for what numpy holds through ml_dtypes only.
_UNNAMED: Final = {
    "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
}
_ELEMENT: Final = {name: short for short, name in _UNNAMED.items()}
_EXPORTERS: Final = {
    "pytorch": "torch.export, openvino.convert_model",
    "onnx": "torch.onnx, operator set 20, onnxscript optimizer on",
}
#: OpenVINO's "dynamic quantisation": the values that share a scale. The CPU plugin's default is 32; 0 leaves it out.
_GROUP: Final = "DYNAMIC_QUANTIZATION_GROUP_SIZE"
_REDUCED: Final = frozenset({"bf16", "f16"})
_PREPARE: Final = "mindgap.platforms.openvino.pytorch_frontend:import_openvino"


@dataclass(frozen=True, slots=True)
class OpenVinoDevice:
    """A device of OpenVINO that no other is part of.

    name: OpenVINO's (`GPU`). nodes: patterns of the device files of its driver on Linux. driver: how to get one.
    """

    name: str
    nodes: tuple[str, ...] = ()
    driver: str = ""

    def missing(self) -> str:
        """Why OpenVINO cannot use it here, empty where it can, or where OpenVINO is not installed."""
        if self.name == "CPU" or importlib.util.find_spec("openvino") is None:
            return ""
        if sys.platform == "linux" and not host.device_files(self.nodes):
            return f"no {self.name} driver for OpenVINO: this machine has no {' or '.join(self.nodes)} ({self.driver})"
        return self.absent(_core())

    def absent(self, core: Any) -> str:
        """Why it is not among the devices of OpenVINO's core; empty where it is."""
        devices = [str(each) for each in core.available_devices]
        if any(self.holds(each) for each in devices):
            return ""
        return f"no {self.name} driver for OpenVINO: it finds {', '.join(devices) or 'no device'} ({self.driver})"

    def holds(self, device: str) -> bool:
        """Whether a name of OpenVINO's is this device, or one of several of its kind (`GPU.1`)."""
        return device.partition(".")[0] == self.name


_CPU: Final = OpenVinoDevice("CPU")


def _core() -> Any:
    from mindgap.platforms.openvino.pytorch_frontend import import_openvino

    return import_openvino().Core()


class OpenVinoPlatform:
    """Compiles models with one set of options."""

    def __init__(self, options: Options, device: OpenVinoDevice = _CPU) -> None:
        """Raises `Fallback` for a device that OpenVINO does not find."""
        self._core: Any = _core()
        self._device = device
        if absent := device.absent(self._core):
            raise Fallback(absent)
        self._frontend = options.get("frontend", "pytorch")
        self._precision = options.get("precision", "default")
        self._threads = thread_count(options)
        self._settings = properties(options) | ({} if self._threads is None else {"NUM_STREAMS": 1})

    def describe(self) -> Mapping[str, Any]:
        """Describes the platform. `precision_in_force`: the one that OpenVINO reports, not the requested one."""
        device = self._device.name
        self._core.set_property(device, self._settings)
        return {
            **host.described(MODULES),
            "hardware": str(self._core.get_property(device, "FULL_DEVICE_NAME")),
            "device": device,
            "precision_asked": self._precision,
            "precision_in_force": _type_name(self._core.get_property(device, "INFERENCE_PRECISION_HINT")),
            "threads": self._threads,
            "frontend": self._frontend,
            INFERENCE_ONLY: True,
            **({HALF_WEIGHT_COPIES: WIDENED_COPIES} if device == "CPU" else {}),
            "exporter": _EXPORTERS[self._frontend],
            dtype_policy.KEY: dtype_policy.measured_dtypes(self),
        }

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        if graph.grad:
            raise Unsupported("backward", "OpenVINO runs no backward pass")
        made = converted_model(graph, inputs, self._frontend)
        try:
            compiled = self._core.compile_model(made.model, self._device.name, self._settings)
        except Exception as error:
            raise made.typed(error) from error
        facts = {**made.facts, **self._require_precision(compiled, graph)}
        return OpenVinoExecutable(compiled, made, [graph.values[number] for number in graph.outputs], facts)

    def _require_precision(self, compiled: Any, graph: Graph) -> dict[str, Any]:
        """Returns the precision of each type of node. Raises `Fallback` for a reduced one that f32 forbids, and for a
        model of which another device runs a part."""
        devices = [str(each) for each in compiled.get_property("EXECUTION_DEVICES")]
        if not devices or not all(map(self._device.holds, devices)):
            raise Fallback(f"OpenVINO runs on {devices}, not on {self._device.name} alone")
        hint = _type_name(compiled.get_property("INFERENCE_PRECISION_HINT"))
        # An NPU's compiled model is one blob, which has no nodes.
        nodes = dict[str, int]() if self._device.name == "NPU" else _node_precisions(compiled)
        if self._precision == "f32":
            reduced = sorted(name for name in nodes if name.rpartition(":")[2] in _REDUCED)
            if hint != "f32":
                raise Fallback(f"OpenVINO computes in {hint} where f32 was asked for")
            if reduced and not any(each is not None and each.dtype in ("bfloat16", "float16") for each in graph.values):
                raise Fallback(f"OpenVINO runs {', '.join(reduced)} where f32 was asked for")
        return {"precision_in_force": hint, "node_precisions": nodes}


def converted_model(graph: Graph, inputs: Sequence[Array], frontend: str) -> OpenVinoModel:
    """Makes OpenVINO's model of a graph with a front end. Raises `Unsupported` or `CompileFailure`."""
    from mindgap.platforms.openvino.pytorch_frontend import convert

    return convert(graph, inputs) if frontend == "pytorch" else _read_onnx(graph, inputs)


def _read_onnx(graph: Graph, inputs: Sequence[Array]) -> OpenVinoModel:
    from mindgap.platforms.onnx.export_cache import shared_export
    from mindgap.platforms.openvino.pytorch_frontend import OpenVinoModel

    exported = shared_export(graph, inputs)
    typed = partial(_typed, exported.origin)
    try:
        model = _core().read_model(exported.model)
    except Exception as error:
        raise typed(error) from error
    facts = {"frontend": "onnx", **exported.facts}
    return OpenVinoModel(model, exported.inputs, exported.fed, tuple(range(len(graph.outputs))), facts, typed)


def _type_name(kind: Any) -> str:
    return str(kind.to_string())


def _node_precisions(compiled: Any) -> dict[str, int]:
    """Counts the compiled model's nodes by type and precision (`Convolution:f32`)."""
    precisions: Counter[str] = Counter()
    for node in compiled.get_runtime_model().get_ordered_ops():
        info = node.get_rt_info()
        precisions[f"{info['layerType'].astype(str)}:{info['runtimePrecision'].astype(str)}"] += 1
    return dict(sorted(precisions.items()))


def _typed(origin: Mapping[str, str], error: Exception, *, running: bool = False) -> Exception:
    """Converts an error of the ONNX front end, the plugin, or a run to a refusal or failure."""
    reading = openvino_messages.read(str(error))
    return openvino_messages.stopped(error, reading, aten_operator(reading, origin), running=running)


class OpenVinoExecutable:
    """Runs one compiled model. `facts`: changes that the translation and the plugin made."""

    def __init__(
        self, compiled: Any, model: OpenVinoModel, specs: Sequence[TensorSpec | None], facts: Mapping[str, Any]
    ) -> None:
        """An input that OpenVINO removed as unused is left out. Raises `CompileFailure` for a compiled model with other
        inputs or outputs than `model`."""
        self.facts = facts
        self._typed = model.typed
        self._request: Any = compiled.create_infer_request()
        numbers = dict(zip(model.inputs, model.fed, strict=True))
        self._feeds = [(port, number) for port in compiled.inputs if (number := fed(port, numbers)) is not None]
        self._outputs = list(zip(model.outputs, specs, strict=True))
        wanted = max(model.outputs, default=-1) + 1
        if len(self._feeds) != len(compiled.inputs) or len(compiled.outputs) != wanted:
            raise CompileFailure(
                f"the converted model has inputs {[sorted(port.get_names()) for port in compiled.inputs]} and "
                f"{len(compiled.outputs)} outputs, not {sorted(numbers)} and {wanted}"
            )

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the model. Raises `Unsupported` if a kernel refuses, `RunFailure` for other errors."""
        for port, number in self._feeds:
            self._request.set_tensor(port, to_tensor(as_real(inputs[number])))
        try:
            self._request.infer()
        except Exception as error:
            raise self._typed(error, running=True) from error
        arrays: list[Array] = []
        for place, spec in self._outputs:
            array = to_array(self._request.get_output_tensor(place))
            arrays.append(array if spec is None else as_declared(array, spec))
        return arrays


def fed(port: Any, numbers: Mapping[str, int]) -> int | None:
    """Returns the number of the graph's input behind an input of a model, whose names are these."""
    return next((numbers[name] for name in port.get_names() if name in numbers), None)


def to_tensor(array: Array) -> Any:
    """Returns an OpenVINO tensor of the array's bytes, which it may share."""
    import openvino

    unsigned = carrier(array.dtype)
    if unsigned == array.dtype:
        return openvino.Tensor(array, shared_memory=True)
    kind = getattr(openvino.Type, _ELEMENT[dtype_name(array.dtype)])
    return openvino.Tensor(array.view(unsigned), openvino.Shape(list(array.shape)), kind)


def to_array(tensor: Any) -> Array:
    """Copies a tensor: a request reuses the memory of its outputs."""
    name = _UNNAMED.get(tensor.get_element_type().to_string())
    array: Array = np.array(tensor.data, order="C")
    return array if name is None else array.view(numpy_dtype(name))


def properties(options: Options) -> dict[str, str | int]:
    """Returns what the options set in the plugin, by its properties. Without options OpenVINO's own defaults hold, as
    its users get them."""
    off = options.get("without", "").split("+")
    values: dict[str, str | int] = {name: value for name, value in SWITCHES.items() if name in off}
    if options.get("precision", "default") != "default":
        values["INFERENCE_PRECISION_HINT"] = options["precision"]
    if options.get("activations") == "float":
        values[_GROUP] = 0
    number = thread_count(options)
    return values if number is None else {**values, "INFERENCE_NUM_THREADS": number}


def openvino_backend(device: OpenVinoDevice, declared: Sequence[Option]) -> HostRuntime:
    """Makes the backend of a device. `declared`: its options; only the CPU plugin has `threads` and `activations`."""
    on_cpu = device.name == "CPU"
    edits = {} if on_cpu else {'"CPU"': f'"{device.name}"'}
    file = Path(__file__).with_name("run.py")

    def script(options: Options) -> ScriptRunner:
        onnx = "frontend" in options
        packages = ("openvino", "onnx", "onnxscript") if onnx else ("openvino",)
        runner = read_runner(file, packages, "run_onnx" if onnx else "run", properties=properties(options), edits=edits)
        return replace(runner, prepare=_PREPARE)

    def file_script(options: Options, model: str) -> ScriptRunner:
        changed = {**edits, '"FILE"': repr(model)}
        runner = read_runner(file, ("openvino",), "run_file", properties=properties(options), edits=changed)
        return replace(runner, refusal=openvino_messages.TABLE.refusals, prepare=_PREPARE)

    precision = Alternative("precision=f32", "float32", "a deployment sets INFERENCE_PRECISION_HINT=f32")
    return HostRuntime(
        MODULES,
        lambda options: OpenVinoPlatform(options, device),
        declared,
        missing=device.missing,
        script=script,
        stage_at_fault=openvino_stage,
        packages=("openvino", "onnx", "onnxscript"),
        front_end=lambda options: "torch.onnx" if options.get("frontend") == "onnx" else "",
        forkable=on_cpu,
        file_suffixes=(".xml", ".onnx"),
        file_script=file_script,
        alternatives=(
            *([Alternative("activations=float", "int8", f"a deployment sets {_GROUP}=0")] if on_cpu else []),
            precision,
            Alternative("frontend=onnx", "refusals", "a deployment converts a model of torch.onnx.export"),
        ),
    )  # fmt: skip


BACKEND: Final = openvino_backend(_CPU, _OPTIONS)
_ACCELERATOR_OPTIONS: Final = (
    _FRONTEND,
    Option("precision", "default leaves the choice to OpenVINO, which takes float16", ("default", "f32", "f16")),
)
GPU: Final = openvino_backend(
    OpenVinoDevice("GPU", ("/dev/dri/renderD*", "/dev/dxg"), "Intel's OpenCL driver: apt-get install intel-opencl-icd"),
    _ACCELERATOR_OPTIONS,
)
NPU: Final = openvino_backend(
    OpenVinoDevice("NPU", ("/dev/accel/accel*",), "Intel's driver: github.com/intel/linux-npu-driver"),
    _ACCELERATOR_OPTIONS,
)
