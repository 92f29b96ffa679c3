"""Converts an ONNX file by ONNX Runtime's tools and runs it, in a process that a tool or the runtime may end.

parent → worker   run        the names of nodes that stay in float32 and where to write the converted file, or neither
                             for the file as it is; the format; the names of the arrays that follow
worker → parent   done       the outputs, floats as float64
                  failed     why the tool or the runtime gives nothing
"""

# pyright: basic, reportMissingImports=false, reportPrivateImportUsage=false
# (ONNX Runtime and its tools have no types)

from __future__ import annotations

import copy
import importlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.graph import Array, MindgapError
from mindgap.onnx_files.model_proto import node_name, unique_name
from mindgap.platforms.name import PlatformName
from mindgap.run.channel import Frame
from mindgap.run.message import WorkerFailed
from mindgap.run.process import RequestLimits
from mindgap.run.server import Answer, Channel, Service
from mindgap.run.worker_client import WorkerClient, WorkerStart

#: Platforms that run a converted file, with the option that leaves ONNX Runtime's optimiser out.
FILE_PLATFORMS: Final = ("onnxruntime/cpu", "onnx/reference")
#: The formats that the tools convert a file to.
FILE_FORMATS: Final = ("float16", "int8")
_START_S: Final = 120.0


class FileFailed(MindgapError):
    """A tool or the runtime gives nothing for a converted file."""


@dataclass(frozen=True)
class OnnxFile:
    """An ONNX file and the arrays of its inputs, by name."""

    path: Path
    feeds: Mapping[str, Array]


class OnnxRuns:
    """A worker that converts one file and runs what comes out. Use as a context manager."""

    def __init__(self, given: OnnxFile, platform: PlatformName, deadline_s: float, folder: Path) -> None:
        """`folder`: for converted files."""
        options = {
            "file": str(given.path), "runtime": platform.device, "optimise": platform.options.get("opt") != "none",
        }  # fmt: skip
        self._client = WorkerClient(WorkerStart(SERVICE), options, RequestLimits(_START_S))
        self._given, self._platform, self._folder = given, platform, folder
        self._limits = RequestLimits(deadline_s)

    def __enter__(self) -> OnnxRuns:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def lowered(self, to: str) -> frozenset[str]:
        """Returns the types of nodes that the tool converts. Raises `FileFailed`."""
        try:
            self._client.started()
        except WorkerFailed as failed:
            raise FileFailed(f"{self._given.path}: {failed}") from None
        return frozenset(self._client.about["lowered"][to])

    def run(self, to: str, kept: Sequence[str] | None, path: Path | None = None) -> Sequence[Array]:
        """Returns the outputs, floats as float64, with these nodes in float32; None: of the file as it is. `path`:
        where the converted file is kept. Raises `FileFailed`."""
        written = "" if kept is None else str(path or self._folder / "converted.onnx")
        stage = "running the file" if kept is None else "converting the file and running it"
        header = {"kind": "run", "to": to, "kept": kept, "path": written, "names": [*self._given.feeds]}
        try:
            answer = self._client.ask(header, [*self._given.feeds.values()], self._limits, stage)
        except WorkerFailed as failed:
            raise FileFailed(f"{stage} on {self._platform} failed: {failed}") from None
        if answer.header["kind"] != "done":
            raise FileFailed(f"{stage} on {self._platform} failed: {answer.header['message']}")
        return answer.arrays


SERVICE: Final = "mindgap_diagnosis.precision.onnx_file:onnx_service"


def onnx_service(_: Channel, file: str, runtime: str, optimise: bool) -> Service:
    """Opens the service for one file. `runtime`: `onnxruntime` or `onnx`, its reference evaluator."""
    model = _named(file)

    def run(frame: Frame) -> Answer:
        header = frame.header
        feeds = dict(zip(header["names"], frame.arrays, strict=True))
        try:
            if header["path"]:
                tool = _quantised if header["to"] == "int8" else _as_float16
                tool(copy.deepcopy(model), header["kept"], feeds, header["path"])
            given = _run(header["path"] or file, runtime, optimise, feeds)
        except Exception as error:  # a tool's or the runtime's, which is a result
            return {"kind": "failed", "message": f"{type(error).__name__}: {error}"}, ()
        arrays = [np.asarray(each) for each in given]
        return {"kind": "done"}, [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]

    return Service({"run": run}, {"lowered": _lowered({node.op_type for node in model.graph.node})})


def _named(file: str) -> Any:
    """Loads a file; nodes without a name, and of one name, get those that its translation gives them."""
    import onnx

    model, taken = onnx.load(file), set[str]()
    for index, node in enumerate(model.graph.node):
        node.name = unique_name(node_name(node, index), taken)
    return model


def _lowered(kinds: set[str]) -> dict[str, list[str]]:
    """Returns the types of nodes that the tools convert, by format."""
    blocked = importlib.import_module("onnxruntime.transformers.float16").DEFAULT_OP_BLOCK_LIST
    registry = importlib.import_module("onnxruntime.quantization.registry")
    known = {*registry.QDQRegistry, *registry.QLinearOpsRegistry}
    return {"float16": sorted(kinds.difference(blocked)), "int8": sorted(kinds & known)}


def _as_float16(model: Any, kept: Sequence[str], _: Mapping[str, Array], path: str) -> None:
    import onnx

    tool = importlib.import_module("onnxruntime.transformers.float16")
    sorter = importlib.import_module("onnxruntime.transformers.onnx_model").OnnxModel
    converted = tool.convert_float_to_float16(model, keep_io_types=True, node_block_list=[*kept])
    _skip_round_trips(converted)
    # The tool appends casts at the end. ONNX wants nodes in the order of the data.
    sorter(converted).topological_sort()
    onnx.save(converted, path)


def _skip_round_trips(model: Any) -> None:
    """Lets a node that stays in float32 read what another one gives. The tool casts that to float16 and back, so that
    values overflow between two nodes of its list (https://github.com/microsoft/onnxruntime/issues/21345), and it writes
    the cast of a value that is read twice two times."""
    nodes = {tuple(node.output): node for node in model.graph.node}
    del model.graph.node[:]
    model.graph.node.extend(nodes.values())
    casts = {node.output[0]: node for node in model.graph.node if node.op_type == "Cast"}
    for node in casts.values():
        inner = casts.get(node.input[0])
        if inner is not None and (
            inner.name.startswith("graph_input_cast") or inner.name.endswith("_cast_to_fp16_node")
        ):
            node.input[0] = inner.input[0]


def _quantised(model: Any, kept: Sequence[str], feeds: Mapping[str, Array], path: str) -> None:
    quantization = importlib.import_module("onnxruntime.quantization")
    with tempfile.TemporaryDirectory() as folder:
        # The tool reads a file for its calibration.
        plain = Path(folder) / "model.onnx"
        importlib.import_module("onnx").save(model, plain)
        quantization.quantize_static(plain, path, _Reader(feeds), nodes_to_exclude=[*kept])


class _Reader:
    """Gives the quantiser one set of inputs to calibrate on."""

    def __init__(self, feeds: Mapping[str, Array]) -> None:
        self._sets = [dict(feeds)]

    def get_next(self) -> dict[str, Array] | None:
        return self._sets.pop() if self._sets else None

    def __len__(self) -> int:
        return len(self._sets)


def _run(path: str, runtime: str, optimise: bool, feeds: Mapping[str, Array]) -> list[Any]:
    if runtime == "onnx":
        evaluator = importlib.import_module("onnx.reference").ReferenceEvaluator(path)
        with np.errstate(all="ignore"):
            return evaluator.run(None, dict(feeds))
    onnxruntime = importlib.import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if not optimise:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(feeds))
