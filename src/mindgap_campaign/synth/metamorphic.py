"""Makes mutants that equal their original by construction, to test a platform against itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mindgap.aten.operators import facts, is_inplace
from mindgap.graph import Graph, Input, Node, Ref, TensorSpec, contiguous_stride, operands, renumbered, select
from mindgap_campaign.synth.mutation.dataflow import DataFlow, in_random_order
from mindgap_campaign.synth.mutation.edit import DraftCall, Rewrite, apply
from mindgap_campaign.synth.mutation.kinds.layout import dense_stride, layout_matters
from mindgap_campaign.synth.mutation.rules import Rules, load
from mindgap_campaign.synth.mutation.schemas import repeat


@dataclass(frozen=True, slots=True)
class Rows:
    """The batch of a graph. `inputs`: the inputs whose first dimension is the batch. `size`: its number of rows."""

    inputs: tuple[int, ...]
    size: int


def with_rows(flow: DataFlow, rules: Rules) -> Rows | None:
    """Finds the batch of a graph whose nodes all compute row by row, and whose outputs all have rows.

    None in any doubt: if an operator is not among `rules.rows`, an input serves as batch and as weight, a weight
    spreads over the batch itself.
    """
    graph = flow.graph
    if not graph.nodes or any(node.op not in rules.rows or len(node.outputs) != 1 for node in graph.nodes):
        return None
    first = graph.values[operands(graph.nodes[0])[0]] if operands(graph.nodes[0]) else None
    if first is None or len(first.shape) < 2 or first.shape[0] < 2:
        return None
    roles: dict[int, bool] = {}
    for index, node in enumerate(graph.nodes):
        if not _assign(flow, node, rules.rows[node.op], first.shape[0], roles):
            return None
        out = node.outputs[0]
        batched = any(roles[value] for value in operands(node))
        if out is None or (batched and (len(out.shape) < 1 or out.shape[0] != first.shape[0])):
            return None
        roles[graph.first_value[index]] = batched
    inputs = tuple(number for number in range(len(graph.inputs)) if roles.get(number, False))
    if not inputs or not all(roles.get(value, False) for value in graph.outputs):
        return None
    return Rows(inputs, first.shape[0])


def _assign(flow: DataFlow, node: Node, role: str, size: int, roles: dict[int, bool]) -> bool:
    """Assigns roles (rows, weight) to the node's operands. Returns False if roles or shapes contradict each other."""
    values = operands(node)
    for position, value in enumerate(values):
        spec = flow.values[value]
        out = node.outputs[0]
        if spec is None or out is None:
            return False
        if role == "pointwise":
            batched = len(spec.shape) == len(out.shape) and spec.shape[:1] == (size,)
            if not batched and len(spec.shape) == len(out.shape) and spec.shape[:1] != (1,):
                return False
        else:
            batched = role == "all" or position == {"first": 0, "second": 1}[role]
            if batched and (spec.shape[:1] != (size,) or len(spec.shape) < 2 or not _whole(flow, node, position)):
                return False
        if roles.setdefault(value, batched) != batched:
            return False
    return True


def _whole(flow: DataFlow, node: Node, position: int) -> bool:
    """Tells whether a convolution's operand has a batch: it has as many dimensions as the weight."""
    if not node.op.startswith("aten.conv"):
        return True
    values = operands(node)
    operand, weight = flow.values[values[position]], flow.values[values[1]]
    return operand is not None and weight is not None and len(operand.shape) == len(weight.shape)


Relation = Literal["exact", "rounding"]


@dataclass(frozen=True)
class Mutant:
    """A draft with the same inputs as the original, and the relation of its outputs to the original's.

    `relation`: bit for bit (on a platform that repeats itself; NaN payloads apart), or up to rounding, because other
    kernels or another order of summation may be chosen. `outputs`: for each output of the original the place of the
    mutant's that equals it. `equal_outputs`: pairs of places in the mutant that equal each other bit for bit.
    """

    kind: str
    relation: Relation
    graph: Graph
    outputs: tuple[int, ...]
    equal_outputs: tuple[tuple[int, int], ...] = ()


def mutants_of(graph: Graph, rng: random.Random, rules: Rules | None = None) -> list[Mutant]:
    """Makes a mutant of each kind that the graph (whose specs are known) allows. Mutants are drafts without specs.

    Kinds: each row of `identities.toml` (`identity: copy`, …) before some operand; `order` of independent nodes;
    `twice`, the whole computation; `layout` of an input; `batch turned`, its rows in reverse, and `batch split`.
    """
    flow, table = DataFlow(graph), rules or load()
    mutants = _identities(flow, rng, table)
    for make in _OTHERS:
        mutant = make(flow, rng, table)
        if mutant is not None:
            mutants.append(mutant)
    return mutants


def _identities(flow: DataFlow, rng: random.Random, rules: Rules) -> list[Mutant]:
    graph = flow.graph
    still = _unwritten(flow)
    sites = [
        (index, value)
        for index, node in enumerate(graph.nodes)
        for value in dict.fromkeys(operands(node))
        if value in still and not is_inplace(node.op) and _row_major(graph.values[value])
    ]
    mutants: list[Mutant] = []
    for rule in rules.identities:
        for index, value in in_random_order(rng, sites, 6):
            node, spec = graph.nodes[index], graph.values[value]
            if spec is None or not (rule.sign or node.op in rules.sign_blind):
                continue
            steps = rule.steps(Ref(value), spec)
            if steps is None:
                continue
            draft = apply(graph, [_insert_before(node, index, steps, value)])
            mutants.append(Mutant(f"identity: {rule.name}", "exact", draft, _straight(graph)))
            break
    return mutants


def _insert_before(node: Node, index: int, steps: tuple[DraftCall, ...], value: int) -> Rewrite:
    """Inserts steps between a node and one of its operands."""
    made = sum(step.slots for step in steps)
    results = tuple(Ref(-1 - made - slot) for slot in range(len(node.outputs)))
    return Rewrite(index, (*steps, repeat(node, {value: Ref(-made)})), results)


def _row_major(spec: TensorSpec | None) -> bool:
    """Tells whether strides are row-major. Copies and views keep those; others may choose another kernel."""
    return spec is not None and spec.stride == contiguous_stride(spec.shape)


def _unwritten(flow: DataFlow) -> frozenset[int]:
    """Returns the values whose memory no node writes to: a copy of them stays equal."""
    graph = flow.graph
    dirty: set[int] = set()
    for node in graph.nodes:
        for position, arg in [*enumerate(node.args), *node.kwargs]:
            if position in facts(node.op).mutates:
                for value in operands(Node(node.op, (arg,), (), ())):
                    dirty |= flow.owners[value]
    return frozenset(value for value, owners in enumerate(flow.owners) if not owners & dirty)


def _ordered(flow: DataFlow, rng: random.Random, rules: Rules) -> Mutant | None:
    """Reorders the nodes. Nodes that touch written memory keep their order."""
    graph = flow.graph
    waits = _waits(flow)
    done: set[int] = set()
    order: list[int] = []
    while len(order) < len(graph.nodes):
        ready = [index for index in range(len(graph.nodes)) if index not in done and waits[index] <= done]
        order.append(rng.choice(ready))
        done.add(order[-1])
    if order == list(range(len(graph.nodes))):
        return None
    return Mutant("order", "exact", select(graph, order), _straight(graph))


def _waits(flow: DataFlow) -> list[set[int]]:
    """Returns, for each node, the nodes that must run before it."""
    graph, still = flow.graph, _unwritten(flow)
    waits: list[set[int]] = []
    touched: dict[int, list[int]] = {}
    for index, node in enumerate(graph.nodes):
        values = [*operands(node), *graph.results(index)]
        before = {graph.producer[value] for value in operands(node)} - {-1}
        for memory in {owner for value in values if value not in still for owner in flow.owners[value]}:
            before.update(touched.setdefault(memory, []))
            touched[memory].append(index)
        waits.append(before)
    return waits


def _twice(flow: DataFlow, rng: random.Random, rules: Rules) -> Mutant | None:
    """Computes every node twice on the same inputs: both results are outputs, and equal."""
    graph = flow.graph
    if not graph.nodes or any(is_inplace(node.op) for node in graph.nodes):
        return None
    made = len(graph.values) - len(graph.inputs)
    renumber = {value: value if value < len(graph.inputs) else value + made for value in range(len(graph.values))}
    nodes = (*graph.nodes, *(renumbered(node, renumber) for node in graph.nodes))
    again = [place for place, value in enumerate(graph.outputs) if value >= len(graph.inputs)]
    outputs = (*graph.outputs, *(renumber[graph.outputs[place]] for place in again))
    equal_outputs = tuple((place, len(graph.outputs) + at) for at, place in enumerate(again))
    return Mutant("twice", "exact", Graph(graph.inputs, nodes, outputs), _straight(graph), equal_outputs)


def _laid_out(flow: DataFlow, rng: random.Random, rules: Rules) -> Mutant | None:
    """Gives an input other strides and the same values: channels-last, permuted, or with gaps."""
    graph = flow.graph
    for number in in_random_order(rng, range(len(graph.inputs))):
        given = graph.inputs[number]
        spec, rank = given.spec, len(given.spec.shape)
        if rank < 2 or spec.overlaps or layout_matters(flow, number, rules):
            continue
        order = (0, *range(2, rank), 1) if rank in (4, 5) and rng.random() < 0.5 else rng.sample(range(rank), rank)
        stride = tuple(step * rng.choice((1, 2)) for step in dense_stride(spec.shape, order))
        other = TensorSpec(spec.dtype, spec.shape, stride)
        if stride == spec.stride or other.overlaps:
            continue
        inputs = (*graph.inputs[:number], Input(other, given.recipe, given.role), *graph.inputs[number + 1 :])
        nodes = tuple(Node(node.op, node.args, node.kwargs, (None,) * len(node.outputs)) for node in graph.nodes)
        return Mutant("layout", "rounding", Graph(inputs, nodes, graph.outputs), _straight(graph))
    return None


def _turned(flow: DataFlow, rng: random.Random, rules: Rules) -> Mutant | None:
    """Reverses the batch, and the results back."""
    graph = flow.graph
    rows = with_rows(flow, rules)
    if rows is None:
        return None
    draft = _Draft(graph.inputs)
    turned = {number: draft.emit("aten.flip.default", Ref(number), (0,)) for number in rows.inputs}
    made = draft.copy(graph, turned)
    outputs = [draft.emit("aten.flip.default", Ref(made[value]), (0,)) for value in graph.outputs]
    return Mutant("batch turned", "rounding", draft.graph(outputs), _straight(graph))


def _split(flow: DataFlow, rng: random.Random, rules: Rules) -> Mutant | None:
    """Splits the batch in two, and concatenates the results."""
    graph = flow.graph
    rows = with_rows(flow, rules)
    if rows is None:
        return None
    draft = _Draft(graph.inputs)
    at = rng.randint(1, rows.size - 1)
    parts: list[dict[int, int]] = []
    for start, end in ((0, at), (at, rows.size)):
        cut = {n: draft.emit("aten.slice.Tensor", Ref(n), 0, start, end) for n in rows.inputs}
        parts.append(draft.copy(graph, cut))
    outputs = [draft.emit("aten.cat.default", tuple(Ref(part[value]) for part in parts), 0) for value in graph.outputs]
    return Mutant("batch split", "rounding", draft.graph(outputs), _straight(graph))


class _Draft:
    """Builds a draft node by node."""

    def __init__(self, inputs: tuple[Input, ...]) -> None:
        self._inputs = inputs
        self._nodes: list[Node] = []
        self._count = len(inputs)

    def emit(self, op: str, *args: Ref | int | tuple[Ref | int, ...]) -> int:
        """Adds a call with one result. Returns the result's value number."""
        self._nodes.append(Node(op, args, (), (None,)))
        self._count += 1
        return self._count - 1

    def copy(self, graph: Graph, replaced: dict[int, int]) -> dict[int, int]:
        """Adds all nodes of a graph, with some inputs replaced. Returns the new numbers of its values."""
        renumber = {number: replaced.get(number, number) for number in range(len(graph.inputs))}
        for index, node in enumerate(graph.nodes):
            new = renumbered(node, renumber)
            self._nodes.append(Node(new.op, new.args, new.kwargs, (None,) * len(node.outputs)))
            for slot in range(len(node.outputs)):
                renumber[graph.first_value[index] + slot] = self._count
                self._count += 1
        return renumber

    def graph(self, outputs: Sequence[int]) -> Graph:
        return Graph(self._inputs, tuple(self._nodes), tuple(outputs))


def _straight(graph: Graph) -> tuple[int, ...]:
    return tuple(range(len(graph.outputs)))


_OTHERS: Final[list[Callable[[DataFlow, random.Random, Rules], Mutant | None]]] = [
    _ordered,
    _twice,
    _laid_out,
    _turned,
    _split,
]
