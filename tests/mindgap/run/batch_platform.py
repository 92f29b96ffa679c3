"""The platforms of `misbehaving.py`, loading many graphs at once: reached by workers as `batch_platform:BACKEND`.

A file named in BATCH_LOG gets one line for every call, with the number of graphs in it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from misbehaving import Run, Zoo, ZooBackend

from mindgap.graph import Graph
from mindgap.platforms.protocol import Array, CompileFailure, Executable


class Batch(Zoo):
    def load(self, graph: Graph, inputs: Sequence[Array]) -> Run:
        _note("one")
        if graph.nodes[-1].op.split(".")[1] == "load_hang":
            time.sleep(1000)
        return super().load(graph, inputs)

    def load_many(self, graphs: Sequence[Graph], inputs: Sequence[Sequence[Array]]) -> list[Executable | Exception]:
        _note(str(len(graphs)))
        if any("too_few" in g.nodes[-1].op for g in graphs):
            return []
        found: list[Executable | Exception] = []
        for graph, given in zip(graphs, inputs, strict=True):
            if "load_hang" in graph.nodes[-1].op:
                time.sleep(1000)
            try:
                found.append(super().load(graph, given))
            except Exception as error:
                found.append(CompileFailure(f"together: {error}") if isinstance(error, CompileFailure) else error)
        return found


class BatchBackend(ZooBackend):
    batch = 4

    def open(self, options: Mapping[str, Any]) -> Batch:
        return Batch(options)


def _note(line: str) -> None:
    with Path(os.environ["BATCH_LOG"]).open("a") as log:
        log.write(line + "\n")


BACKEND = BatchBackend()
