"""Platforms in numpy, which start in a moment; workers find them as `toys:EXACT` with this folder on PYTHONPATH."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindgap.graph import Graph, Ref
from mindgap.platforms.protocol import Array, Availability, Unsupported


def _exp(x: Array) -> Array:
    return np.exp(x.astype(np.float64)).astype(np.float32)


OPERATORS: dict[str, Any] = {
    "aten.relu.default": lambda x: np.maximum(x, np.float32(0)),
    "aten.exp.default": _exp,
    "aten.neg.default": lambda x: -x,
    "aten.add.Tensor": lambda x, y: x + y,
}


@dataclass(frozen=True)
class Run:
    graph: Graph
    mode: str

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        if self.mode == "slow":
            until = time.process_time() + 0.01
            while time.process_time() < until:
                pass
        if self.mode == "fails":
            raise RuntimeError("this platform has a bug in its 17th kernel")
        if self.mode == "crashes" and any(node.op == "aten.neg.default" for node in self.graph.nodes):
            ctypes.string_at(0)
        values: list[Any] = list(inputs)
        for node in self.graph.nodes:
            found = OPERATORS[node.op](*(values[arg.index] for arg in node.args if isinstance(arg, Ref)))
            if self.mode == "wrong" and node.op == "aten.exp.default":
                found = (found * np.float32(1.5)).astype(np.float32)
            values.append(found)
        return [values[index] for index in self.graph.outputs]


@dataclass(frozen=True)
class Toy:
    """Backend and platform in one.

    `mode`: exact, wrong (in exp), fails, refuses, picky (refuses neg), slow, crashes (in neg).
    """

    mode: str

    @property
    def options(self) -> Mapping[str, str]:
        return {"number": "to have it twice"}

    def probe(self) -> Availability:
        return Availability(True)

    def environment(self, options: Mapping[str, str]) -> Mapping[str, str]:
        return {}

    def open(self, options: Mapping[str, str]) -> Toy:
        return self

    def describe(self) -> Mapping[str, Any]:
        return {"toy": self.mode, **({"version": os.environ["TOY_VERSION"]} if "TOY_VERSION" in os.environ else {})}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Run:
        if self.mode == "refuses" or (self.mode == "picky" and any(n.op == "aten.neg.default" for n in graph.nodes)):
            raise Unsupported(graph.nodes[0].op, "not in this toy")
        return Run(graph, self.mode)


class Together(Toy):
    """Loads many graphs at once. The file named in TOY_LOG gets a line with their number."""

    def open(self, options: Mapping[str, str]) -> Together:
        return self

    def load_many(self, graphs: Sequence[Graph], inputs: Sequence[Sequence[Array]]) -> list[Run]:
        with open(os.environ["TOY_LOG"], "a") as log:
            log.write(f"{len(graphs)}\n")
        return [Run(graph, self.mode) for graph in graphs]


class Broken(Toy):
    """Known, and cannot be opened."""

    def open(self, options: Mapping[str, str]) -> Toy:
        raise ImportError("its library is another version")


EXACT, WRONG, FAILS, REFUSES, PICKY, SLOW, CRASHES = map(
    Toy, ("exact", "wrong", "fails", "refuses", "picky", "slow", "crashes")
)
TOGETHER = Together("exact")
BROKEN = Broken("broken")
