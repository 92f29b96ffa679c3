"""Builds and captures models in a worker process: a service of `mindgap.run.server`.

Messages:

parent → worker   list      a pattern
                  open      a source, and the limit of its model's parameters
                  capture   a program of the open source, by number, and a pass
                  prove     whether the traced graph is to be checked and sent
worker → parent   listed    the sources that match a pattern
                  opened    name and source of each program
                  left_out  why a model is not worth building
                  traced    the structure of the graph, before the check
                  captured  the counts of the graph, and its bytes if they were wanted
                  failed    a reason
"""

from __future__ import annotations

import contextlib
import gc
import resource
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mindgap.graph import (
    Graph,
    MindgapError,
    PendingTensors,
    TensorStore,
    default_tensor_store,
    digest,
    encode,
    stored_keys,
    structure_digest,
)
from mindgap.run.channel import ChannelClosed, Frame
from mindgap.run.server import Answer, Channel, Service

if TYPE_CHECKING:
    from mindgap.models.corpus import Built, Captured, Program

Header = dict[str, Any]


def capture_service(channel: Channel, tensors: str) -> Service:
    """Captures one model at a time. `tensors`: where tensors too big for a graph file go."""
    answer = _Capturer(channel, TensorStore(tensors)).answer
    return Service(dict.fromkeys(("list", "open", "capture"), answer))


@dataclass
class _Opened:
    """The programs of the current source. `built`: the program built last, which its next pass needs again."""

    programs: list[Program | Captured]
    built: tuple[int, Built] | None = None


@dataclass
class _Capturer:
    """Answers the requests of one client."""

    channel: Channel
    tensors: TensorStore
    opened: _Opened = field(default_factory=lambda: _Opened([]))

    def answer(self, frame: Frame) -> Answer:
        """Answers a request; with a reason, whatever a model's code raises."""
        _reset_peak()
        try:
            # A model's own code may print, warn and call sys.exit(): none of it may end the worker.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer, data = self._answer(frame.header)
        except ChannelClosed:
            raise
        except BaseException as error:
            answer, data = _failed(error), b""
            self.opened.built = None
            # The frames of the traceback hold the model.
            error.__traceback__ = None
        answer["peak_bytes"] = _peak_bytes()
        return answer, [np.frombuffer(data, np.uint8)] if data else []

    def _answer(self, header: Any) -> tuple[Header, bytes]:
        kind = header["kind"]
        if kind == "list":
            from mindgap.models.corpus.patterns import expand

            return {"kind": "listed", "sources": expand(header["pattern"])}, b""
        if kind == "open":
            return self._open(header["source"], header["parameters"]), b""
        return self._capture(header["index"], header["pass"])

    def _open(self, source: str, most: int | None) -> Header:
        from mindgap.models.corpus import open_source
        from mindgap.models.corpus.patterns import parameters_of

        self.opened = _Opened([])
        gc.collect()
        count = parameters_of(source) if most is not None else None
        if count is not None and most is not None and count > most:
            return {
                "kind": "left_out",
                "reason": f"{count / 1e6:,.0f} million parameters, of {most / 1e6:,.0f} allowed",
            }
        self.opened = _Opened(open_source(source))
        return {"kind": "opened", "programs": [[one.name, one.source] for one in self.opened.programs]}

    def _capture(self, index: int, name: str) -> tuple[Header, bytes]:
        from mindgap.models.corpus import Captured, captured_graph

        one = self.opened.programs[index]
        # Under the keys that they have on disk, so that the digest is that of the graph that is sent.
        pending = PendingTensors(self.tensors)
        traced = _TraceAnswer(self)
        if isinstance(one, Captured):
            graph = captured_graph(one, name != "forward")
            if traced.proves(graph):
                # A graph file's tensors are in the user's own store.
                self.tensors.copy(stored_keys(graph), default_tensor_store())
        else:
            graph = self._program_graph(index, one, name, pending, traced)
        found: Header = {
            "kind": "captured",
            "graph": digest(graph),
            "nodes": len(graph.nodes),
            "parameters": sum(given.spec.numel for given in graph.inputs if given.role == "parameter"),
            "operators": sorted({node.op for node in graph.nodes}),
            "structure": structure_digest(graph),
            "structure_operators": structure_digest(graph, "operators"),
            "structure_shapes": structure_digest(graph, "shapes"),
            "proven": traced.wanted and not isinstance(one, Captured) and not traced.unproven,
        }
        if not traced.wanted:
            return found, b""
        pending.keep(stored_keys(graph))
        return found, encode(graph)

    def _program_graph(
        self, index: int, program: Program, name: str, tensors: TensorStore, traced: _TraceAnswer
    ) -> Graph:
        from mindgap.models.capture.errors import UnprovenCapture
        from mindgap.models.corpus import capture_built

        kept = self.opened.built
        built = kept[1] if kept is not None and kept[0] == index else program.make()
        self.opened.built = (index, built)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UnprovenCapture)
            graph = capture_built(
                built, tensors, "auto" if built.registry or built.registry.describes else "seeded", traced.proves,
                backward=name != "forward", optimizer=name if name in ("sgd", "adamw") else None,
            )  # fmt: skip
        traced.unproven = any(issubclass(each.category, UnprovenCapture) for each in caught)
        if not traced.asked:
            # Tensors without values are not proven, and so were not asked about.
            traced.proves(graph)
        return graph

    def ask(self, structure: str) -> bool:
        """Asks the parent whether this structure is to be proven and sent."""
        self.channel.send({"kind": "traced", "structure": structure})
        return bool(self.channel.receive().header["wanted"])


@dataclass
class _TraceAnswer:
    """The parent's answer about the graph that was traced."""

    capturer: _Capturer
    asked: bool = False
    wanted: bool = False
    unproven: bool = False

    def proves(self, graph: Graph) -> bool:
        self.asked = True
        self.wanted = self.capturer.ask(structure_digest(graph))
        return self.wanted


def _failed(error: BaseException) -> Header:
    from mindgap.models.corpus.source import one_line

    return {"kind": "failed", "reason": str(error) if isinstance(error, MindgapError) else one_line(error)}


def _reset_peak() -> None:
    """Resets the kernel's record of peak memory, if it allows that."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_bytes() -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
