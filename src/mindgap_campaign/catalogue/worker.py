"""Captures the programs of a catalogue in a worker process: the source service, where the parent decides by a graph's
structure whether it is proven and sent.

Messages, beside those of `mindgap.source_worker.worker`:

parent → worker   list      a pattern of sources
                  open      also the limit of the model's parameters; the sources that are open are dropped
                  capture   a pass of a program of the open source; the program is kept for its next pass
                  prove     whether the traced graph is to be checked and sent
worker → parent   listed    the sources that match a pattern
                  left_out  why a model is not worth opening
                  traced    the structure of the graph, before the check
                  captured  the counts of the graph, and its bytes if they were wanted
All answers have the peak memory of the process.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import resource
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mindgap.graph import (
    Graph,
    PendingTensors,
    TensorStore,
    default_tensor_store,
    digest,
    encode,
    stored_keys,
    structure_digest,
)
from mindgap.run.channel import Frame
from mindgap.run.server import Answer, Channel, Service
from mindgap.source_worker.worker import Sources, answering

if TYPE_CHECKING:
    from mindgap.sources import Captured, Program


def capture_service(channel: Channel, tensors: str) -> Service:
    """Opens sources, one at a time, and captures their programs. `tensors`: where tensors too big for a graph's bytes
    go."""
    importlib.import_module("mindgap.sources")
    capturer = _Capturer(channel, TensorStore(tensors))
    answers = {"list": capturer.matching, "open": capturer.open, "capture": capturer.capture}
    return Service({kind: _measured(answering(answer)) for kind, answer in answers.items()})


class _Capturer:
    """Answers the requests of one client."""

    def __init__(self, channel: Channel, tensors: TensorStore) -> None:
        self._channel, self._tensors, self._sources = channel, tensors, Sources(tensors)

    def matching(self, header: Mapping[str, Any]) -> Answer:
        """Lists the sources that match a pattern."""
        from mindgap_campaign.catalogue.patterns import expand

        return {"kind": "listed", "sources": expand(header["source"])}, ()

    def open(self, header: Mapping[str, Any]) -> Answer:
        """Opens a source, unless its model has too many parameters."""
        from mindgap_campaign.catalogue.patterns import parameters_of

        self._sources.opened.clear()
        gc.collect()
        most: int | None = header["parameters"]
        count = parameters_of(header["source"]) if most is not None else None
        if count is not None and most is not None and count > most:
            reason = f"{count / 1e6:,.0f} million parameters, of {most / 1e6:,.0f} allowed"
            return {"kind": "left_out", "reason": reason}, ()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._sources.open(header)

    def capture(self, header: Mapping[str, Any]) -> Answer:
        """Captures a pass of a program. The program that was built last is kept for its next pass."""
        programs = self._sources.opened[header["key"]]
        index: int = header["index"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a catalogue's rows have no place for them
            programs[:index] = [None] * index
            one = programs[index]
            self._sources.build(header)
            built = programs[index]
            assert built is not None, "programs are captured in their order"
            try:
                return _captured(built, header["pass"], self._tensors, self._channel)
            except BaseException:
                programs[index] = one
                raise


def _captured(one: Program | Captured, name: str, store: TensorStore, channel: Channel) -> Answer:
    """Captures a pass of a program. Returns the counts of the graph, and its bytes if the parent wants them."""
    from mindgap.sources import Captured, captured_graph

    # Under the keys that they have on disk, so that the digest is that of the graph that is sent.
    pending = PendingTensors(store)
    traced = _TraceAnswer(channel)
    if isinstance(one, Captured):
        graph = captured_graph(one, name != "forward")
        if traced.proves(graph):
            # A graph file's tensors are in the user's own store.
            store.copy(stored_keys(graph), default_tensor_store())
    else:
        graph = _program_graph(one, name, pending, traced)
    header: dict[str, Any] = {
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
        return header, ()
    pending.keep(stored_keys(graph))
    return header, [np.frombuffer(encode(graph), np.uint8)]


def _program_graph(program: Program, name: str, tensors: TensorStore, traced: _TraceAnswer) -> Graph:
    from mindgap.graph_capture.errors import UnprovenCapture
    from mindgap.sources import capture_built

    built = program.make()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UnprovenCapture)
        graph = capture_built(
            built, tensors, traced.proves, name != "forward", name if name in ("sgd", "adamw") else None, seeded=True
        )
    traced.unproven = any(issubclass(each.category, UnprovenCapture) for each in caught)
    if not traced.asked:
        # Tensors without values are not proven, and so were not asked about.
        traced.proves(graph)
    return graph


@dataclass
class _TraceAnswer:
    """The parent's answer about the graph that was traced."""

    channel: Channel
    asked: bool = False
    wanted: bool = False
    unproven: bool = False

    def proves(self, graph: Graph) -> bool:
        """Asks the parent whether this graph is to be proven and sent."""
        self.asked = True
        self.channel.send({"kind": "traced", "structure": structure_digest(graph)})
        self.wanted = bool(self.channel.receive().header["wanted"])
        return self.wanted


def _measured(answer: Callable[[Frame], Answer]) -> Callable[[Frame], Answer]:
    """Adds to an answer the process's peak memory while it was made."""

    def answered(frame: Frame) -> Answer:
        with contextlib.suppress(OSError):  # a kernel that does not allow it
            Path("/proc/self/clear_refs").write_text("5")
        header, arrays = answer(frame)
        return {**header, "peak_bytes": _peak_bytes()}, arrays

    return answered


def _peak_bytes() -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
