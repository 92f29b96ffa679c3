"""Exports a program once with dynamic dimensions, and feeds it arguments of other sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch

from mindgap.graph import Array, MindgapError
from mindgap.graph.compare.metrics import distance
from mindgap.models.own_path.program_run import Failure, FlatProgram, run_by, run_eagerly
from mindgap.models.own_path.sizes import DynamicSize, SizeRun
from mindgap.platforms.script_runner import ScriptRunner

#: Names of dimensions of every tensor among the arguments that has them.
_EVERYWHERE: Final = {"batch": 0, "seq": 1}
#: What an export is told of dimensions, by the call that it is.
_TOLD: Final = {
    "torch.onnx.export(model, fresh()": "torch.onnx.export(model, fresh(), dynamic_shapes=model.dynamic_shapes",
    "torch.export.export(model, fresh()": "torch.export.export(model, fresh(), dynamic_shapes=model.dynamic_shapes",
    "torch.compile(model.program": "torch.compile(model.program, dynamic=True",
    "torch.jit.trace(model, fresh()": "torch.jit.trace(model, fresh()",
}


def run_sizes(
    program: FlatProgram, eager: FlatProgram, runner: ScriptRunner, sizes: Sequence[DynamicSize]
) -> tuple[list[SizeRun], list[str]] | Failure:
    """Runs the export at several sizes. Returns these runs and what was left out, or why nothing was exported.

    `eager`: the same program, which no runner changes. Raises `MindgapError` for a dimension that no argument has.
    """
    places = {size.name: _places(program, size.name) for size in sizes}
    told = [(old, new) for old, new in _TOLD.items() if old in runner.run]
    if not told:
        return Failure("this way takes no dynamic dimensions", ours=True)
    runner = replace(runner, run=runner.run.replace(*told[0]))
    program.dynamic_shapes = _dynamic_shapes(program, sizes, places)
    chosen, left_out = list[tuple[str, list[torch.Tensor], list[Array]]](), list[str]()
    for sizes_now in _chosen(sizes, program, places):
        words = ", ".join(f"{name}={size}" for name, size in sizes_now.items())
        tensors = _resized(program, sizes_now, places)
        try:
            chosen.append((words, tensors, run_eagerly(eager, tensors)))
        except Exception as error:
            left_out.append(f"{words} ({type(error).__name__})")
    if not chosen:
        return Failure(f"the program itself refuses every other size: {', '.join(left_out)}", ours=True)
    exports: dict[str, Any] = {}
    first = run_by(program, runner, None, exports)
    if isinstance(first, Failure):
        return first
    runs = [SizeRun("the exported sizes", distance(first, run_eagerly(eager)))]
    for words, tensors, expected in chosen:
        found = run_by(program, runner, tensors, exports)
        if isinstance(found, Failure):
            runs.append(SizeRun(words, None, found.message, found.line))
        else:
            runs.append(SizeRun(words, distance(found, expected)))
    return runs, left_out


def _places(program: FlatProgram, name: str) -> list[tuple[int, int]]:
    """The tensors (by place among the arguments) and dimensions that a name stands for."""
    if name in _EVERYWHERE:
        wanted = _EVERYWHERE[name]
        found = [(place, wanted) for place, tensor in enumerate(program.tensors) if tensor.dim() > wanted]
    else:
        argument, _, dimension = name.rpartition(".")
        known = [place for place, each in enumerate(program.names) if each == argument]
        fits = dimension.isdecimal() and known and program.tensors[known[0]].dim() > int(dimension)
        found = [(known[0], int(dimension))] if fits else []
    if not found:
        raise MindgapError(
            f"--dynamic {name}: no argument has it; the arguments are "
            f"{', '.join(f'{n} {list(t.shape)}' for n, t in zip(program.names, program.tensors, strict=True))}"
        )
    return found


def _dynamic_shapes(
    program: FlatProgram, sizes: Sequence[DynamicSize], places: Mapping[str, Sequence[tuple[int, int]]]
) -> dict[str, Any]:
    """What `torch.export` is told: the dimensions of each tensor."""
    told: list[dict[int, Any]] = [{} for _ in program.tensors]
    for size in sizes:
        dimension = torch.export.Dim(size.name.replace(".", "_"), min=size.low, max=size.high)
        for place, axis in places[size.name]:
            told[place][axis] = dimension
    return {"tensors": tuple(told)}


def _chosen(
    sizes: Sequence[DynamicSize], program: FlatProgram, places: Mapping[str, Sequence[tuple[int, int]]]
) -> list[dict[str, int]]:
    """The sizes to run: each dimension's smallest, largest, and one between that was not exported, the others as they
    are; then all smallest and all largest."""
    given = {size.name: program.tensors[places[size.name][0][0]].shape[places[size.name][0][1]] for size in sizes}
    found: list[dict[str, int]] = []
    for size in sizes:
        between = (size.low + size.high) // 2
        between += between == given[size.name]
        for value in dict.fromkeys((size.low, size.high, min(between, size.high))):
            found.append({size.name: value})
    if len(sizes) > 1:
        found += [{size.name: size.low for size in sizes}, {size.name: size.high for size in sizes}]
    return [each for each in found if any(given[name] != value for name, value in each.items())]


def _resized(
    program: FlatProgram, chosen: Mapping[str, int], places: Mapping[str, Sequence[tuple[int, int]]]
) -> list[torch.Tensor]:
    """The arguments with other sizes: their slices, again from the first where there are more."""
    found = list(program.tensors)
    for name, size in chosen.items():
        for place, axis in places[name]:
            index = torch.arange(size) % found[place].shape[axis]
            found[place] = found[place].index_select(axis, index).contiguous()
    return found
