"""Defines the immutable ATen operator graph.

Values are numbered: first the inputs, in order, then every output slot of every node, in execution
order. A `Ref` names a value by that number. A node that returns a tuple or a list of tensors owns
one slot for each member, so there is no `getitem`. In-place operators and views are kept as they
ran: the result of `aten.add_.Tensor` is a new value that aliases its operand, and an *input* named
among `Graph.outputs` means that input's contents after the run (how mutated buffers are compared).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, get_args

from mindgap.graph.recipe import Recipe
from mindgap.graph.spec import TensorSpec

Role = Literal["input", "parameter", "buffer", "constant", "random"]


@dataclass(frozen=True, slots=True)
class Ref:
    """An operand, by the number of its value."""

    index: int


@dataclass(frozen=True, slots=True)
class DType:
    """A dtype as an argument, by PyTorch's name (`float32`)."""

    name: str


@dataclass(frozen=True, slots=True)
class MemoryFormat:
    """`contiguous_format`, `channels_last`, `channels_last_3d` or `preserve_format`."""

    name: str


@dataclass(frozen=True, slots=True)
class Layout:
    """A tensor layout as an argument; portable graphs hold `strided` only."""

    name: str


@dataclass(frozen=True, slots=True)
class Device:
    """A device argument. The platform that runs the graph puts its device in its place."""


#: What an argument may be. Lists and tuples are both tuples here.
Arg = None | bool | int | float | complex | str | Ref | DType | MemoryFormat | Layout | Device | tuple["Arg", ...]


@dataclass(frozen=True, slots=True)
class Input:
    """A graph input. A platform may fold every role except `input` and `random` into its program."""

    spec: TensorSpec
    recipe: Recipe
    role: Role = "input"


@dataclass(frozen=True, slots=True)
class Node:
    """One operator call. `op` is an overload (`aten.add.Tensor`); `kwargs` is sorted by name.

    `outputs` has a slot per tensor returned, None where the operator returned no tensor there.
    """

    op: str
    args: tuple[Arg, ...]
    kwargs: tuple[tuple[str, Arg], ...]
    outputs: tuple[TensorSpec | None, ...]


#: - `branch`: a truth value led the program on.
#: - `number`: Python code read the numbers, and what it made of them is fixed in the graph.
#: - `count`: how many elements an operator returns is the sum of the values: of a mask, or of repetitions.
#: - `size`: the operator's own result has a shape that depends on data.
#: - `token`: the next step of a loop takes it.
DecisionKind = Literal["branch", "number", "count", "size", "token"]
#: Codes of files are positions here. Only ever append.
DECISION_KINDS: Final[tuple[DecisionKind, ...]] = get_args(DecisionKind)


@dataclass(frozen=True, slots=True)
class Decision:
    """A value by which the program decided while it was captured. The graph holds the path that was taken.

    output: position of the value among the graph's outputs.
    taken: what came out: `True`; `3`; `[3, 1]`; of `count` the sum, of `size` the shape: `5x2`.
    line, text: where, as `model.py:42`, and the expression there: `x.sum() > 0`.
    """

    output: int
    kind: DecisionKind
    taken: str
    line: str
    text: str


@dataclass(frozen=True, slots=True)
class Labels:
    """Names for people. They are no part of a graph's identity.

    `inputs`: a name per input (`layer1.0.conv1.weight`); `nodes`: where each node came from
    (`layer1.0.conv1 (model.py:42)`); `outputs`: a name per output. Each is full length or empty. `decisions`: which
    outputs are no results of the program, but values by which it decided.
    """

    inputs: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True)
class Graph:
    """Inputs, nodes in execution order, and the numbers of the values that are its outputs.

    `grad`: numbers of inputs with respect to which a torch platform also runs the backward pass.
    """

    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    grad: tuple[int, ...] = ()
    labels: Labels = field(default=Labels(), compare=False)

    def __str__(self) -> str:
        """Prints the graph: one line for each input, node and output."""
        from mindgap.graph.text import graph_text  # which needs this class

        return graph_text(self)

    @cached_property
    def values(self) -> tuple[TensorSpec | None, ...]:
        """The spec of every value, by number."""
        specs: list[TensorSpec | None] = [i.spec for i in self.inputs]
        for node in self.nodes:
            specs.extend(node.outputs)
        return tuple(specs)

    @cached_property
    def first_value(self) -> tuple[int, ...]:
        """For each node, the number of its first output slot."""
        starts: list[int] = []
        number = len(self.inputs)
        for node in self.nodes:
            starts.append(number)
            number += len(node.outputs)
        return tuple(starts)

    def results(self, index: int) -> range:
        """The numbers of the values that a node makes."""
        first = self.first_value[index]
        return range(first, first + len(self.nodes[index].outputs))

    @cached_property
    def producer(self) -> tuple[int, ...]:
        """For each value, the index of the node that made it, -1 for an input."""
        made = [-1] * len(self.inputs)
        for index, node in enumerate(self.nodes):
            made.extend([index] * len(node.outputs))
        return tuple(made)


def refs(arg: Arg) -> Iterator[int]:
    """Returns the value numbers in an argument, left to right, repeats included."""
    if isinstance(arg, Ref):
        yield arg.index
    elif isinstance(arg, tuple):
        for item in arg:
            yield from refs(item)


def operands(node: Node) -> tuple[int, ...]:
    """Returns the value numbers that a node reads, in argument order, repeats included."""
    numbers = [i for arg in node.args for i in refs(arg)]
    numbers += [i for _, arg in node.kwargs for i in refs(arg)]
    return tuple(numbers)


def map_refs(arg: Arg, renumber: dict[int, int]) -> Arg:
    """Replaces every value number in an argument through `renumber`."""
    if isinstance(arg, Ref):
        return Ref(renumber[arg.index])
    if isinstance(arg, tuple):
        return tuple(map_refs(item, renumber) for item in arg)
    return arg
