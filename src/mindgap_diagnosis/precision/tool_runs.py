"""Runs what a tool makes of one model, in a process that the tool or the runtime may end.

parent → worker   run        the names of operators that stay in float32 and where to write the converted file, or
                             neither for the model as it is; the format; the names of the arrays that follow
worker → parent   done       the outputs
                  failed     why the tool or the runtime gives nothing
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.graph import Array, MindgapError
from mindgap.platforms.name import PlatformName
from mindgap.run.channel import Frame
from mindgap.run.message import WorkerFailed
from mindgap.run.process import RequestLimits
from mindgap.run.server import Answer, Service
from mindgap.run.worker_client import WorkerClient, WorkerStart

_START_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Tool:
    """A converter or quantiser. `service`: opens a model, on the options `source` and `platform`. `needs`: by format
    that it brings models to, a library and the extra that has it. `suffix`: of the file that it writes from an ONNX
    file; empty: it opens the user's source, and writes none."""

    service: str
    needs: Mapping[str, tuple[str, str]]
    suffix: str


_ROOM: Final = "mindgap_diagnosis.precision"
#: ONNX Runtime's converters.
ONNX_TOOL: Final = Tool(
    f"{_ROOM}.onnx_file:onnx_service", dict.fromkeys(("float16", "int8"), ("onnxruntime", "onnxruntime")), ".onnx"
)
_OPENVINO_NEEDS: Final = {"int8": ("nncf", "nncf"), "bfloat16": ("openvino", "openvino")}
_PT2E: Final = Tool(f"{_ROOM}.pt2e:pt2e_service", {"int8": ("torchao", "quantised")}, "")
#: By platform. Others, and other formats of these, take casts in the graph.
TOOLS: Final[Mapping[str, Tool]] = {
    "onnxruntime/cpu": ONNX_TOOL, "onnx/reference": ONNX_TOOL, "cpu/eager": _PT2E, "cpu/inductor": _PT2E,
    "openvino/cpu": Tool(f"{_ROOM}.openvino_file:openvino_service", _OPENVINO_NEEDS, ".xml"),
}  # fmt: skip


def tool_of(platform: PlatformName, to: str) -> Tool | None:
    """Returns the tool that brings a model to a format; None: casts in the graph do. Raises `MindgapError` where the
    platform has no way to the format, or the tool is not installed."""
    tool = TOOLS.get(platform.device_mode)
    if tool is None or to not in tool.needs:
        if to == "int8":
            raise MindgapError(f"--to int8: {platform} has no quantiser here; these have one: {', '.join(TOOLS)}")
        if tool is ONNX_TOOL:
            raise MindgapError(
                f"--to {to}: ONNX Runtime's tools convert files to {' and '.join(ONNX_TOOL.needs)}; casts in a "
                "program's graph: -p cpu/eager"
            )
        return None
    library, extra = tool.needs[to]
    if find_spec(library) is None:
        raise MindgapError(
            f"--to {to} on {platform} needs {library}, which is not installed: pip install 'mindgap[{extra}]'"
        )
    # The user's hint holds for the whole model: only casts keep an operator in float32 then.
    return None if to == "bfloat16" and platform.options.get("precision") else tool


class ToolFailed(MindgapError):
    """A tool or the runtime gives nothing for a converted model."""


class ToolRuns:
    """A worker that converts one model and runs what comes out. Use as a context manager."""

    def __init__(
        self, tool: Tool, source: str, feeds: Mapping[str, Array], platform: PlatformName, limit_s: float, folder: Path
    ) -> None:
        """`feeds`: arrays by name of the inputs of a file. `folder`: for converted files."""
        options = {"source": source, "platform": str(platform)}
        self._client = WorkerClient(WorkerStart(tool.service, forks=True), options, RequestLimits(_START_S))
        self._source, self._feeds, self._platform = source, feeds, platform
        self._written, self._limits = folder / f"converted{tool.suffix}", RequestLimits(limit_s)

    def __enter__(self) -> ToolRuns:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def about(self) -> Mapping[str, Any]:
        """`lowered`: by format, the types of operators that the tool converts. `names`: by operator that it converts,
        what it calls that; without it, the operator's name. Raises `ToolFailed`."""
        try:
            self._client.started()
        except WorkerFailed as failed:
            raise ToolFailed(f"{self._source}: {failed}") from None
        return self._client.about

    def run(self, to: str, kept: Sequence[str] | None, path: Path | None = None) -> Sequence[Array]:
        """Returns the outputs with these operators in float32; None: of the model as it is.
        `path`: where the converted file is kept. Raises `ToolFailed`."""
        stage = "running the model" if kept is None else "converting the model and running it"
        header = {"kind": "run", "to": to, "kept": kept, "path": str(path or self._written), "names": [*self._feeds]}
        try:
            answer = self._client.ask(header, [*self._feeds.values()], self._limits, stage)
        except WorkerFailed as failed:
            raise ToolFailed(f"{stage} on {self._platform} failed: {failed}") from None
        if answer.header["kind"] != "done":
            raise ToolFailed(f"{stage} on {self._platform} failed: {answer.header['message']}")
        return answer.arrays


#: Converts and runs: the format, the operators that stay in float32 (None: all of them, no conversion), the file to
#: write, the inputs by name. Returns the outputs.
Outputs = Callable[[str, "Sequence[str] | None", str, Mapping[str, Array]], Sequence[Any]]


def tool_service(outputs: Outputs, about: Mapping[str, Any]) -> Service:
    """Makes the service of a tool. `about`: as `ToolRuns.about` gives it."""

    def run(frame: Frame) -> Answer:
        header = frame.header
        feeds = dict(zip(header["names"], frame.arrays, strict=True))
        try:
            given = outputs(header["to"], header["kept"], header["path"], feeds)
        except Exception as error:  # a tool's or the runtime's, which is a result
            return {"kind": "failed", "message": f"{type(error).__name__}: {error}"}, ()
        return {"kind": "done"}, [np.asarray(each) for each in given]

    return Service({"run": run}, about)
