"""Chooses sizes for the symbolic dimensions of a model's inputs, and draws the inputs."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.tensors import torch_dtype_name
from mindgap.graph import Constant, Integers, Normal, Recipe, Uniform
from mindgap.onnx_files.model_proto import op_of, texts_of
from mindgap.onnx_files.operand_values import DrawnOperand, values_for
from mindgap.onnx_files.pointwise import element_type
from mindgap.sources.program import ArgumentChange, Built
from mindgap.sources.sample_inputs import new_registry
from mindgap.sources.translated_model import Unrunnable, Untranslated, UntranslatedModel
from mindgap.sources.weights.tensor_registry import TensorRegistry, seed_of

#: Sizes that are tried for dimensions without one, smallest first: the first dimension of an input, then others, then
#: height and width of a picture. Last those where the first is the time.
_TRIED: Final = (
    *(
        (first, other, picture)
        for other, picture in ((8, 32), (4, 64), (16, 128), (32, 224), (1, 8), (64, 256), (128, 512))
        for first in (2, 1)
    ),
    (16, 16, 128), (64, 1, 256), (512, 512, 512), (4096, 4096, 512),
)  # fmt: skip
#: Elements of an input whose sizes are chosen, at most.
_ELEMENTS: Final = 1 << 22
#: Integers drawn for an input that nothing indexes with: [0, _IDS).
_IDS: Final = 8
#: Texts for a model that has none.
_NUMERALS: Final = ("1", "23", "-4.5")
#: Dtypes that numpy has not.
_NO_NUMPY: Final = frozenset({
    torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
})  # fmt: skip
_SUMS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Div: lambda a, b: a // b,
}
#: Operators that hand the integers of an operand on.
_HANDS_ON: Final = frozenset({
    "Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Slice", "Transpose", "Expand", "Where", "Clip",
    "Concat", "Split",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelInput:
    """An input as the file declares it. `sizes`: a number, the name of a dimension, or an expression of names; None
    where not even their number is declared."""

    name: str
    dtype: torch.dtype
    sizes: tuple[int | str, ...] | None

    @property
    def dimensions(self) -> tuple[int | str, ...]:
        """The sizes that are declared."""
        return self.sizes or ()


def model_inputs(graph: Any) -> list[ModelInput]:
    """Returns the inputs that have no initializer and are tensors of numbers (`held_inputs` has the others)."""
    initial = {one.name for one in graph.initializer}
    inputs: list[ModelInput] = []
    for value in graph.input:
        if value.name in initial or _no_numbers(value):
            continue
        tensor = value.type.tensor_type
        if not tensor.HasField("shape"):
            inputs.append(ModelInput(value.name, element_type(tensor.elem_type), None))
            continue
        sizes: list[int | str] = []
        for axis, dim in enumerate(tensor.shape.dim):
            sized = dim.HasField("dim_value") and dim.dim_value >= 0
            sizes.append(int(dim.dim_value) if sized else dim.dim_param or f"{value.name}.{axis}")
        inputs.append(ModelInput(value.name, element_type(tensor.elem_type), tuple(sizes)))
    return inputs


def _no_numbers(value: Any) -> str:
    """Why graphs do not hold an input; empty for a tensor of numbers."""
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return f"input {value.name} is of {(kind or 'no type').removesuffix('_type')}, not a tensor"
    return (
        f"input {value.name} holds strings, which graphs do not hold" if value.type.tensor_type.elem_type == 8 else ""
    )


def held_inputs(model: Any, sizes: Mapping[str, int], seed: int) -> tuple[dict[str, Any], str]:
    """Returns what runtimes are given for the inputs that graphs do not hold, and why they do not; "" without any.

    Texts are those in the attributes and initializers of the model, or else numerals, which every operator takes. A
    sequence has two elements, an optional value is there. Raises `Untranslated` for one of another type.
    """
    import onnx

    random = np.random.default_rng(seed)
    texts = [*texts_of(model), *_NUMERALS]
    held: dict[str, Any] = {}
    why = ""

    def drawn(kind: Any, name: str) -> Any:
        which = kind.WhichOneof("value")
        if which == "sequence_type":
            return [drawn(kind.sequence_type.elem_type, name) for _ in range(2)]
        if which == "optional_type":
            return drawn(kind.optional_type.elem_type, name)
        if which != "tensor_type":
            raise Untranslated(f"input {name} is of {(which or 'no type').removesuffix('_type')}, not a tensor")
        dims = kind.tensor_type.shape.dim
        shape = [dim.dim_value if dim.dim_value > 0 else sizes.get(dim.dim_param, 2) for dim in dims]
        if kind.tensor_type.elem_type == onnx.TensorProto.STRING:
            picked = random.permutation(np.arange(math.prod(shape)) % len(texts))
            return np.array([texts[at] for at in picked], dtype=str).reshape(shape)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type)
        return random.standard_normal(shape).astype(dtype)

    initial = {one.name for one in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in initial and (reason := _no_numbers(value)):
            held[value.name], why = drawn(value.type, value.name), why or reason
    return held, why


def symbols(inputs: Sequence[ModelInput]) -> list[str]:
    """Returns the names of dimensions that need a size, in order; not the expressions of other names."""
    names = [size for each in inputs for size in each.dimensions if isinstance(size, str)]
    return [name for name in dict.fromkeys(names) if not _is_derived(name, names)]


def size_choices(inputs: Sequence[ModelInput], given: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yields sizes for all names, those that are tried first first. `given`: what the user sets."""
    free = [name for name in symbols(inputs) if name not in given]
    seen: list[dict[str, int]] = []
    for first, other, picture in _TRIED:
        chosen = _bounded(inputs, free, dict(given) | {n: _size(n, inputs, first, other, picture) for n in free})
        if chosen not in seen:
            seen.append(chosen)
            yield chosen


def shape_of(each: ModelInput, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Returns an input's shape. Raises `Untranslated` for a size below 0."""
    sizes_found = tuple(size if isinstance(size, int) else _evaluated(size, sizes) for size in each.dimensions)
    if any(size < 0 for size in sizes_found):
        raise Untranslated(f"input {each.name} would be {list(sizes_found)}")
    return sizes_found


def _bounded(inputs: Sequence[ModelInput], free: Sequence[str], sizes: dict[str, int]) -> dict[str, int]:
    """The sizes, those of free dimensions halved until no input has more than `_ELEMENTS` elements by them."""
    while True:
        large = [each for each in inputs if math.prod(shape_of(each, sizes)) > _ELEMENTS]
        names = {name for each in large for name in _names_in(each.dimensions) if name in free and sizes[name] > 1}
        if not names:
            return sizes
        largest = max(sizes[name] for name in names)
        sizes |= {name: sizes[name] // 2 for name in names if sizes[name] == largest}


def _names_in(sizes: Sequence[int | str]) -> Iterator[str]:
    for size in sizes:
        yield str(size)
        tree = _parsed(size) if isinstance(size, str) else None
        yield from (node.id for node in ast.walk(tree) if isinstance(node, ast.Name)) if tree else ()


def _size(name: str, inputs: Sequence[ModelInput], first: int, other: int, picture: int) -> int:
    if re.search(r"past", name):
        return other // 2 or 1
    for each in inputs:
        if name in each.dimensions:
            axis = each.dimensions.index(name)
            wide = len(each.dimensions) == 4 and axis >= 2 and each.dtype.is_floating_point
            return first if axis == 0 else picture if wide else other
    return other


def _is_derived(name: str, names: Sequence[str]) -> bool:
    if name.isidentifier():
        return name == "total_sequence_length" and {"past_sequence_length", "sequence_length"} <= set(names)
    parts = (
        {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} if (tree := _parsed(name)) else set[str]()
    )
    return bool(parts) and parts <= set(names)


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def _evaluated(text: str, sizes: Mapping[str, int]) -> int:
    if text in sizes:
        return sizes[text]
    if text == "total_sequence_length":
        return sizes["past_sequence_length"] + sizes["sequence_length"]

    def value(node: ast.expr | None) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name) if name in sizes:
                return sizes[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _SUMS:
                return _SUMS[type(op)](value(left), value(right))
            case _:
                raise Untranslated(f"dimension {text!r} is no sum of named dimensions")

    return value(_parsed(text))


@dataclass(frozen=True, slots=True)
class ChosenInputs:
    """A tensor for each input of a model.

    tensors: by the names of the inputs.
    registry: of those that were drawn.
    chosen: the sizes of symbolic dimensions that were not given.
    """

    tensors: Mapping[str, torch.Tensor]
    registry: TensorRegistry
    chosen: Mapping[str, int]


def input_choices(
    graph: Any, inputs: Sequence[ModelInput], given: Mapping[str, int], structural: set[str], seed: int,
    change: ArgumentChange | None = None,
) -> Iterator[ChosenInputs]:  # fmt: skip
    """Yields inputs of other sizes, those that are tried first first; at least one.

    `given`: sizes that the user sets. `structural`: inputs that decide shapes. `change`: is applied to what is drawn.
    Raises `Untranslated` for inputs that the file does not declare so, and `SourceError` where the change does.
    """
    initial = {one.name: tuple(one.dims) for one in graph.initializer}
    seen: list[list[torch.Size]] = []
    for sizes in size_choices(inputs, given):
        registry = new_registry()
        tensors = _drawn(graph, inputs, sizes, structural, seed, registry, initial)
        if change is not None:
            any_rank = {each.name for each in inputs if each.sizes is None}
            stand_in = UntranslatedModel([*tensors], "its graph depends on its arguments", any_rank)
            changed = change.apply(Built(stand_in, tuple(tensors.values()), {}, registry))
            tensors = dict(zip(tensors, changed.args, strict=True))
        if unknown := next((each for each in inputs if each.sizes is None and not (change and change.given)), None):
            raise Untranslated(f"input {unknown.name} declares no shape: give inputs that have one (--inputs FILE.npz)")
        shapes = [each.shape for each in tensors.values()]
        if shapes in seen:
            continue
        seen.append(shapes)
        measured = _measured(inputs, tensors, given)
        chosen = {} if change is not None and change.given else {
            name: size for name, size in measured.items() if name not in given and size == sizes[name]
        }  # fmt: skip
        yield ChosenInputs(tensors, registry, chosen)


def _measured(
    inputs: Sequence[ModelInput], tensors: Mapping[str, torch.Tensor], given: Mapping[str, int]
) -> dict[str, int]:
    """Returns the sizes of symbolic dimensions that the tensors have. Raises `Untranslated` for others than the file
    and the user declare."""
    free, sizes, source = symbols(inputs), dict(given), dict.fromkeys(given, "--set")
    for each in inputs:
        for name, size in zip(each.dimensions, tensors[each.name].shape, strict=each.sizes is not None):
            if isinstance(name, str) and name in free and sizes.setdefault(name, size) != size:
                raise Untranslated(
                    f"dimension {name} is {sizes[name]} by {source[name]} and {size} in input {each.name}: it has one "
                    "size; give inputs that agree"
                )
            source.setdefault(str(name), f"input {each.name}")
    for each in inputs:
        real = tuple(tensors[each.name].shape)
        if each.sizes is not None and shape_of(each, sizes) != real:
            declared = ", ".join(map(str, each.sizes))
            raise Untranslated(
                f"input {each.name} is {list(real)}, and the file declares [{declared}]: give inputs of the sizes that "
                "it declares, or export the model with a symbolic dimension there"
            )
    return sizes


def _drawn(
    graph: Any, inputs: Sequence[ModelInput], sizes: Mapping[str, int], structural: set[str], seed: int,
    registry: TensorRegistry, initial: Mapping[str, tuple[int, ...]],
) -> dict[str, torch.Tensor]:  # fmt: skip
    """Draws each input from a recipe. `structural`: inputs that decide shapes. `initial`: shapes of the weights.

    Where an operator that is given it takes certain values alone, it has those (`operand_values`). Else
    floats are normal, masks 1, indices below the size of what they index; what decides a shape is 1; other integers
    are below 8, bytes of quantised tensors in all of their range. Raises `Untranslated` for one too large.
    """
    tensors: dict[str, torch.Tensor] = {}
    shapes = {**initial, **{each.name: shape_of(each, sizes) for each in inputs}}
    for each in inputs:
        shape, drawn = shape_of(each, sizes), seed_of(each.name, seed)
        recipe = _operator_recipe(graph, each, drawn, shapes) or _recipe(
            graph, each, drawn, each.name in structural, shapes
        )
        try:
            tensors[each.name] = registry.draw(recipe, torch_dtype_name(each.dtype), shape)
        except (MemoryError, ValueError) as error:  # numpy's for a size that no array has
            raise Unrunnable(f"input {each.name} of {list(shape)} takes more memory than there is") from error
    return tensors


def _recipe(
    graph: Any, each: ModelInput, seed: int, structural: bool, initial: Mapping[str, tuple[int, ...]]
) -> Recipe:
    if each.dtype.is_floating_point or each.dtype.is_complex:
        return Normal(seed) if each.dtype.itemsize > 1 else Uniform(seed, -1.0, 1.0)
    if structural:
        return Constant(1)
    if "mask" in each.name.lower():
        # Where a padding mask is True, PyTorch leaves the place out; all places of integer masks are there.
        return Constant(value="pad" not in each.name.lower() if each.dtype == torch.bool else 1)
    if each.dtype == torch.bool:
        return Integers(seed, 0, 2)
    limits = torch.iinfo(each.dtype)
    size = _indexed(graph, each.name, initial)
    if size:
        return Integers(seed, 0, min(size, int(limits.max)))
    return Integers(seed, int(limits.min), int(limits.max) + 1) if limits.bits == 8 else Integers(seed, 0, _IDS)


def _operator_recipe(graph: Any, each: ModelInput, seed: int, shapes: Mapping[str, tuple[int, ...]]) -> Recipe | None:
    """The values that a node takes which is given the input, as it is or in another shape or dtype."""
    kind = np.dtype(torch_dtype_name(each.dtype)) if each.dtype not in _NO_NUMPY else None
    if kind is None:
        return None
    declared = {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in (*graph.output, *graph.value_info)
        if value.type.tensor_type.HasField("shape")
        and all(dim.dim_value for dim in value.type.tensor_type.shape.dim)
    }  # fmt: skip
    reached = {each.name}
    for node in graph.node:
        for position in (place for place, name in enumerate(node.input) if name in reached):
            operand = DrawnOperand(node, shapes[each.name], kind, seed, shapes, declared)
            if (recipe := values_for(operand, position)) is not None:
                return recipe
            if position == 0 and op_of(node) in _HANDS_ON:
                reached.update(node.output)
    return None


def _indexed(graph: Any, name: str, initial: Mapping[str, tuple[int, ...]]) -> int | None:
    """Returns the smallest size of a weight's dimension that the input indexes."""
    reached, sizes = {name}, list[int]()
    for node in graph.node:
        op = op_of(node)
        if op in _HANDS_ON and not reached.isdisjoint(node.input):
            reached.update(node.output)
        elif op in ("Gather", "GatherElements") and node.input[1] in reached and node.input[0] in initial:
            axis = next((each.i for each in node.attribute if each.name == "axis"), 0)
            shape = initial[node.input[0]]
            sizes += [shape[axis]] if -len(shape) <= axis < len(shape) else []
    return min(sizes, default=None)
