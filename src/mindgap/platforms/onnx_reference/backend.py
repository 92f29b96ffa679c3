"""Backend `onnx/reference`: runs ONNX models in the reference evaluator of the package `onnx`.

It implements ONNX's operators in numpy, one after the other, and optimises nothing. What it and a runtime do to the
same model separates errors of the exporter from errors of the runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindgap.graph import Graph
from mindgap.platforms import dtype_policy, host
from mindgap.platforms.host_runtime import HostRuntime, Option
from mindgap.platforms.messages import MessageTable, Reading, loading_error, refusal, running_error
from mindgap.platforms.onnx.arrays import as_declared, as_real
from mindgap.platforms.onnx.messages import aten_operator
from mindgap.platforms.onnx.stages import onnx_reference_stage
from mindgap.platforms.protocol import (
    INFERENCE_ONLY,
    Array,
    CompileFailure,
    Executable,
    Options,
    Unsupported,
)
from mindgap.platforms.script_runner import ScriptRunner, read_runner

if TYPE_CHECKING:
    from mindgap.platforms.onnx.export import Exported

_MODULES: Final = {"torch": "torch", "onnx": "onnx", "onnxscript": "onnxscript"}

TABLE: Final = MessageTable(
    "ONNX's reference evaluator",
    (
        refusal(
            "operator missing",
            r"^(?:No implementation for |Node type '?\w+'? .*(?:is|are) not (?:yet )?(?:implemented|supported))",
            "the evaluator has no implementation of the operator",
        ),
        refusal("not implemented", r"", "the implementation itself says so", "NotImplementedError"),
        refusal(
            "case not implemented",
            r"",
            "the evaluator's typed error: its implementation lacks this case of the operator",
            "RuntimeImplementationError",
        ),
    ),
)


class OnnxReferencePlatform:
    """Evaluates one model per graph."""

    def __init__(self, opset: int) -> None:
        self._opset = opset

    def describe(self) -> Mapping[str, Any]:
        described = host.described(_MODULES)
        return {
            **described,
            "versions": {**described["versions"], "numpy": np.__version__},
            INFERENCE_ONLY: True,
            "exporter": f"torch.onnx, operator set {self._opset}, onnxscript optimizer on",
            dtype_policy.KEY: dtype_policy.measured_dtypes(self),
        }

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Raises `Unsupported` where the evaluator lacks an operator, `CompileFailure` for a model that is not valid,
        and what the export raises."""
        from mindgap.platforms.onnx.export_cache import shared_export

        if graph.grad:
            raise Unsupported("backward", "an ONNX model has no backward pass")
        return Evaluated(graph, shared_export(graph, inputs, opset=self._opset))


class Evaluated:
    """Runs one model. `facts`: changes that the translation made to the graph."""

    def __init__(self, graph: Graph, exported: Exported) -> None:
        import onnx
        import onnx.reference

        model = onnx.load_from_string(exported.model)
        try:
            checker: Any = onnx.checker  # typed in parts
            checker.check_model(model, full_check=True)
        except Exception as error:
            raise CompileFailure(f"the exported model is not valid ONNX: {type(error).__name__}: {error}") from error
        self.facts = exported.facts
        self._exported = exported
        self._outputs = [graph.values[number] for number in graph.outputs]
        try:
            self._evaluator: Any = onnx.reference.ReferenceEvaluator(model)
        except Exception as error:
            reading = read(error)
            raise loading_error(reading.kind, _line(error), aten_operator(reading, exported.origin)) from error

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the model. Raises `Unsupported` where the evaluator lacks a case, `RunFailure` for other errors."""
        names, fed = self._exported.inputs, self._exported.fed
        feeds = {name: as_real(inputs[number]) for name, number in zip(names, fed, strict=True)}
        try:
            with np.errstate(all="ignore"):
                results: list[Any] = self._evaluator.run(None, feeds)
        except MemoryError:
            raise
        except Exception as error:
            reading = read(error)
            op = aten_operator(reading, self._exported.origin)
            raise running_error(reading.kind, _line(error), op) from error
        arrays = [np.asarray(each) for each in results]
        return [
            array if spec is None else as_declared(array, spec)
            for array, spec in zip(arrays, self._outputs, strict=True)
        ]


def read(error: BaseException) -> Reading:
    """Classifies an error of the evaluator, which names no node."""
    row = TABLE.find(str(error), type(error).__name__)
    return Reading("failure" if row is None else row.kind, row)


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


_PACKAGES: Final = ("onnx", "onnxscript")
_RUN: Final = Path(__file__).with_name("run.py")


#: 18 is for runtimes that read no newer operator set; the exporter's translations are written in it.
_OPSET: Final = Option("opset", "operator set of the exported model (default 20)", ("20", "18"))


def _script(options: Options) -> ScriptRunner:
    newer = {"verbose=False": f"opset_version={options['opset']}, verbose=False"} if "opset" in options else {}
    return read_runner(_RUN, _PACKAGES, edits=newer)


def _file_script(options: Options, file: str) -> ScriptRunner:
    return read_runner(_RUN, _PACKAGES, "run_file", edits={'"FILE"': repr(file)})


BACKEND: Final = HostRuntime(
    _MODULES,
    lambda options: OnnxReferencePlatform(int(options["opset"])),
    (_OPSET,),
    script=_script,
    stage_at_fault=onnx_reference_stage,
    packages=_PACKAGES,
    front_end=lambda options: "torch.onnx",
    file_suffixes=(".onnx",),
    file_script=_file_script,
)
