"""Exports a graph as a `torch.export.ExportedProgram`, the input of converters of PyTorch programs."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.export

from mindgap.aten.tape import written_inputs
from mindgap.aten.tensors import input_tensors
from mindgap.aten.torch_private.export_speed import remember_composite_operators
from mindgap.aten.torch_private.overloads import OpOverload
from mindgap.graph import Graph, GraphError
from mindgap.platforms.protocol import Array, CompileFailure
from mindgap.platforms.pytorch.compilation.fx_module import foldable, to_fx

_NAMED: Final = re.compile(r"\baten(?:\.|::)(\w+)(?:\.\w+)?")
_LOGGERS: Final = ("torch.export", "torch._export", "torch.fx", "torch._subclasses", "torch._dynamo")


@dataclass(frozen=True)
class ExportedGraph:
    """`exported`: the program as `torch.export.export` gives it, parameters inside. `example`: its inputs.

    `fed`: number of the graph input behind each input of the program, in order.
    """

    exported: torch.export.ExportedProgram
    example: tuple[torch.Tensor, ...]
    fed: tuple[int, ...]

    def operators(self) -> tuple[str, ...]:
        """Names of the operators that the program calls, as `aten.add.Tensor`; without `getitem` of their results."""
        kind: Any = OpOverload
        return tuple(str(node.target) for node in self.exported.graph.nodes if isinstance(node.target, kind))


def operator_named(message: str, called: Sequence[str]) -> str:
    """Returns the only operator that a program calls; else the first that a converter's message names, as the program
    calls it if it does; empty where it names none.

    A runtime's `aten::view_copy.out` is the program's `aten.view.default`.
    """
    if len(set(called)) == 1:
        return called[0]
    named = _NAMED.search(message)
    if named is None:
        return ""
    for packet in (named[1], named[1].removesuffix("_copy")):
        for each in called:
            if each.split(".")[1] == packet:
                return each
    return named[0].replace("::", ".")


def export_program(graph: Graph, inputs: Sequence[Array]) -> ExportedGraph:
    """Exports the graph's calls as they are: composite operators stay whole, in-place ones stay in-place.

    Parameters, buffers and constants that the graph only reads are parameters of the program. An input that the
    graph writes to is copied first, so that the program writes to none. Raises `CompileFailure` where
    `torch.export` raises: converters that start from its programs cannot take the graph.
    """
    remember_composite_operators()
    held = foldable(graph)
    tensors = input_tensors(graph, inputs)
    fed = tuple(number for number in range(len(tensors)) if number not in held)
    example = tuple(tensors[number] for number in fed)
    module = to_fx(graph, "cpu", {number: tensors[number] for number in held})
    _copy_written(module, graph, fed)
    try:
        with torch.no_grad(), quiet():
            return ExportedGraph(torch.export.export(module, example), example, fed)
    except Exception as error:
        raise CompileFailure(f"torch.export failed: {type(error).__name__}: {error}") from error


def _copy_written(module: torch.fx.GraphModule, graph: Graph, fed: Sequence[int]) -> None:
    """Inserts a copy behind each input that the graph writes to; strides are kept."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    last = placeholders[-1] if placeholders else None
    for number in written_inputs(graph):
        if last is None or number not in fed:
            raise GraphError(f"input {number} is written to and not fed")
        placeholder = placeholders[fed.index(number)]
        with module.graph.inserting_after(last):
            copy = module.graph.call_function(torch.ops.aten.clone.default, (placeholder,))
        placeholder.replace_all_uses_with(copy)
        copy.args = (placeholder,)
    module.recompile()


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """Silences the exporter's log, which repeats the error that it raises."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
