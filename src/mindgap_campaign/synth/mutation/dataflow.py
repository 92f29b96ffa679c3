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
    """Use-def lists and shared memory of a graph. Each is computed when it is first read."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values = graph.values

    @cached_property
    def readers(self) -> list[list[int]]:
        """Lists, for each value, the nodes that read it, sorted, each once."""
        by_value: list[list[int]] = [[] for _ in self.values]
        for index, node in enumerate(self.graph.nodes):
            for value in operands(node):
                if not by_value[value] or by_value[value][-1] != index:
                    by_value[value].append(index)
        return by_value

    @cached_property
    def output_values(self) -> frozenset[int]:
        """Returns the values that are outputs of the graph."""
        return frozenset(self.graph.outputs)

    @cached_property
    def owners(self) -> list[frozenset[int]]:
        """Lists, for each value, the values whose memory it may share: itself, or the bases of the view."""
        owners_found = [frozenset((number,)) for number in range(len(self.graph.inputs))]
        for index, node in enumerate(self.graph.nodes):
            known = facts(node.op)
            aliased = known.mutates | known.views
            shared: set[int] = set()
            if aliased:
                for position, arg in [*enumerate(node.args), *node.kwargs]:
                    if position in aliased:
                        for value in refs(arg):
                            shared |= owners_found[value]
            owners_found += [frozenset(shared or (value,)) for value in self.graph.results(index)]
        return owners_found

    def spec(self, arg: Arg) -> TensorSpec | None:
        """Returns the spec of an operand; None for a non-tensor, and for a spec unknown since an edit."""
        return self.values[arg.index] if isinstance(arg, Ref) else None

    def require_spec(self, arg: Arg) -> TensorSpec:
        """Returns the spec of an operand. Raises `LookupError` if there is none or it is unknown."""
        value_spec = self.spec(arg)
        if value_spec is None:
            raise LookupError("a spec that is not known")
        return value_spec

    def known(self, node: Node) -> bool:
        """Tells whether the specs of all operands of the node are known."""
        return all(self.values[value] is not None for value in operands(node))

    def result(self, index: int) -> TensorSpec | None:
        """Returns the spec of a node's only result; None if there are several or it is unknown."""
        outputs = self.graph.nodes[index].outputs
        return outputs[0] if len(outputs) == 1 else None

    def unread(self, value: int) -> bool:
        """Tells whether no node reads the value and it is no output."""
        return not self.readers[value] and value not in self.output_values

    def read_after(self, index: int, value: int) -> bool:
        """Tells whether a node after `index`, or an output, reads memory of `value`."""
        owned = self.owners[value]
        first = self.graph.first_value[index]
        for other, memory in enumerate(self.owners[:first]):
            if owned & memory and (
                other in self.output_values or (self.readers[other] and self.readers[other][-1] > index)
            ):
                return True
        return False


def in_random_order(rng: random.Random, items: Sequence[T], most: int = 8) -> Iterator[T]:
    """Yields at most `most` of the items, each once, in random order."""
    yield from rng.sample(items, min(most, len(items)))
