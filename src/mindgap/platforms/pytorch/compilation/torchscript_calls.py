"""Rewrites calls that TorchScript's tracer cannot record as small TorchScript functions.

The tracer knows no list of booleans (the `output_mask` of every backward kernel) and no result that is
undefined because such a mask left it out. Its compiler knows both: each call becomes a small function in
TorchScript's own language, which a trace takes in as it is.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from mindgap.aten.torch_private.overloads import OpOverload


def without_boolean_lists(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Compiles every call that takes a list of booleans; changes the module in place.

    A call whose other arguments cannot be written in TorchScript stays, and the tracer refuses it.
    """
    calls = [
        node
        for node in module.graph.nodes
        if isinstance(node.target, OpOverload) and any(map(_has_booleans, node.args))
    ]
    for node in calls:
        _replace(module.graph, node)
    if calls:
        module.graph.lint()
        module.recompile()
    return module


def _has_booleans(argument: Any) -> bool:
    return isinstance(argument, (list, tuple)) and any(isinstance(item, bool) for item in argument)  # pyright: ignore[reportUnknownVariableType] # arguments are untyped


def _replace(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    readers = list(node.users)
    members = [reader.args[1] for reader in readers if reader.target is operator.getitem]
    if node.kwargs or len(members) != len(readers) or not members:
        return
    kept = sorted({int(str(member)) for member in members})
    operands: list[torch.fx.Node] = []
    spelled = [_as_torchscript(argument, operands) for argument in node.args]
    if None in spelled:
        return
    function = _compiled(node.target, [text for text in spelled if text is not None], len(operands), kept)
    with graph.inserting_before(node):
        call = graph.call_function(function, tuple(operands))
    for reader in readers:
        reader.args = (call, kept.index(int(str(reader.args[1]))))
    graph.erase_node(node)


def _compiled(target: Any, arguments: Sequence[str], operands: int, kept: Sequence[int]) -> Callable[..., Any]:
    """Makes a TorchScript function of the operands that returns the results numbered in `kept`."""
    name = str(target.overloadpacket.__name__)
    parameters = ", ".join(f"x{index}: Tensor" for index in range(operands))
    results = "".join(f"made[{index}], " for index in kept)
    source = (
        f"def {name}({parameters}):\n    made = torch.ops.aten.{name}({', '.join(arguments)})\n    return ({results})\n"
    )
    unit: Any = torch.jit.CompilationUnit(source)
    function = getattr(unit, name)

    def call(*tensors: torch.Tensor) -> Any:  # FX writes functions down by their name, and TorchScript's have none
        return function(*tensors)

    call.__name__ = call.__qualname__ = name
    return call


def _as_torchscript(argument: Any, operands: list[torch.fx.Node]) -> str | None:
    """Writes the argument in TorchScript, None if that is impossible. Tensors are added to `operands`."""
    if isinstance(argument, torch.fx.Node):
        operands.append(argument)
        return f"x{len(operands) - 1}"
    if argument is None or isinstance(argument, (bool, int)):
        return repr(argument)
    if isinstance(argument, float):
        return repr(argument) if math.isfinite(argument) else f"float('{argument}')"
    if isinstance(argument, (list, tuple)):
        items = [_as_torchscript(item, operands) for item in argument]  # pyright: ignore[reportUnknownVariableType] # as above
        return None if None in items else f"[{', '.join(text for text in items if text is not None)}]"
    return None
