"""Exports a program once with dynamic dimensions, and feeds it arguments of other sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Final

import torch

from mindgap.aten.torch_private.fake_tensors import TorchDispatchMode
from mindgap.aten.torch_private.modules import tree_map_only
from mindgap.graph import Array, MindgapError
from mindgap.graph.compare.metrics import distance
from mindgap.graph_capture.program import bound_arguments
from mindgap.own_path.failures import Failure
from mindgap.own_path.program_run import FlatProgram, run_by, run_eagerly
from mindgap.own_path.sizes import FAR, DynamicSize, SizeRun, size_words
from mindgap.own_path.stages import EXPORTS, line_that_fixes_a_size
from mindgap.platforms.script_runner import ScriptRunner

#: Names of dimensions of every tensor among the arguments that has them.
_EVERYWHERE: Final = {"batch": 0, "seq": 1}
#: How an export gets dimensions, by its call.
_TOLD: Final = {
    "torch.onnx.export(model, fresh()": "torch.onnx.export(model, fresh(), dynamic_shapes=model.dynamic_shapes",
    "torch.export.export(model, fresh()": "torch.export.export(model, fresh(), dynamic_shapes=model.dynamic_shapes",
    "torch.compile(model.program": "torch.compile(model.program, dynamic=True",
    "torch.jit.trace(model, fresh()": "torch.jit.trace(model, fresh()",
}


@dataclass(frozen=True, slots=True)
class _Place:
    """A dimension of a tensor among the arguments. `size`: of it, by the size of the dynamic dimension."""

    tensor: int
    axis: int
    size: Callable[[int], int] = int


@dataclass(frozen=True, slots=True)
class DynamicDimensions:
    """Dimensions that an export keeps open: their ranges, where each is, and `dynamic_shapes` of a `FlatProgram`."""

    sizes: tuple[DynamicSize, ...]
    places: Mapping[str, Sequence[_Place]]
    shapes: Mapping[str, Any]

    def resized(self, program: FlatProgram, chosen: Mapping[str, int]) -> list[torch.Tensor]:
        """The arguments with other sizes: their slices, again from the first where there are more."""
        tensors = list(program.tensors)
        for name, size in chosen.items():
            for place in self.places[name]:
                index = torch.arange(place.size(size)) % tensors[place.tensor].shape[place.axis]
                tensors[place.tensor] = tensors[place.tensor].index_select(place.axis, index).contiguous()
        return tensors

    def chosen(self, program: FlatProgram) -> list[dict[str, int]]:
        """The sizes to run: each dimension's smallest, largest, and one between that was not exported, the others as
        they are; then all smallest and all largest."""
        given = {size.name: self._given(program, size) for size in self.sizes}
        sizes: list[dict[str, int]] = []
        for size in self.sizes:
            between = (size.low + size.high) // 2
            between += between == given[size.name]
            for value in dict.fromkeys((size.low, size.high, min(between, size.high))):
                sizes.append({size.name: value})
        if len(self.sizes) > 1:
            sizes += [{size.name: size.low for size in self.sizes}, {size.name: size.high for size in self.sizes}]
        return [each for each in sizes if any(given[name] != value for name, value in each.items())]

    def _given(self, program: FlatProgram, size: DynamicSize) -> int:
        """The size with which the arguments have it; 0 where no size of the range gives it."""
        first = self.places[size.name][0]
        wanted = program.tensors[first.tensor].shape[first.axis]
        return next((each for each in range(size.low, size.high + 1) if first.size(each) == wanted), 0)


def asked_dimensions(program: FlatProgram, sizes: Sequence[DynamicSize]) -> DynamicDimensions:
    """Returns the dimensions that a user names. Raises `MindgapError` for one that no argument has."""
    places = {size.name: _places(program, size.name) for size in sizes}
    dimensions_of: list[dict[int, Any]] = [{} for _ in program.tensors]
    for size in sizes:
        dimension = torch.export.Dim(size.name.replace(".", "_"), min=size.low, max=size.high)
        for place in places[size.name]:
            dimensions_of[place.tensor][place.axis] = dimension
    return DynamicDimensions(tuple(sizes), places, {"tensors": tuple(dimensions_of)})


def declared_dimensions(program: FlatProgram, declared: Any) -> DynamicDimensions:
    """Returns the dimensions that a source declares in the form of `torch.export.export`. Raises `MindgapError`.

    A range without an end reaches one more than twice the size that the arguments have. Dimensions without a name
    (`Dim.AUTO`, `Dim.DYNAMIC`) of one size have one size in every run.
    """
    dimensions_of = _declared_of(program, declared)
    sizes: dict[str, DynamicSize] = {}
    places: dict[str, list[_Place]] = {}
    unnamed: dict[int, str] = {}
    for number, (name, tensor) in enumerate(zip(program.names, program.tensors, strict=True)):
        for axis, dimension in dimensions_of[number].items():
            if axis not in range(-tensor.dim(), tensor.dim()):
                raise MindgapError(f"dynamic_shapes: {name} {list(tensor.shape)} has no dimension {axis!r}")
            given = int(tensor.shape[axis])
            hint = getattr(getattr(dimension, "type", None), "name", "")
            root = getattr(dimension, "root", dimension)
            if dimension is None or isinstance(dimension, int) or hint == "STATIC":
                continue
            if not hint and not hasattr(root, "max"):
                raise MindgapError(f"dynamic_shapes: {name}, dimension {axis}: {dimension!r} is no torch.export.Dim")
            called = unnamed.setdefault(given, f"{name}.{axis}") if hint else str(root.__name__)
            places.setdefault(called, []).append(_Place(number, axis, getattr(dimension, "fn", int)))
            high = root.max if isinstance(root.max, int) else 2 * given + 1
            sizes.setdefault(called, DynamicSize(called, max(int(root.min or 0), 2 if hint else 1), high))
    if not sizes:
        raise MindgapError("dynamic_shapes: no dimension in it is dynamic")
    return DynamicDimensions(tuple(sizes.values()), places, {"tensors": tuple(dimensions_of)})


def _declared_of(program: FlatProgram, declared: Any) -> list[dict[int, Any]]:
    """What is declared of each tensor, by dimension."""
    by_tensor: dict[int, dict[int, Any]] = {}

    def walk(value: Any, given: Any, where: str) -> None:
        if given is None:
            return
        if isinstance(value, torch.Tensor):
            if not isinstance(given, (dict, tuple, list)):
                raise MindgapError(f"dynamic_shapes: {where}: write {{dimension: torch.export.Dim(…)}}")
            by_tensor[id(value)] = dict(given if isinstance(given, dict) else enumerate(given))  # pyright: ignore[reportUnknownArgumentType] # any sequence
            return
        inner: dict[str, Any]
        if is_dataclass(value) and not isinstance(value, type):
            inner = {each.name: getattr(value, each.name) for each in fields(value)}
        elif isinstance(value, Mapping):
            inner = {str(key): each for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] # any mapping
        elif isinstance(value, (list, tuple)):
            inner = {str(key): each for key, each in enumerate(value)}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] # any sequence
        else:
            raise MindgapError(f"dynamic_shapes: {where} is no tensor, and has no dimensions")
        if isinstance(given, Mapping):
            parts: dict[str, Any] = {str(key): each for key, each in given.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] # any mapping
        elif isinstance(given, (list, tuple)):
            parts = dict(zip(inner, given, strict=False))  # pyright: ignore[reportUnknownArgumentType] # any sequence
        else:
            raise MindgapError(f"dynamic_shapes: {where}: write it as the arguments are nested")
        for key, part in parts.items():
            if key not in inner:
                raise MindgapError(f"dynamic_shapes: {where} has no {key}; there are {', '.join(inner)}")
            walk(inner[key], part, f"{where}.{key}")

    walk(bound_arguments(program.program, *program.arguments(program.tensors)), declared, "the arguments")
    return [by_tensor.get(id(tensor), {}) for tensor in program.tensors]


def told_of_dimensions(runner: ScriptRunner) -> ScriptRunner | None:
    """Returns the runner whose export keeps the `dynamic_shapes` of its program open; None if it exports nothing."""
    replacements = [(old, new) for old, new in _TOLD.items() if old in runner.run]
    return replace(runner, run=runner.run.replace(*replacements[0])) if replacements else None


def run_sizes(
    program: FlatProgram, eager: FlatProgram, runner: ScriptRunner, dimensions: DynamicDimensions, file: bool = False,
    on_stage: Callable[[str], object] = str,
) -> tuple[list[SizeRun], list[str]] | Failure:  # fmt: skip
    """Runs the export at several sizes. Returns these runs and what was left out, or why nothing was exported.

    `eager`: the same program, which no runner changes. `file`: the runner runs a ready-made file. `on_stage`: is given
    the size before each run, so that the end of the process has it.
    """
    exporting = runner if file else told_of_dimensions(runner)
    if exporting is None:
        return Failure("this way takes no dynamic dimensions", ours=True)
    program.dynamic_shapes = dimensions.shapes
    chosen, left_out = list[tuple[str, list[torch.Tensor], list[Array]]](), list[str]()
    for sizes_now in dimensions.chosen(program):
        words, tensors = size_words(sizes_now), dimensions.resized(program, sizes_now)
        try:
            chosen.append((words, tensors, run_eagerly(eager, tensors)))
        except Exception as error:
            left_out.append(f"{words} ({error})")
    if not chosen:
        return Failure(f"the program itself refuses every other size: {', '.join(left_out)}", ours=True)
    exports: dict[str, Any] = {}
    first = run_by(program, exporting, None, exports)
    if isinstance(first, Failure):
        return replace(first, line=first.line or _fixing_line(program, exporting))
    runs = [SizeRun("the exported sizes", distance(first, run_eagerly(eager)))]
    for words, tensors, expected in chosen:
        on_stage(f"running it at {words}")
        # A file has no export that is kept: it is fed as if for the first time.
        feeding = FlatProgram(program.program, *program.arguments(tensors), input_map=program.input_map)
        results = run_by(feeding, exporting) if file else run_by(program, exporting, tensors, exports)
        if isinstance(results, Failure):
            runs.append(SizeRun(words, None, results.message, results.line))
        else:
            apart = distance(results, expected)
            moves = rounding_moves(eager, tensors, expected) if FAR < apart < math.inf else 0.0
            runs.append(SizeRun(words, apart, moves=moves))
    if all(each.apart is not None and each.apart < FAR for each in runs) or any(each.line for each in runs):
        return runs, left_out
    line = _fixing_line(program, exporting)
    return [replace(each, line=line) for each in runs], left_out


class _Rounded(TorchDispatchMode):
    """Moves each float that a call computes up or down by a unit in the last place of its dtype, drawn by a seed.

    Views, what is written in place, float8, and the results of operators of higher order stay as they are.
    """

    supports_higher_order_operators = True

    def __init__(self, seed: int) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        schema = getattr(func, "_schema", None)
        aliases = schema is None or schema.is_mutable or any(each.alias_info for each in schema.returns)
        return result if aliases else tree_map_only(torch.Tensor, self._moved, result)

    def _moved(self, tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or tensor.itemsize < 2 or tensor.layout is not torch.strided:
            return tensor
        signs = torch.randint(0, 2, tensor.shape, generator=self._generator) * 2 - 1
        return tensor * (1 + torch.finfo(tensor.dtype).eps * signs).to(tensor.dtype)


def rounding_moves(program: FlatProgram, tensors: Sequence[torch.Tensor], expected: Sequence[Array]) -> float:
    """Returns how far the outputs in eager mode move, of three draws, where each result is a unit off."""

    def moved(seed: int) -> float:
        with _Rounded(seed):
            return distance(run_eagerly(program, tensors), expected)

    return max(map(moved, range(3)))


def _fixing_line(program: FlatProgram, runner: ScriptRunner) -> str:
    """The user's line that fixes a size in an export by `torch.export`."""
    return line_that_fixes_a_size(program) if any(each in runner.run for each in EXPORTS) else ""


def _places(program: FlatProgram, name: str) -> list[_Place]:
    """The tensors (by place among the arguments) and dimensions that a name stands for."""
    if name in _EVERYWHERE:
        wanted = _EVERYWHERE[name]
        places = [_Place(place, wanted) for place, tensor in enumerate(program.tensors) if tensor.dim() > wanted]
    else:
        argument, _, dimension = name.rpartition(".")
        known = [place for place, each in enumerate(program.names) if each == argument]
        fits = dimension.isdecimal() and known and program.tensors[known[0]].dim() > int(dimension)
        places = [_Place(known[0], int(dimension))] if fits else []
    if not places:
        raise MindgapError(
            f"--dynamic {name}: no argument has it: name batch, seq or ARGUMENT.DIMENSION; the arguments are "
            f"{', '.join(f'{n} {list(t.shape)}' for n, t in zip(program.names, program.tensors, strict=True))}"
        )
    return places
