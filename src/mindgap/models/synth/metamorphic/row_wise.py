"""Detects graphs that compute every row of a batch independently."""

from __future__ import annotations

from dataclasses import dataclass

from mindgap.graph import Node, operands
from mindgap.models.synth.mutation.dataflow import DataFlow
from mindgap.models.synth.mutation.rules import Rules


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
