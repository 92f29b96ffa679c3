"""Runs a graph's calls on torchax tensors, so that JAX can trace them.

A module of PyTorch's users reaches torchax as calls of ATen overloads, by `__torch_dispatch__`. The graph's calls go
the same way, where composite operators are decomposed by PyTorch. torchax's other way, by `__torch_function__`, gets
calls of Python functions: no user calls an overload there, and its translations expect arguments that an overload's
call leaves out. So what goes there is the function of the same signature, where torchax has a translation of it
(`torch.linalg.det`), and conversions, since PyTorch's own do not know torchax's device.
"""

from __future__ import annotations

import inspect
from operator import getitem
from types import BuiltinFunctionType, FunctionType
from typing import Any, cast

import torch
import torch.fx

from mindgap.aten.torch_private.overloads import schema_of
from mindgap.graph import Graph
from mindgap.platforms.pytorch.compilation.fx_module import to_fx


class Replay:
    """The graph as a function of JAX arrays. `operator`: the ATen operator that is being translated."""

    def __init__(self, environment: Any, graph: Graph) -> None:
        self._environment = environment
        self._interpreter = _Interpreter(to_fx(graph, "jax"), environment)

    @property
    def operator(self) -> str:
        """The operator at which a trace stopped; empty where none was begun, or all were translated."""
        return self._interpreter.operator

    def run(self, *arrays: Any) -> list[Any]:
        """Takes all inputs of the graph, and returns all outputs."""
        given = self._environment.j2t_iso(arrays)
        with self._environment._dispatch_mode, torch.no_grad():
            results = self._interpreter.run(*given)
        self._interpreter.operator = ""
        return [self._environment.t2j_iso(each) for each in results]


def _function_of(overload: Any) -> Any:
    """The function of PyTorch's that takes what an operator takes, and that users call; None without one."""
    name: str = overload.overloadpacket.__name__
    places: list[tuple[Any, str]] = [(torch, ""), (torch.linalg, "linalg_"), (torch.nn.functional, "")]
    named = [getattr(place, name.removeprefix(prefix), None) for place, prefix in places if name.startswith(prefix)]
    return next((function for function in named if function is not None and _takes_the_same(function, overload)), None)


def _takes_the_same(function: Any, overload: Any) -> bool:
    """A function of the binding has the overload's signature; one in Python need not."""
    if isinstance(function, BuiltinFunctionType):
        return True
    if not isinstance(function, FunctionType):
        return False
    expected = ["input" if each.name == "self" else each.name for each in schema_of(overload).arguments]
    return list(inspect.signature(function).parameters)[: len(expected)] == expected


class _Interpreter(torch.fx.Interpreter):
    operator = ""

    def __init__(self, module: torch.fx.GraphModule, environment: Any) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self._environment = environment

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        packet = getattr(target, "overloadpacket", None)
        if packet is not None:
            function = torch.Tensor.to if packet is torch.ops.aten.to else _function_of(target)
            if function is torch.Tensor.to:
                # `Tensor.to` takes no memory format by position; None is its default.
                formats = [arg for arg in args if isinstance(arg, torch.memory_format)]
                args = tuple(arg for arg in args if arg is not None and not isinstance(arg, torch.memory_format))
                kwargs = {**kwargs, "memory_format": formats[0]} if formats else kwargs
            if function is torch.Tensor.to or function in self._environment._ops:
                with self._environment:
                    return function(*args, **kwargs)
        return super().call_function(target, args, kwargs)

    def run_node(self, n: torch.fx.Node) -> Any:
        if n.op == "call_function" and n.target is not getitem:
            self.operator = str(cast("object", n.target))
        return super().run_node(n)
