"""Opens what is measured: a captured graph with casts on any platform, or an ONNX file that is converted."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from mindgap.aten.functional import functionalize
from mindgap.graph import Array, Graph, MindgapError, TensorStore, materialise_all
from mindgap.platforms.name import PlatformName, parse
from mindgap.platforms.protocol import CompileFailure, Unsupported
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool
from mindgap_diagnosis.precision.candidates import Candidates, Operator, candidates, parted_label
from mindgap_diagnosis.precision.formats import out_of_range
from mindgap_diagnosis.precision.mixed_graph import mixed_graph
from mindgap_diagnosis.precision.paste import file_lists, program_lists, tool_lists
from mindgap_diagnosis.precision.tool_runs import ONNX_TOOL, Tool, ToolFailed, ToolRuns, ToolSource, tool_of


@dataclass
class GraphTarget:
    """A functional graph that a platform runs with casts around its operators. `arrays`: its inputs. `refused`:
    operators that have no kernel in the smaller format; runs add to them."""

    graph: Graph
    arrays: Sequence[Array]
    of: Candidates
    to: str
    platform: PlatformName
    execute: Callable[[Job], Outcome]
    deadline_s: float
    refused: set[int] = field(default_factory=set[int])
    notes: list[str] = field(default_factory=list[str])

    def outputs(self, kept: frozenset[int]) -> Sequence[Array] | None:
        """Returns the outputs with these operators in float32. Raises `MindgapError`."""
        while True:
            mixed = mixed_graph(self.graph, self.of, kept | self.refused, self.to)
            outcome = self.execute(Job(self.platform, mixed, want="outputs", repeat=1, deadline_s=self.deadline_s))
            if outcome.ran and outcome.arrays is not None:
                return [each.astype(np.float64) if each.dtype.kind == "f" else each for each in outcome.arrays]
            failing = {i for i, each in enumerate(self.of.operators) if each.kind == outcome.op}
            others = (failing or out_of_range(self.graph, self.of, self.to)) - self.refused - kept
            if not others:
                raise MindgapError(_why(self.platform, outcome, self.to))
            self.refused |= others

    def carriers(self, kept: frozenset[int]) -> list[str]:
        return []

    def lists(self, kept: Sequence[Operator], carriers: Sequence[str]) -> dict[str, str]:
        return program_lists(kept, self.of.operators, "cpu" if self.platform.device == "cpu" else "cuda")

    def save(self, kept: frozenset[int], path: Path) -> Sequence[Array]:
        """Exports the mixed graph, loads and runs it on ONNX Runtime. Raises `MindgapError`."""
        from mindgap.platforms.onnx.export import export

        try:
            exported = export(mixed_graph(self.graph, self.of, kept | self.refused, self.to), self.arrays)
        except (Unsupported, CompileFailure) as error:
            raise MindgapError(f"{path}: the mixed program cannot be exported to ONNX: {error}") from None
        path.write_bytes(exported.model)
        feeds = {name: self.arrays[n] for name, n in zip(exported.inputs, exported.fed, strict=True)}
        on = parse("onnxruntime/cpu")
        with ToolRuns(ONNX_TOOL, ToolSource(str(path), feeds), on, self.deadline_s, path.parent) as runs:
            return runs.run(self.to, None)


def _why(platform: PlatformName, outcome: Outcome, to: str) -> str:
    words = " ".join((outcome.message or outcome.signature).split())[:300]
    at = f" at {outcome.op}" if outcome.op else ""
    return f"{platform} does not run the program with float32 and {to} side by side: {outcome.status}{at}: {words}"


@dataclass
class FileTarget:
    """A model that a tool converts. `names`: of the tool's operator, by node of the graph. `carried`: the list must
    hold nodes that only move data between its operators too."""

    graph: Graph
    arrays: Sequence[Array]
    of: Candidates
    to: str
    runs: ToolRuns
    names: Sequence[str]
    platform: PlatformName
    carried: bool
    refused: set[int] = field(default_factory=set[int])
    notes: list[str] = field(default_factory=list[str])

    def _kept_names(self, kept: frozenset[int]) -> list[str]:
        known = self.runs.about().get("names")
        names = (*(self.of.operators[i].name for i in sorted(kept)), *self.carriers(kept))
        return [each for each in names if known is None or each in known]

    def outputs(self, kept: frozenset[int]) -> Sequence[Array] | None:
        """Returns the outputs with these operators in float32, None where that model does not run. Raises
        `ToolFailed`."""
        # All marked operators are not always in float32: a run shows it.
        every = self.to != "bfloat16" and len(kept) == len(self.of.operators)
        try:
            return self.runs.run(self.to, None if every else self._kept_names(kept))
        except ToolFailed as failed:
            if every:
                raise
            if not self.notes:
                self.notes.append(f"some converted files did not run, the first: {' '.join(str(failed).split())[:200]}")
            return None

    def carriers(self, kept: frozenset[int]) -> list[str]:
        """Returns the nodes that only move data between these, where the list must hold them too."""
        between: dict[str, bool] = {}
        for index in sorted(self.of.carriers if self.carried else ()):
            roots = self.of.roots[self.graph.first_value[index]]
            if self.of.owner[index] < 0:
                between[self.names[index]] = between.get(self.names[index], True) and bool(roots) and roots <= kept
        return [name for name, wanted in between.items() if wanted]

    def lists(self, kept: Sequence[Operator], carriers: Sequence[str]) -> dict[str, str]:
        if self.to == "float16":
            return file_lists(kept, carriers, self.of.operators)
        known = self.runs.about().get("names", {})
        names = [each for name in (*(o.name for o in kept), *carriers) for each in known.get(name, [name])]
        return tool_lists(names, self.platform, self.to)

    def save(self, kept: frozenset[int], path: Path) -> Sequence[Array]:
        """Writes the mixed model, loads and runs it. Raises `ToolFailed`."""
        return self.runs.run(self.to, self._kept_names(kept), path)


#: Captures a source of one program.
Capture = Callable[[str], Graph]
_NODE = re.compile(r"(?P<name>.*) \((?P<kind>[\w.]+)\)$")


@contextmanager
def opened_target(
    capture: Capture, source: str, platform: PlatformName, to: str, tensors: TensorStore, deadline_s: float
) -> Generator[GraphTarget | FileTarget]:
    """Opens a source as what the platform's tool takes, else as a graph with casts. Raises `MindgapError`."""
    tool = tool_of(platform, to)
    if tool is not None:
        with file_target(tool, capture, source, platform, to, tensors, deadline_s) as target:
            yield target
        return
    graph = functionalize(capture(source)).graph
    arrays = materialise_all(graph, tensors)
    with WorkerPool([platform], tensors=tensors, busy=1) as pool:
        yield GraphTarget(graph, arrays, candidates(graph), to, platform, pool.run, deadline_s)


@contextmanager
def file_target(
    tool: Tool, capture: Capture, source: str, platform: PlatformName, to: str, tensors: TensorStore, deadline_s: float
) -> Generator[FileTarget]:
    """Opens a source as a tool takes it: an ONNX file, a program that is exported to one, or a captured graph. Raises
    `MindgapError`."""
    with TemporaryDirectory(prefix="mindgap-precision-") as folder:
        opened = _file if tool.takes_file else _program
        file, lines, graph = opened(capture, source, Path(folder), tensors)
        arrays = _arrays(graph, file, tensors)
        with ToolRuns(tool, file, platform, deadline_s, Path(folder)) as runs:
            about, named = runs.about(), _named(graph) if tool.takes_file else _modules(graph)
            known = about.get("names")
            named = [(name, kind if known is None or name in known else "") for name, kind in named]
            of = candidates(graph, named, frozenset(about["lowered"][to]), joins=to != "int8")
            of = replace(of, operators=tuple(replace(o, line=lines.get(o.name, "")) for o in of.operators))
            notes = _notes(platform, to, exported=bool(lines) and tool.takes_file)
            yield FileTarget(
                graph, arrays, of, to, runs, [name for name, _ in named], platform,
                carried=tool is ONNX_TOOL or to != "int8", notes=notes,
            )  # fmt: skip


def _program(
    capture: Capture, source: str, folder: Path, tensors: TensorStore
) -> tuple[ToolSource, dict[str, str], Graph]:
    """Returns a source that the tool opens itself, the user's line by module, and the captured graph."""
    graph = functionalize(capture(source)).graph
    return ToolSource(source, {}), dict(parted_label(label) for label in reversed(graph.labels.nodes)), graph


def _modules(graph: Graph) -> list[tuple[str, str]]:
    """Returns the module of each node, and its operator."""
    labels = graph.labels.nodes or ("",) * len(graph.nodes)
    return [(parted_label(label)[0], node.op) for label, node in zip(labels, graph.nodes, strict=True)]


def _notes(platform: PlatformName, to: str, exported: bool) -> list[str]:
    notes: list[str] = []
    if platform.device == "onnxruntime" and to == "float16":
        notes.append(
            "ONNX Runtime computes most float16 nodes in float32 on a CPU. As on a device with float16 kernels: "
            "-p onnx/reference"
        )
    if exported:
        notes.append("nodes are those of the file that --save writes; for a file of yours, give FILE.onnx")
    return notes


def _file(
    capture: Capture, source: str, folder: Path, tensors: TensorStore
) -> tuple[ToolSource, dict[str, str], Graph]:
    """Returns a file with its inputs, the user's line by node, and its graph."""
    captured = capture(source)
    arrays = materialise_all(captured, tensors)
    path = Path(source.partition("?")[0].removeprefix("onnx:"))
    if path.suffix == ".onnx":
        graph = functionalize(captured).graph
        names = graph.labels.inputs or tuple(f"in{n}" for n in range(len(graph.inputs)))
        fed = [n for n, given in enumerate(graph.inputs) if given.role in ("input", "random")]
        return ToolSource(str(path), {names[n]: arrays[n] for n in fed}), {}, graph
    from mindgap.platforms.onnx.export import export

    labels = captured.labels.nodes or ("",) * len(captured.nodes)
    try:
        exported = export(captured, arrays, labels=labels)
    except (Unsupported, CompileFailure) as error:
        raise MindgapError(f"{source} cannot be exported to ONNX: {error}") from None
    path = folder / "model.onnx"
    path.write_bytes(exported.model)
    feeds = {name: arrays[number] for name, number in zip(exported.inputs, exported.fed, strict=True)}
    with warnings.catch_warnings(action="ignore"):  # of a file that the user does not see
        graph = functionalize(capture(str(path))).graph
    places = {name: parted_label(label) for name, label in exported.origin.items()}
    return ToolSource(str(path), feeds), {name: line or module for name, (module, line) in places.items()}, graph


def _arrays(graph: Graph, file: ToolSource, tensors: TensorStore) -> Sequence[Array]:
    """Returns the arrays of a file's graph: those that the file is given, and its weights."""
    arrays = materialise_all(graph, tensors)
    for number, name in enumerate(graph.labels.inputs):
        if name in file.feeds and graph.inputs[number].role in ("input", "random"):
            arrays[number] = file.feeds[name]
    return arrays


def _named(graph: Graph) -> list[tuple[str, str]]:
    """Returns the ONNX node of each node of a translated file: its name and type."""
    found = [(label, _NODE.match(label)) for label in graph.labels.nodes]
    return [(match["name"], match["kind"]) if match else (label, "") for label, match in found]
