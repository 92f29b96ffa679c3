"""Writes the values of both sides of a trace to `.npy` files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import numpy as np

from mindgap.graph import Graph, MindgapError
from mindgap.judge.trace.intermediate_values import by_size, shown
from mindgap.judge.trace.side_values import GROUP_BYTES, SideValues
from mindgap.results.drawn_graph import module_of, submodule_nodes

Side = Literal["platform", "reference"]
#: Of the free space of a disk, what a dump may take.
_SHARE: Final = 0.9
#: Layers that a message names.
_MOST_NAMED: Final = 8
_RANGE: Final = re.compile(r"(\d+)(?:\.\.(\d+))?")


@dataclass
class ValueDump:
    """Which values of a graph are written, and where to.

    directory: does not exist, or is empty; its parent exists.
    layer: only nodes of this submodule of the program; None for all.
    nodes: only nodes of the captured graph from the first to the last of these numbers; None for all.
    files: what was written: by value, the file name of each side that shows the value.
    unseen: the values that a side does not show, as inside a fusion.
    """

    directory: Path
    layer: str | None = None
    nodes: tuple[int, int] | None = None
    files: dict[int, dict[Side, str]] = field(default_factory=dict[int, "dict[Side, str]"])
    unseen: dict[Side, list[int]] = field(default_factory=dict["Side", list[int]])

    def check(self, captured: Graph, graph: Graph, origin: tuple[int, ...]) -> list[int]:
        """The numbers of the values to write. Raises `MindgapError` where there are none, or where they do not fit."""
        wanted = self._wanted(captured)
        numbers = [number for number in shown(graph) if origin[graph.producer[number]] in wanted]
        # Both sides.
        needed = 2 * sum(spec.nbytes for number in numbers if (spec := graph.values[number]) is not None)
        free = shutil.disk_usage(self.directory.absolute().parent).free
        if needed > _SHARE * free:
            raise MindgapError(
                f"--dump {self.directory}: the {len(numbers)} values of both sides take {needed / 2**30:.2f} GiB, and "
                f"{free / 2**30:.2f} GiB of disk are free: choose some with --layer PATH or --nodes FIRST..LAST"
            )
        return numbers

    def _wanted(self, graph: Graph) -> set[int]:
        if self.nodes is not None:
            first, last = self.nodes
            if first >= len(graph.nodes):
                raise MindgapError(f"--nodes {first}..{last}: the graph has nodes 0 to {len(graph.nodes) - 1}")
            return {*range(first, last + 1)}
        if self.layer is None:
            return {*range(len(graph.nodes))}
        nodes = submodule_nodes(graph, self.layer)
        if not nodes:
            modules = {module: None for label in graph.labels.nodes if (module := module_of(label))}
            more = ", …" if len(modules) > _MOST_NAMED else ""
            named = ", ".join([*modules][:_MOST_NAMED]) + more if modules else "none: its nodes have no labels"
            raise MindgapError(f"--layer {self.layer}: no node of the graph is in it; layers with nodes: {named}")
        return {*nodes}

    def write(self, graph: Graph, numbers: list[int], ours: SideValues, theirs: SideValues) -> None:
        """Writes what the sides show of these values. Raises `MindgapError` where a file cannot be written."""
        sides: Mapping[Side, SideValues] = {"platform": ours, "reference": theirs}
        try:
            self.directory.mkdir(exist_ok=True)
            for side, values in sides.items():
                seen = [number for number in numbers if number in values.digests]
                self.unseen[side] = [number for number in numbers if number not in values.digests]
                for group in by_size(graph, seen, GROUP_BYTES):
                    for number, array in values.fetch(group).items():
                        name = f"{number:05}-{_packet(graph, number)}.{side}.npy"
                        np.save(self.directory / name, array)
                        self.files.setdefault(number, {})[side] = name
        except OSError as error:
            raise MindgapError(f"--dump {self.directory}: it cannot be written: {error.strerror}") from None


def new_dump(directory: Path, layer: str | None, nodes: str | None) -> ValueDump:
    """Checks what the options of a dump ask for. Raises `MindgapError`. `nodes`: `7` or `3..9`."""
    if layer is not None and nodes is not None:
        raise MindgapError("--layer and --nodes both choose the values of --dump: give one of the two")
    if not directory.absolute().parent.is_dir():
        raise MindgapError(f"--dump {directory}: there is no directory {directory.parent}; make it first")
    if directory.exists() and not directory.is_dir():
        raise MindgapError(f"--dump {directory}: it is no directory; name one that does not exist, or is empty")
    if directory.exists() and any(directory.iterdir()):
        raise MindgapError(f"--dump {directory}: it is not empty; name a directory that does not exist, or is empty")
    if nodes is None:
        return ValueDump(directory, layer)
    read = _RANGE.fullmatch(nodes)
    first, last = (int(read[1]), int(read[2] or read[1])) if read else (1, 0)
    if first > last:
        raise MindgapError(f"--nodes {nodes}: write a node, or the first and the last, as in --nodes 3..9")
    return ValueDump(directory, None, (first, last))


def _packet(graph: Graph, number: int) -> str:
    """The name of the operator that makes a value, fit for a file name."""
    return re.sub(r"\W+", "_", graph.nodes[graph.producer[number]].op.removeprefix("aten.").partition(".")[0])
