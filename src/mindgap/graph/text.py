"""Prints a graph as text: one line for each input, node and output.

    %0: float32[2,3] input x = Normal(seed=1, mean=0.0, std=1.0)
    %1: float32[4,3] parameter fc.weight = Stored(key='5f0c…')
    %2: float32[2,4] = aten.linear.default(%0, %1, None)  # fc (model.py:12)
    return %2 result

A value is `%` with its number. The specs of an operator's results come first; `-` stands for a slot without a tensor.
Strides are shown where they are not row-major. The text is for people and tests: `mindgap.graph.encode` keeps a graph.
"""

from __future__ import annotations

from typing import Final, assert_never

import numpy as np

from mindgap.graph.graph import Arg, Device, DType, Graph, Input, Layout, MemoryFormat, Node, Ref
from mindgap.graph.recipe import Constant, Literal
from mindgap.graph.spec import TensorSpec, contiguous_stride, numpy_dtype

#: Literal values are printed up to this number of elements.
_ELEMENTS: Final = 8


def graph_text(graph: Graph) -> str:
    """Prints a graph, without a newline at the end."""
    lines = [_input_line(graph, number) for number in range(len(graph.inputs))]
    lines += [_node_line(graph, index) for index in range(len(graph.nodes))]
    names = [_label(name) for name in graph.labels.outputs] or [""] * len(graph.outputs)
    returned = ", ".join(f"%{number} {name}".rstrip() for number, name in zip(graph.outputs, names, strict=True))
    gradients = f"  gradients of {', '.join(f'%{number}' for number in graph.grad)}" if graph.grad else ""
    return "\n".join([*lines, f"return {returned or 'nothing'}{gradients}"])


def argument_text(arg: Arg) -> str:
    """Prints an argument of a node: `%3`, `[1, 2]`, `float32`, `0.5`."""
    match arg:
        case Ref():
            return f"%{arg.index}"
        case DType() | MemoryFormat() | Layout():
            return arg.name
        case Device():
            return "device"
        case tuple():
            return f"[{', '.join(argument_text(item) for item in arg)}]"
        case None | bool() | int() | float() | complex() | str():
            return repr(arg)
        case _:
            assert_never(arg)


def spec_text(spec: TensorSpec | None) -> str:
    """Prints a spec: `float32[2,3]`, with strides where they are not row-major, `-` for no tensor."""
    if spec is None:
        return "-"
    strided = spec.stride != contiguous_stride(spec.shape) and spec.numel > 0
    return f"{spec} strides [{','.join(map(str, spec.stride))}]" if strided else str(spec)


def _input_line(graph: Graph, number: int) -> str:
    given = graph.inputs[number]
    name = _label(graph.labels.inputs[number]) if graph.labels.inputs else ""
    return f"%{number}: {spec_text(given.spec)} {given.role} {name}".rstrip() + f" = {_recipe_text(given)}"


def _recipe_text(given: Input) -> str:
    recipe = given.recipe
    if isinstance(recipe, Constant):
        return repr(recipe.value)
    if isinstance(recipe, Literal):
        if given.spec.numel > _ELEMENTS:
            return f"Literal({len(recipe.data)} bytes)"
        return str(np.frombuffer(recipe.data, numpy_dtype(given.spec.dtype)).tolist())
    return str(recipe)


def _node_line(graph: Graph, index: int) -> str:
    node = graph.nodes[index]
    results = ", ".join(
        f"%{number}: {spec_text(spec)}" for number, spec in zip(graph.results(index), node.outputs, strict=True)
    )
    origin = _label(graph.labels.nodes[index]) if graph.labels.nodes else ""
    return f"{results or '-'} = {_call_text(node)}" + (f"  # {origin}" if origin else "")


def _label(name: str) -> str:
    """A name on one line."""
    return name if name.isprintable() else repr(name)[1:-1]


def _call_text(node: Node) -> str:
    named = (f"{name}={argument_text(arg)}" for name, arg in node.kwargs)
    return f"{node.op}({', '.join([*map(argument_text, node.args), *named])})"
