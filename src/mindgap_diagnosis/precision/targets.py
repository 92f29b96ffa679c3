"""Opens what is measured: a captured graph with casts on any platform, or a model that a tool converts."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mindgap.aten.functional import functionalize
from mindgap.graph import Array, Graph, MindgapError, TensorStore, materialise_all
from mindgap.judge.oracle.evaluation.formats import FORMATS
from mindgap.platforms.name import PlatformName, parse
from mindgap.platforms.protocol import CompileFailure, Unsupported
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool
from mindgap_diagnosis.precision.candidates import Candidates, Operator, candidates, parted_label
from mindgap_diagnosis.precision.mixed_graph import mixed_graph
from mindgap_diagnosis.precision.paste import file_lists, program_lists, tool_lists
from mindgap_diagnosis.precision.tool_runs import ONNX_TOOL, Tool, ToolFailed, ToolRuns, tool_of


@dataclass
class Target:
    """A functional graph and its inputs, of which operators run in a smaller format. Runs fill the other fields.

    `refused`: operators that have no kernel in the format. `failure`: why the first run failed, in the platform's
    words. `lowered`: a run with an operator in the format gave outputs. `notes`: what a reader must know.
    """

    graph: Graph
    arrays: Sequence[Array]
    of: Candidates
    to: str
    platform: PlatformName
    refused: set[int] = field(default_factory=set[int], kw_only=True)
    failure: str = field(default="", kw_only=True)
    lowered: bool = field(default=False, kw_only=True)
    notes: list[str] = field(default_factory=list[str], kw_only=True)


@dataclass
class GraphTarget(Target):
    """A graph that a platform runs with casts around its operators."""

    execute: Callable[[Job], Outcome]
    deadline_s: float

    def outputs(self, kept: frozenset[int]) -> Sequence[Array] | None:
        """Returns the outputs with these operators in float32. Raises `MindgapError`."""
        while True:
            mixed = mixed_graph(self.graph, self.of, kept | self.refused, self.to)
            outcome = self.execute(Job(self.platform, mixed, want="outputs", repeat=1, deadline_s=self.deadline_s))
            if outcome.ran and outcome.arrays is not None:
                self.lowered |= len(kept | self.refused) < len(self.of.operators)
                return outcome.arrays
            at, words = f" at {outcome.op}" if outcome.op else "", outcome.message or outcome.signature
            self.failure = self.failure or f"{outcome.status}{at}: {' '.join(words.split())[:300]}"
            failing = {i for i, each in enumerate(self.of.operators) if each.kind == outcome.op}
            others = (failing or self._out_of_range()) - self.refused - kept
            if not others:
                raise MindgapError(
                    f"{self.platform} does not run the program with float32 and {self.to} side by side: {self.failure}"
                )
            self.refused |= others

    def _out_of_range(self) -> set[int]:
        """Returns the operators with a number among their arguments that the format cannot hold: PyTorch refuses to
        fill a float16 tensor with -3.4e38."""
        largest, owner = FORMATS[self.to].largest, self.of.owner
        return {
            owner[index]
            for index, node in enumerate(self.graph.nodes)
            for arg in (*node.args, *dict(node.kwargs).values())
            if isinstance(arg, float) and largest < abs(arg) < math.inf and owner[index] >= 0
        }

    def carriers(self, kept: frozenset[int]) -> list[str]:
        return []

    def lists(self, kept: Sequence[Operator], carriers: Sequence[str]) -> dict[str, str]:
        return program_lists(kept, self.of.operators, "cpu" if self.platform.device == "cpu" else "cuda")

    def save(self, kept: frozenset[int], path: Path) -> Sequence[Array]:
        """Exports the mixed graph, loads and runs it on ONNX Runtime. Raises `MindgapError`."""
        mixed = mixed_graph(self.graph, self.of, kept | self.refused, self.to)
        feeds, _ = _exported(f"{path}: the mixed program", mixed, self.arrays, path)
        with ToolRuns(ONNX_TOOL, str(path), feeds, parse("onnxruntime/cpu"), self.deadline_s, path.parent) as runs:
            return runs.run(self.to, None)


@dataclass
class FileTarget(Target):
    """A model that a tool converts. `known`: by name of an operator, what the tool calls it. `names`: by node of the
    graph, where the list must hold nodes that only move data between operators too; else empty."""

    runs: ToolRuns
    known: Mapping[str, Sequence[str]]
    names: Sequence[str]

    def _kept_names(self, kept: frozenset[int]) -> list[str]:
        names = (*(self.of.operators[i].name for i in sorted(kept)), *self.carriers(kept))
        return [each for each in names if each in self.known]

    def outputs(self, kept: frozenset[int]) -> Sequence[Array] | None:
        """Returns the outputs with these operators in float32, None where that model does not run. Raises
        `ToolFailed`."""
        whole = len(kept) == len(self.of.operators)
        # All marked operators are not always in float32: a run shows it.
        plain = whole and self.to != "bfloat16"
        try:
            outputs = self.runs.run(self.to, None if plain else self._kept_names(kept))
        except ToolFailed as failed:
            if plain:
                raise
            if not self.failure:
                self.failure = " ".join(str(failed).split())[:300]
                self.notes.append(f"some converted files did not run, the first: {self.failure[:200]}")
            return None
        self.lowered |= not whole
        return outputs

    def carriers(self, kept: frozenset[int]) -> list[str]:
        between: dict[str, bool] = {}
        for index in sorted(self.of.carriers if self.names else ()):
            roots = self.of.roots[self.graph.first_value[index]]
            if self.of.owner[index] < 0:
                between[self.names[index]] = between.get(self.names[index], True) and bool(roots) and roots <= kept
        return [name for name, wanted in between.items() if wanted]

    def lists(self, kept: Sequence[Operator], carriers: Sequence[str]) -> dict[str, str]:
        if self.to == "float16":
            return file_lists(kept, carriers, self.of.operators)
        names = (*(each.name for each in kept), *carriers)
        return tool_lists([each for name in names for each in self.known.get(name, [name])], self.platform, self.to)

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
    if tool is None:
        graph = functionalize(capture(source)).graph
        arrays = materialise_all(graph, tensors)
        with WorkerPool([platform], tensors=tensors, busy=1) as pool:
            yield GraphTarget(graph, arrays, candidates(graph), to, platform, pool.run, deadline_s)
        return
    with TemporaryDirectory(prefix="mindgap-precision-") as folder:
        opened = (_opened_file if tool.suffix else _opened_program)(capture, source, Path(folder), tensors)
        with ToolRuns(tool, opened.source, opened.feeds, platform, deadline_s, Path(folder)) as runs:
            yield _file_target(opened, runs, tool, platform, to, tensors)


@dataclass(frozen=True)
class _Opened:
    """What a tool is given: a source, and arrays by name of its inputs. `named`: by node of `graph`, the name and kind
    of the tool's operator. `lines`: of the user's program, by name; none for a file of the user's."""

    source: str
    feeds: Mapping[str, Array]
    graph: Graph
    named: Sequence[tuple[str, str]]
    lines: Mapping[str, str]


def _opened_program(capture: Capture, source: str, folder: Path, tensors: TensorStore) -> _Opened:
    graph = functionalize(capture(source)).graph
    places = [parted_label(label) for label in graph.labels.nodes or ("",) * len(graph.nodes)]
    named = [(path, node.op) for (path, _), node in zip(places, graph.nodes, strict=True)]
    return _Opened(source, {}, graph, named, dict(reversed(places)))


def _opened_file(capture: Capture, source: str, folder: Path, tensors: TensorStore) -> _Opened:
    """Opens an ONNX file, or exports a program to one."""
    captured = capture(source)
    arrays = materialise_all(captured, tensors)
    path, places = Path(source.partition("?")[0].removeprefix("onnx:")), dict[str, tuple[str, str]]()
    if path.suffix == ".onnx":
        graph = functionalize(captured).graph
        names = graph.labels.inputs or tuple(f"in{n}" for n in range(len(graph.inputs)))
        feeds = {names[n]: arrays[n] for n, given in enumerate(graph.inputs) if given.role in ("input", "random")}
    else:
        path = folder / "model.onnx"
        feeds, origin = _exported(source, captured, arrays, path)
        with warnings.catch_warnings(action="ignore"):  # of a file that the user does not see
            graph = functionalize(capture(str(path))).graph
        places = {name: parted_label(label) for name, label in origin.items()}
    parts = [(label, _NODE.match(label)) for label in graph.labels.nodes]
    named = [(match["name"], match["kind"]) if match else (label, "") for label, match in parts]
    lines = {name: line or module for name, (module, line) in places.items()}
    return _Opened(str(path), feeds, graph, named, lines)


def _exported(
    source: str, graph: Graph, arrays: Sequence[Array], path: Path
) -> tuple[Mapping[str, Array], Mapping[str, str]]:
    """Exports a graph to a file. Returns its inputs, and by node of the file where it comes from."""
    from mindgap.platforms.onnx.export import export

    try:
        exported = export(graph, arrays, labels=graph.labels.nodes or ("",) * len(graph.nodes))
    except (Unsupported, CompileFailure) as error:
        raise MindgapError(f"{source} cannot be exported to ONNX: {error}") from None
    path.write_bytes(exported.model)
    return {name: arrays[n] for name, n in zip(exported.inputs, exported.fed, strict=True)}, exported.origin


def _file_target(
    opened: _Opened, runs: ToolRuns, tool: Tool, platform: PlatformName, to: str, tensors: TensorStore
) -> FileTarget:
    graph, about = opened.graph, runs.about()
    arrays = materialise_all(graph, tensors)
    for number, name in enumerate(graph.labels.inputs):
        if name in opened.feeds and graph.inputs[number].role in ("input", "random"):
            arrays[number] = opened.feeds[name]
    known = about.get("names") or {name: [name] for name, _ in opened.named}
    named = [(name, kind if name in known else "") for name, kind in opened.named]
    of = candidates(graph, named, about["lowered"][to], joins=to != "int8")
    of = replace(of, operators=tuple(replace(o, line=opened.lines.get(o.name, "")) for o in of.operators))
    notes: list[str] = []
    if platform.device == "onnxruntime" and to == "float16":
        notes.append(
            "ONNX Runtime computes most float16 nodes in float32 on a CPU. As on a device with float16 kernels: "
            "-p onnx/reference"
        )
    if tool.suffix and opened.lines:
        notes.append("nodes are those of the file that --save writes; for a file of yours, give FILE.onnx")
    names = [name for name, _ in named if tool is ONNX_TOOL or to != "int8"]
    return FileTarget(graph, arrays, of, to, platform, runs, known, names, notes=notes)
