"""Rewrites a graph so that operators compute in a smaller float format, some in float32, with casts between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mindgap.graph import Arg, DType, Graph, Node, Ref, operands
from mindgap_diagnosis.precision.candidates import WIDE, Candidates, is_wide

_CAST = "aten._to_copy.default"


def mixed_graph(graph: Graph, of: Candidates, kept: frozenset[int], dtype: str) -> Graph:
    """Returns the functional graph with every operator but those of `kept` in `dtype` (`float16`).

    Inputs, weights and outputs stay float32: an operator casts what it reads. Nodes that move data take the format of
    what they read, float32 where they read both.
    """
    writer = _Writer(graph, dtype)
    for index, node in enumerate(graph.nodes):
        owner = of.owner[index]
        if owner >= 0:
            writer.add(index, low=owner not in kept)
        else:
            wide = [n for n in operands(node) if is_wide(graph, n)]
            writer.add(index, low=index in of.carriers and all(n in writer.low for n in wide))
    outputs = tuple(writer.operand(number, low=False) for number in graph.outputs)
    labels = replace(graph.labels, nodes=tuple(writer.labels))
    return Graph(graph.inputs, tuple(writer.nodes), outputs, (), labels)


@dataclass
class _Writer:
    """`number`: by value of the source and whether it is in the smaller format, the value in the new graph. `low`:
    values of the source that nodes give in the smaller format."""

    graph: Graph
    dtype: str
    nodes: list[Node] = field(default_factory=list[Node])
    labels: list[str] = field(default_factory=list[str])
    low: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        self._next = len(self.graph.inputs)
        self.number = {(value, False): value for value in range(self._next)}

    def operand(self, value: int, low: bool) -> int:
        """Returns the new number of a value in the wanted format, behind a cast where it has the other."""
        low = low and is_wide(self.graph, value)
        if (value, low) not in self.number:
            spec, to = self.graph.values[value], self.dtype if low else WIDE
            assert spec is not None
            source = Ref(self.number[value, not low])
            cast = Node(_CAST, (source,), (("dtype", DType(to)),), (replace(spec, dtype=to),))
            (self.number[value, low],) = self._emit(cast, "")
        return self.number[value, low]

    def add(self, index: int, low: bool) -> None:
        """Appends one node in one of the two formats."""
        node, first = self.graph.nodes[index], self.graph.first_value[index]
        args = tuple(self._arg(arg, low) for arg in node.args)
        kwargs = tuple((name, self._arg(arg, low)) for name, arg in node.kwargs)
        wide = [is_wide(self.graph, first + slot) for slot in range(len(node.outputs))]
        outputs = tuple(
            replace(spec, dtype=self.dtype) if low and spec is not None and each else spec
            for spec, each in zip(node.outputs, wide, strict=True)
        )
        label = self.graph.labels.nodes[index] if self.graph.labels.nodes else ""
        for slot, number in enumerate(self._emit(Node(node.op, args, kwargs, outputs), label)):
            self.number[first + slot, low and wide[slot]] = number
            self.low |= {first + slot} if low and wide[slot] else set()

    def _arg(self, arg: Arg, low: bool) -> Arg:
        if isinstance(arg, Ref):
            return Ref(self.operand(arg.index, low))
        if isinstance(arg, tuple):
            return tuple(self._arg(item, low) for item in arg)
        return DType(self.dtype) if low and arg == DType(WIDE) else arg

    def _emit(self, node: Node, label: str) -> Iterable[int]:
        self.nodes.append(node)
        self.labels.append(label)
        first, self._next = self._next, self._next + len(node.outputs)
        return range(first, self._next)
