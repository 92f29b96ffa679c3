"""Which values of a graph share memory, and which of them a write may reach."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mindgap.aten.counterpart import is_layout_change
from mindgap.aten.operators import is_inplace, makes_new
from mindgap.aten.storage import READS_STORAGE, empty
from mindgap.aten.tensors import spec_of
from mindgap.aten.view_inverse import ViewStep
from mindgap.graph import Graph, TensorSpec, operands


@dataclass(eq=False)
class LazyFake:
    """A fake tensor that is made when it is first needed; until then its spec."""

    made: torch.Tensor | TensorSpec

    @property
    def fake(self) -> torch.Tensor:
        """The fake tensor."""
        if isinstance(self.made, TensorSpec):
            self.made = empty(self.made)
        return self.made

    @property
    def spec(self) -> TensorSpec:
        """Shape, dtype and strides at present."""
        return self.made if isinstance(self.made, TensorSpec) else spec_of(self.made)


@dataclass(eq=False)
class Memory:
    """Memory that views share. `version` counts the writes to it."""

    version: int = 0


@dataclass(eq=False)
class Value(LazyFake):
    """A tensor of the original run, and the number of its present contents in the new graph.

    `number` is valid while `version` is the memory's; afterwards the view is taken again from `parent`.
    """

    memory: Memory
    number: int
    version: int = 0
    parent: Value | None = None
    step: ViewStep | None = None


def root_of(value: Value) -> Value:
    """Returns the tensor whose memory a view shows."""
    while value.parent is not None:
        value = value.parent
    return value


def reached_by_writes(graph: Graph) -> frozenset[int]:
    """Returns the values that may share memory with one that is written, or that is read by its memory."""
    owner = list(range(len(graph.values)))

    def root(number: int) -> int:
        while owner[number] != number:
            owner[number] = number = owner[owner[number]]
        return number

    marked: set[int] = set()
    for index, node in enumerate(graph.nodes):
        first = graph.first_value[index]
        results = range(first, first + len(node.outputs))
        if makes_new(node.op) and node.op not in READS_STORAGE:
            continue
        group = [*operands(node), *results]
        for number in group[1:]:
            owner[root(number)] = root(group[0])
        if is_inplace(node.op) or is_layout_change(node.op) or node.op in READS_STORAGE:
            marked.update(group)
    reached = {root(number) for number in marked}
    return frozenset(number for number in range(len(owner)) if root(number) in reached)
