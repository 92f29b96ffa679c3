"""Backend `rknn/simulator`: builds ONNX models with Rockchip's RKNN-Toolkit2 and runs them on its simulator."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindgap.graph import Graph
from mindgap.platforms import dtype_policy, host
from mindgap.platforms.host_runtime import HostRuntime, Option, own_directory
from mindgap.platforms.messages import loading_error, running_error
from mindgap.platforms.onnx.arrays import as_declared, as_real
from mindgap.platforms.onnx.messages import aten_operator
from mindgap.platforms.protocol import (
    EXECUTION,
    INFERENCE_ONLY,
    Array,
    Executable,
    NotOnThisMachine,
    Options,
    Unsupported,
)
from mindgap.platforms.script_runner import ScriptRunner, read_runner
from mindgap.platforms.standard_error import kept_standard_error, kept_standard_output
from mindgap_runtimes.rknn import messages
from mindgap_runtimes.rknn.stages import rknn_stage

if TYPE_CHECKING:
    from mindgap.platforms.onnx.export import Exported

MODULES: Final = {"torch": "torch", "onnx": "onnx", "onnxscript": "onnxscript", "rknn": "rknn-toolkit2"}
#: The newest operator set that the toolkit reads is 19; PyTorch's exporter writes 18 by separate translations.
OPSET: Final = 18
_PACKAGES: Final = ("rknn-toolkit2", "onnx", "onnxscript")
_OPTIONS: Final = (
    Option(
        "target",
        "the chip whose NPU is simulated (default rk3588)",
        ("rk3588", "rk3576", "rk3568", "rk3566", "rk3562", "rv1126b"),
    ),
    Option("opt", "the toolkit's optimisation level (default 3)", ("3", "2", "1", "0")),
    Option(
        "calibration",
        "a list of .npy files, one line for each set of inputs, by which the toolkit quantises models to int8",
        (),
        r".+",
        "a file",
    ),
)


class RknnPlatform:
    """Builds models for one chip."""

    def __init__(self, options: Options) -> None:
        self._chip, self._opt = options["target"], int(options["opt"])
        self._calibration = _calibration_file(options)

    def describe(self) -> Mapping[str, Any]:
        facts = {
            **host.described(MODULES),
            EXECUTION: "simulated",
            "device": f"NPU of {self._chip}, Rockchip's simulator on x86-64",
            "optimization_level": self._opt,
            INFERENCE_ONLY: True,
            "exporter": f"torch.onnx, operator set {OPSET}, onnxscript optimizer on",
        }
        if self._calibration is not None:
            # The graphs that measure dtypes have other inputs than the calibration.
            return {**facts, "quantised": f"int8, calibrated by {self._calibration}"}
        return {**facts, dtype_policy.KEY: dtype_policy.measured_dtypes(_WithoutUint8(self))}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Builds the model. Raises `Unsupported` for what the toolkit reports as missing, else `CompileFailure`."""
        from mindgap.platforms.onnx.export_cache import shared_export

        if graph.grad:
            raise Unsupported("backward", "an ONNX model has no backward pass")
        exported = shared_export(graph, inputs, opset=OPSET)
        if not _read_inputs(exported):
            # Its `build` ends in "list index out of range" (2.5.0).
            raise Unsupported("model", "RKNN-Toolkit2 builds no model without inputs")
        return RknnExecutable(graph, exported, self._chip, self._opt, self._calibration)


def _read_inputs(exported: Exported) -> list[int]:
    """The numbers of the graph's inputs that the model reads. The toolkit drops the others as it loads a model, and
    gives the arrays of `inference` to those that are left in their order, without a word (2.5.0)."""
    onnx: Any = importlib.import_module("onnx")
    read, graphs = set[str](), [onnx.load_from_string(exported.model).graph]
    for graph in graphs:
        read |= {name for node in graph.node for name in node.input} | {output.name for output in graph.output}
        attributes = [attribute for node in graph.node for attribute in node.attribute]
        graphs += [inner for each in attributes for inner in (*each.graphs, *([each.g] if each.HasField("g") else []))]
    return [number for name, number in zip(exported.inputs, exported.fed, strict=True) if name in read]


def _calibration_file(options: Options) -> str | None:
    """Returns the absolute path of the list of calibration data. Raises `NotOnThisMachine` where it is absent."""
    given = options.get("calibration")
    if given is None:
        return None
    if not Path(given).is_file():
        raise NotOnThisMachine(f"option calibration={given}: no such file; give a list of .npy files, one in each line")
    return str(Path(given).resolve())


def _variables(options: Options) -> Mapping[str, str]:
    """No variables. Raises `NotOnThisMachine` as `_calibration_file` does, before a worker is started."""
    _calibration_file(options)
    return {}


@dataclass(frozen=True, slots=True)
class _WithoutUint8:
    """The platform for the measurement of dtypes. The toolkit ends its process where it is to add numbers of uint8:
    "Not Support Dtype: 2"."""

    platform: RknnPlatform

    def describe(self) -> Mapping[str, Any]:
        return {}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Raises `Unsupported` for a graph of uint8."""
        if any(given.spec.dtype == "uint8" for given in graph.inputs):
            raise Unsupported("model", "RKNN-Toolkit2 ends the process: Not Support Dtype: 2")
        return self.platform.load(graph, inputs)


class RknnExecutable:
    """Runs one model. `facts`: changes that the translation made, and the operators that the NPU takes."""

    def __init__(self, graph: Graph, exported: Exported, chip: str, opt: int, calibration: str | None = None) -> None:
        self._exported, self._fed = exported, _read_inputs(exported)
        self._outputs = [graph.values[number] for number in graph.outputs]
        api: Any = importlib.import_module("rknn.api")
        self._rknn: Any = api.RKNN(verbose=True)
        with self._typed(running=False) as printed, own_directory() as folder:
            model = Path(folder, "model.onnx")
            model.write_bytes(exported.model)
            _require(self._rknn.config(target_platform=chip, optimization_level=opt) == 0)
            _require(self._rknn.load_onnx(str(model)) == 0)
            _require(self._rknn.build(do_quantization=calibration is not None, dataset=calibration) == 0)
            _require(self._rknn.init_runtime() == 0)
        taken = messages.delegation(printed(), chip, exported.origin)
        self.facts = {**exported.facts, **(taken.as_fact() if taken.ran or taken.gave_back else {})}

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the model on the simulator. Raises `Unsupported` for what it reports as missing, else `RunFailure`."""
        fed = [as_real(inputs[number]) for number in self._fed]
        with self._typed(running=True):
            results: list[Any] | None = self._rknn.inference(fed, data_format="nchw")
            _require(results is not None)
        assert results is not None
        return [
            array if spec is None else as_declared(array, spec)
            for array, spec in zip(map(np.asarray, results), self._outputs, strict=True)
        ]

    @contextlib.contextmanager
    def _typed(self, *, running: bool) -> Generator[Callable[[], str]]:
        """Raises the toolkit's exceptions as the platform's. Gives what it printed, complete after the block."""
        with kept_standard_output() as out, kept_standard_error() as errors:
            error: Exception | None = None
            try:
                yield lambda: out.text + errors.text
            except MemoryError:
                raise
            except Exception as raised:
                error = raised
        if error is not None:
            printed = out.text + errors.text  # complete only now
            text = messages.last_line(error, printed)
            reading = messages.read(text, printed)
            op = aten_operator(reading, self._exported.origin)
            made = running_error(reading.kind, text, op) if running else loading_error(reading.kind, text, op)
            raise made from error


def _require(done: bool) -> None:
    """Raises ValueError without a message: in some failures the toolkit prints one and returns."""
    if not done:
        raise ValueError


def _script(options: Options, function: str = "run", edits: Mapping[str, str] | None = None) -> ScriptRunner:
    given: dict[str, str | int] = {"target_platform": options.get("target", "rk3588")}
    if "opt" in options:
        given["optimization_level"] = int(options["opt"])
    file, changes = Path(__file__).with_name("run.py"), dict(edits or {})
    if "calibration" in options:
        path = str(Path(options["calibration"]).resolve())
        changes["do_quantization=False"] = f"do_quantization=True, dataset={path!r}"
    runner = read_runner(file, _PACKAGES, function, properties=given, edits=changes, diagnostics=True)
    return replace(runner, refusal=messages.NOT_SUPPORTED)


def _file_script(options: Options, file: str) -> ScriptRunner:
    return _script(options, "run_file", {'"FILE", inputs': f"{file!r}, inputs", '"FILE", load': f"{file!r}, load"})


BACKEND: Final = HostRuntime(
    MODULES,
    RknnPlatform,
    _OPTIONS,
    variables=_variables,
    script=_script,
    stage_at_fault=rknn_stage,
    packages=_PACKAGES,
    recipe=Path(__file__).with_name("rknn.toml"),
    execution="simulated",
    front_end=lambda options: "torch.onnx",
    file_suffixes=(".onnx",),
    file_script=_file_script,
)
