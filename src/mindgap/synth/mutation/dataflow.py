"""Computes use-def lists and shared memory of a graph under mutation."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeVar

from mindgap.aten.operators import facts
from mindgap.graph import Arg, Graph, Node, Ref, TensorSpec, operands, refs

T = TypeVar("T")


class DataFlow:
    """A graph under mutation. What costs a walk over the graph is found when first asked for."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values = graph.values

    @cached_property
    def readers(self) -> list[list[int]]:
        """For each value, the nodes that read it, rising, each once."""
        found: list[list[int]] = [[] for _ in self.values]
        for index, node in enumerate(self.graph.nodes):
            for value in operands(node):
                if not found[value] or found[value][-1] != index:
                    found[value].append(index)
        return found

    @cached_property
    def output_values(self) -> frozenset[int]:
        """The values that are outputs of the graph."""
        return frozenset(self.graph.outputs)

    @cached_property
    def owners(self) -> list[frozenset[int]]:
        """For each value, the values whose memory it may be: itself, or what it is a view of."""
        found = [frozenset((number,)) for number in range(len(self.graph.inputs))]
        for index, node in enumerate(self.graph.nodes):
            known = facts(node.op)
            aliased = known.mutates | known.views
            shared: set[int] = set()
            if aliased:
                for position, arg in [*enumerate(node.args), *node.kwargs]:
                    if position in aliased:
                        for value in refs(arg):
                            shared |= found[value]
            first = self.graph.first_value[index]
            for slot in range(len(node.outputs)):
                found.append(frozenset(shared) if shared else frozenset((first + slot,)))
        return found

    def spec(self, arg: Arg) -> TensorSpec | None:
        """The spec of an operand, None for what is no tensor or not known since an edit."""
        return self.values[arg.index] if isinstance(arg, Ref) else None

    def require_spec(self, arg: Arg) -> TensorSpec:
        """The spec of an operand. Raises `LookupError` where there is none, or none is known."""
        found = self.spec(arg)
        if found is None:
            raise LookupError("a spec that is not known")
        return found

    def known(self, node: Node) -> bool:
        """The specs of all its operands are known."""
        return all(self.values[value] is not None for value in operands(node))

    def result(self, index: int) -> TensorSpec | None:
        """The spec of the one tensor that a node returns, None where there are several or it is not known."""
        outputs = self.graph.nodes[index].outputs
        return outputs[0] if len(outputs) == 1 else None

    def unread(self, value: int) -> bool:
        """Nothing reads it, and it is no output."""
        return not self.readers[value] and value not in self.output_values

    def read_after(self, index: int, value: int) -> bool:
        """A node after `index`, or an output, sees the memory that `value` has."""
        owned = self.owners[value]
        first = self.graph.first_value[index]
        for other, memory in enumerate(self.owners[:first]):
            if owned & memory and (
                other in self.output_values or (self.readers[other] and self.readers[other][-1] > index)
            ):
                return True
        return False


def in_random_order(rng: random.Random, items: Sequence[T], most: int = 8) -> Iterator[T]:
    """Some of the items, each once, in a random order."""
    yield from rng.sample(items, min(most, len(items)))
