"""Writes a graph as the source of a `torch.nn.Module`: one line for each node."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mindgap.aten.operators import overload
from mindgap.aten.tape import written_inputs
from mindgap.graph import Arg, Device, DType, Graph, Layout, MemoryFormat, Node, Ref, TensorSpec, operands
from mindgap.graph.conventions import written_operands
from script.literals import number

_WIDTH = 116


@dataclass(frozen=True, slots=True)
class Names:
    """The inputs' names in the script: `arguments` of `forward` in order, and `weights` of the module."""

    arguments: Mapping[int, str]
    weights: Mapping[int, str]

    def of(self, graph: Graph) -> dict[int, str]:
        """Returns the Python expression of every value of the graph."""
        found = {**self.arguments, **{index: f"self.{name}" for index, name in self.weights.items()}}
        return {**found, **{index: f"v{index}" for index in range(len(graph.inputs), len(graph.values))}}


def names_of(graph: Graph) -> Names:
    """Names the inputs. Parameters, buffers and constants are weights of the module. If the graph writes to them
    or returns their gradient, they are arguments, so that every run gets fresh ones.
    """
    fed = {i for i, given in enumerate(graph.inputs) if given.role in ("input", "random")}
    fed |= {*graph.grad, *written_inputs(graph)}
    fed |= {value for node in graph.nodes for value in written_operands(node) if value < len(graph.inputs)}
    return Names(
        {i: f"x{i}" for i in range(len(graph.inputs)) if i in fed},
        {i: f"w{i}" for i in range(len(graph.inputs)) if i not in fed},
    )


def model_source(graph: Graph, names: Names, weights: Mapping[int, str]) -> str:
    """Writes `class Model`. `weights`: the expression of each tensor that the module holds."""
    values = names.of(graph)
    lines = ["class Model(torch.nn.Module):"]
    if names.weights:
        lines += ["    def __init__(self):", "        super().__init__()"]
        for index, name in names.weights.items():
            lines += _weight(name, weights[index], graph.inputs[index].role == "parameter")
        lines.append("")
    lines.append(f"    def forward({', '.join(['self', *names.arguments.values()])}):")
    for index, node in enumerate(graph.nodes):
        label = f" {graph.labels.nodes[index]}" if graph.labels.nodes else ""
        lines += _call(node, values, graph.first_value[index], f"# node {index}:{label}{_specs(node.outputs)}")
    lines.append(f"        return ({', '.join(values[o] for o in graph.outputs)},)")
    return "\n".join(lines)


def culprit_source(graph: Graph, index: int) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Writes `class Culprit`, which runs one node alone. Also returns the operands that it takes, by position, and
    the output slots that it returns. A repeated operand is taken once.
    """
    node = graph.nodes[index]
    read = operands(node)
    taken = list(dict.fromkeys(read))
    first = graph.first_value[index]
    slots = tuple(slot for slot, spec in enumerate(node.outputs) if spec is not None)
    values = {
        number: f"v{number}" if number >= len(graph.inputs) else f"x{number}" for number in range(len(graph.values))
    }
    lines = ["class Culprit(torch.nn.Module):", f"    def forward({', '.join(['self', *(values[v] for v in taken)])}):"]
    lines += _call(node, values, first, f"# node {index}:{_specs(node.outputs)}")
    lines.append(f"        return ({', '.join(values[first + slot] for slot in slots)},)")
    return "\n".join(lines), tuple(read.index(value) for value in taken), slots


def argument(arg: Arg, values: Mapping[int, str]) -> str:
    """Writes an argument in Python. `values`: the expressions of the graph's values."""
    if isinstance(arg, Ref):
        return values[arg.index]
    if isinstance(arg, (DType, MemoryFormat, Layout)):
        return f"torch.{arg.name}"
    if isinstance(arg, Device):
        return 'torch.device("cpu")'
    if isinstance(arg, tuple):
        return f"[{', '.join(argument(item, values) for item in arg)}]"
    return repr(arg) if arg is None or isinstance(arg, str) else number(arg)


def _weight(name: str, expression: str, parameter: bool) -> list[str]:
    made = f"torch.nn.Parameter({expression}, requires_grad=False)" if parameter else expression
    method = "register_parameter" if parameter else "register_buffer"
    return textwrap.indent(f'self.{method}("{name}", {made})', "        ").split("\n")


def _call(node: Node, values: Mapping[int, str], first: int, comment: str) -> list[str]:
    given = [argument(arg, values) for arg in node.args]
    given += [f"{name}={argument(arg, values)}" for name, arg in node.kwargs]
    function = f"torch.ops.{node.op}"
    left = call_target(node, values, first)
    start = f"        {left} = {function}(" if left else f"        {function}("
    line = f"{start}{', '.join(given)})"
    if len(line) + len(comment) + 2 <= _WIDTH:
        return [f"{line}  {comment}"]
    if len(line) <= _WIDTH:
        return [f"        {comment}", line]
    inner = textwrap.wrap(", ".join(given), _WIDTH - 12, break_long_words=False, break_on_hyphens=False)
    return [f"        {comment}", start, *(f"            {part}" for part in inner), "        )"]


def call_target(node: Node, values: Mapping[int, str], first: int) -> str:
    """Returns the left side of the assignment: a name, or names for the members of tuples and lists."""
    slots = [values[first + i] if spec is not None else "_" for i, spec in enumerate(node.outputs)]
    kinds = [str(returned.type) for returned in overload(node.op)._schema.returns]
    if not slots:
        return ""
    if len(kinds) == 1:
        return _members(slots) if "List" in kinds[0] else slots[0]
    lists = sum("List" in kind for kind in kinds)
    each = (len(slots) - (len(kinds) - lists)) // lists if lists else 0
    parts: list[str] = []
    for kind in kinds:
        take = each if "List" in kind else 1
        parts.append(f"({_members(slots[:take])})" if "List" in kind else slots[0])
        slots = slots[take:]
    return _members(parts)


def _members(slots: Sequence[str]) -> str:
    return ", ".join(slots) + ("," if len(slots) == 1 else "")


def _specs(specs: Sequence[TensorSpec | None]) -> str:
    text = ", ".join("None" if spec is None else str(spec) for spec in specs)
    return f" {text}" if len(text) <= 80 else f" {len(specs)} results"
