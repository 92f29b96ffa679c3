"""Cuts a graph into graphs of one call each, with the values that the operands had when it ran."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import torch

from mindgap.aten.operators import facts
from mindgap.aten.tape import Tape, flatten_result
from mindgap.aten.tensors import TORCH_DTYPES, extent, input_tensors, spec_of, to_numpy
from mindgap.graph import (
    Arg,
    Graph,
    Input,
    Literal,
    MindgapError,
    Node,
    Ref,
    Stored,
    TensorSpec,
    TensorStore,
    map_refs,
    materialise_all,
    operands,
    refs,
)

#: Operands and results of a call that come to more than this are too big to ask a platform with.
MOST_BYTES: Final = 1 << 18
_HELD: Final = frozenset(TORCH_DTYPES.values())


def calls(graph: Graph, tensors: TensorStore | None = None) -> list[Graph]:
    """Returns the calls of a graph whose tensors take at most `MOST_BYTES`, as `each_call` makes them; none of a graph
    that does not run here, such as one with custom operators."""
    graphs: list[Graph] = []
    try:
        each_call(graph, lambda _, call: graphs.append(call), tensors)
    except (MindgapError, RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
        return []
    return graphs


def each_call(
    graph: Graph, take: Callable[[int, Graph], None], tensors: TensorStore | None = None, most_bytes: int = MOST_BYTES,
    leave: Callable[[int, str], None] | None = None,
) -> None:  # fmt: skip
    """Hands the number of each node of a graph, and its call as a separate graph, to `take`, by running the graph once
    on the CPU.

    A call is handed over when it has run, so that only what `take` keeps stays in memory. Operands that are inputs
    which nothing wrote to keep their recipes; others travel as their bytes. Left out are calls that give no tensor and
    write none, those whose tensors are bigger than `most_bytes`, and those with tensors that a graph cannot hold.
    `leave` gets the number of the last two, and the reason. Raises what the run does: `MindgapError` for an input that
    cannot be made, anything for a call that fails.
    """
    tape = Tape(graph)
    arrays = materialise_all(graph, tensors)
    given = input_tensors(graph, arrays)
    cutter = _Cutter(graph, frozenset(tape.written_inputs), most_bytes, take, leave)
    with torch.no_grad():
        tape.run(given, call=cutter.call)


class _Cutter:
    def __init__(
        self, graph: Graph, written: frozenset[int], most_bytes: int, take: Callable[[int, Graph], None],
        leave: Callable[[int, str], None] | None,
    ) -> None:  # fmt: skip
        self._graph, self._written, self._most_bytes = graph, written, most_bytes
        self._take, self._leave = take, leave

    def call(self, index: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Runs the call, and hands it over as a graph with the operands' values before the call."""
        node = self._graph.nodes[index]
        held: dict[int, torch.Tensor] = {}
        for arg, bound in zip(node.args, args, strict=True):
            _collect(arg, bound, held)
        for name, arg in node.kwargs:
            _collect(arg, kwargs[name], held)
        # Before the call writes to them.
        why = self._unfit("operands", sum(extent(t) * t.element_size() for t in held.values()), held.values())
        inputs = {} if why else self._inputs(node, held)
        result = function(*args, **kwargs)
        results = flatten_result(result)
        given = [each for each in results if each is not None]
        why = why or self._unfit("results", sum(t.numel() * t.element_size() for t in given), given, any_layout=True)
        cut = None if why else _graph(node, inputs, results)
        if cut is not None:
            self._take(index, cut)
        elif why and self._leave is not None:
            self._leave(index, why)
        return result

    def _unfit(self, what: str, size: int, held: Iterable[torch.Tensor], any_layout: bool = False) -> str:
        """Returns why a graph of one call is not made of these tensors; empty where it is."""
        if size > self._most_bytes:
            return f"its {what} take {size / 2**10:,.0f} KiB, more than {self._most_bytes >> 10:,}"
        for each in held:
            if each.dtype not in _HELD or (each.layout != torch.strided and not any_layout):
                return f"its {what} have dtype {each.dtype} and layout {each.layout}, which a graph does not hold"
        return ""

    def _inputs(self, node: Node, held: dict[int, torch.Tensor]) -> dict[int, Input]:
        """Returns the operands as inputs, before the call writes to them."""
        inputs: dict[int, Input] = {}
        for number in operands(node):
            tensor = held[number]
            given = self._graph.inputs[number] if number < len(self._graph.inputs) else None
            if given is not None and number not in self._written and not isinstance(given.recipe, Stored):
                inputs[number] = given
            else:
                # A weight stays one: a runtime may refuse a convolution whose weights are not constant.
                role = given.role if given is not None and number not in self._written else "input"
                inputs[number] = Input(spec_of(tensor), Literal(to_numpy(tensor).tobytes()), role)
        return inputs


def _collect(arg: Arg, bound: Any, held: dict[int, torch.Tensor]) -> None:
    if isinstance(arg, Ref):
        held[arg.index] = bound
    elif isinstance(arg, tuple):
        for item, value in zip(arg, bound, strict=True):
            _collect(item, value, held)


def _graph(node: Node, inputs: dict[int, Input], results: list[torch.Tensor | None]) -> Graph | None:
    specs = tuple(None if tensor is None else spec_of(tensor) for tensor in results)
    renumber = {number: position for position, number in enumerate(inputs)}
    args = tuple(map_refs(arg, renumber) for arg in node.args)
    kwargs = tuple((name, map_refs(arg, renumber)) for name, arg in node.kwargs)
    return one_call(Node(node.op, args, kwargs, specs), tuple(inputs.values()))


def one_call(node: Node, inputs: tuple[Input, ...]) -> Graph | None:
    """Builds the graph of one call. Outputs: its results, or the operands that it writes; None if there are none."""
    outputs = [len(inputs) + slot for slot, spec in enumerate(node.outputs) if spec is not None]
    if not outputs:
        written = facts(node.op).mutates
        positions = [*enumerate(node.args), *node.kwargs]
        outputs = [number for position, arg in positions if position in written for number in refs(arg)]
    return Graph(inputs, (node,), tuple(outputs)) if outputs else None


def result_specs(node: Node, dtypes: list[tuple[str, tuple[int, ...]]]) -> tuple[TensorSpec | None, ...]:
    """Replaces dtypes and shapes of a node's results; keeps strides if the shape is the same."""
    specs: list[TensorSpec | None] = []
    remaining = iter(dtypes)
    for spec in node.outputs:
        if spec is None:
            specs.append(None)
            continue
        dtype, shape = next(remaining)
        same = TensorSpec(dtype, shape, spec.stride) if shape == spec.shape else None
        specs.append(same or TensorSpec.contiguous(dtype, shape))
    return tuple(specs)
