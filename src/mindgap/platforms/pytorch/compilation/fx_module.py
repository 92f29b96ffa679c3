"""Converts a graph to a `torch.fx.GraphModule`, the input of compilers."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

import torch
import torch.fx

from mindgap.aten.operators import bind, callable_of, facts, overload
from mindgap.aten.tape import written_inputs
from mindgap.graph import Graph, Node


def foldable(graph: Graph) -> frozenset[int]:
    """Returns the inputs that a program may fold: parameters, buffers and constants that it only reads."""
    fixed = {i for i, given in enumerate(graph.inputs) if given.role not in ("input", "random")}
    return frozenset(fixed - set(written_inputs(graph)) - set(graph.grad))


def to_fx(graph: Graph, device: str, folded: Mapping[int, torch.Tensor] | None = None) -> torch.fx.GraphModule:
    """Makes a module that takes the inputs not in `folded`, in order, and returns the outputs as a tuple.

    The folded ones are buffers of it or frozen parameters, as in the model. It writes to inputs where
    the graph does: give it copies. Raises `UnknownOperator`.
    """
    folded = folded or {}
    root = torch.nn.Module()
    built = torch.fx.Graph()
    values: list[torch.fx.Node | None] = []
    for index in range(len(graph.inputs)):
        if index in folded:
            name = f"held_{index}"
            if graph.inputs[index].role == "buffer":
                root.register_buffer(name, folded[index])
            else:
                root.register_parameter(name, torch.nn.Parameter(folded[index], requires_grad=False))
            values.append(built.get_attr(name))
        else:
            values.append(built.placeholder(f"input_{index}"))
    for node in graph.nodes:
        values.extend(_call(built, node, values, torch.device(device)))
    built.output(tuple(values[i] for i in graph.outputs))
    return torch.fx.GraphModule(root, built)


def _call(
    built: torch.fx.Graph, node: Node, values: Sequence[torch.fx.Node | None], device: torch.device
) -> list[torch.fx.Node | None]:
    known = facts(node.op)
    args = tuple(bind(arg, values, device) for arg in node.args)
    kwargs = {name: bind(arg, values, device) for name, arg in node.kwargs}
    if known.takes_device and "device" not in kwargs and len(args) <= known.arguments.index("device"):
        kwargs["device"] = device
    made = built.call_function(callable_of(node), args, kwargs)
    paths = _paths(node)
    nodes: list[torch.fx.Node | None] = []
    for path, spec in zip(paths, node.outputs, strict=True):
        member = made
        for step in path if spec is not None else ():
            member = built.call_function(operator.getitem, (member, step))
        nodes.append(member if spec is not None else None)
    return nodes


def _paths(node: Node) -> list[tuple[int, ...]]:
    """Returns, for each output slot, its indices within the operator's nested result."""
    returns = [str(r.type) for r in overload(node.op)._schema.returns]
    slots = len(node.outputs)
    if len(returns) == 1:
        return [(i,) for i in range(slots)] if "List" in returns[0] else [() for _ in range(slots)]
    lists = sum("List" in r for r in returns)
    if lists == 0:
        return [(i,) for i in range(slots)]
    # Members of the one list share what is left after the single tensors.
    each = (slots - (len(returns) - lists)) // lists
    paths: list[tuple[int, ...]] = []
    for position, kind in enumerate(returns):
        paths += [(position, i) for i in range(each)] if "List" in kind else [(position,)]
    return paths
