"""Makes the arrays of a graph's inputs: the same bytes on every little-endian machine.

Recipes draw from raw words of Philox by integer arithmetic and single IEEE operations; see `draws` and
`rounding`. Nothing depends on numpy's distributions, on a mathematics library, or on vector widths.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mindgap.graph import draws
from mindgap.graph.errors import GraphError
from mindgap.graph.graph import Graph, Input
from mindgap.graph.recipe import Constant, Exceptional, Integers, Literal, Normal, Permutation, Stored, Uniform
from mindgap.graph.recipe_rules import check_recipe
from mindgap.graph.rounding import PART, Array, round_number, round_to
from mindgap.graph.spec import TensorSpec, is_little_endian, numpy_dtype, with_bytes_reversed
from mindgap.graph.tensors import TensorStore, default_tensor_store

#: Elements drawn at a time: few enough to stay in a processor's cache.
_PIECE = 1 << 15
#: Draws so many elements and leaves the generator behind them.
_Draw = Callable[[np.random.Philox, int], Array]


def materialise(input: Input, tensors: TensorStore | None = None) -> Array:
    """Makes the values of an input: C-contiguous, of its shape and dtype, for any strides.

    Elements that share memory (an expanded dimension) have one value. Both parts of a complex
    element are drawn by the recipe. `tensors`: the store for `Stored` recipes, by default
    the user's. Raises `GraphError` for a recipe that does not fit the spec and for a
    stored tensor that is missing, damaged, or of another shape or dtype.
    """
    check_recipe(input.spec, input.recipe)
    with np.errstate(all="ignore"):
        return _values(input, tensors)


def materialise_all(graph: Graph, tensors: TensorStore | None = None) -> list[Array]:
    """Makes every input of the graph, in order. Raises `GraphError`, naming the input."""
    arrays: list[Array] = []
    for number, given in enumerate(graph.inputs):
        try:
            arrays.append(materialise(given, tensors))
        except GraphError as error:
            raise GraphError(f"input {number}: {error}") from None
    return arrays


def _values(input: Input, tensors: TensorStore | None) -> Array:
    spec, recipe = input.spec, input.recipe
    match recipe:
        case Constant():
            return _constant(spec, recipe.value)
        case Literal():
            array = np.frombuffer(recipe.data, numpy_dtype(spec.dtype)).reshape(spec.shape)
            array = array if is_little_endian(array.dtype) else with_bytes_reversed(array)
            return array.copy()
        case Stored():
            return _stored(spec, recipe, tensors if tensors is not None else default_tensor_store())
        case Permutation():
            return _permuted(spec, recipe.seed)
        case _:
            return _drawn(spec, recipe)


def _constant(spec: TensorSpec, value: bool | int | float | complex) -> Array:
    if spec.kind in ("int", "bool"):
        return np.full(spec.shape, value, numpy_dtype(spec.dtype))
    if spec.kind == "float":
        assert not isinstance(value, complex)
        return np.full(spec.shape, round_number(value, spec.dtype))
    parts = (value.real, value.imag) if isinstance(value, complex) else (value, 0.0)
    pair = np.array([round_number(part, PART[spec.dtype]) for part in parts])
    return np.full(spec.shape, pair.view(numpy_dtype(spec.dtype))[0])


def _stored(spec: TensorSpec, recipe: Stored, tensors: TensorStore) -> Array:
    array = tensors.get(recipe.key)
    if array.shape != spec.shape or array.dtype != numpy_dtype(spec.dtype):
        raise GraphError(f"stored tensor {recipe.key} is {array.dtype}{list(array.shape)}, where {spec} is wanted")
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _permuted(spec: TensorSpec, seed: int) -> Array:
    shape = distinct_shape(spec)
    length = shape[-1] if shape else 1
    rows = math.prod(shape) // length if length else 0
    drawn = draws.permutations(draws.generator(seed), rows, length).reshape(shape)
    return _spread(drawn.astype(numpy_dtype(spec.dtype)), spec)


def _drawn(spec: TensorSpec, recipe: Uniform | Normal | Integers | Exceptional) -> Array:
    """Draws one number for each memory cell, and lays them out in the spec's shape."""
    cells = overlapping_cells(spec)
    shape = distinct_shape(spec) if cells is None else (cells,)
    source, count = draws.generator(recipe.seed), math.prod(shape)
    part = PART.get(spec.dtype)
    draw = _draw(recipe, part or spec.dtype)
    flat = _in_pieces(draw, source, count if part is None else 2 * count, part or spec.dtype)
    if part is not None:
        flat = flat.view(numpy_dtype(spec.dtype))
    if cells is None:
        return _spread(flat.reshape(shape), spec)
    steps = tuple(step * flat.itemsize for step in spec.stride)
    # Not through numpy's array interface, which has no name for float8_e5m2.
    return np.ascontiguousarray(np.ndarray(spec.shape, flat.dtype, flat.view(np.uint8), strides=steps))


def _draw(recipe: Uniform | Normal | Integers | Exceptional, dtype: str) -> _Draw:
    match recipe:
        case Uniform():
            return lambda source, count: draws.uniform(source, count, dtype, recipe.low, recipe.high)
        case Normal():
            return lambda source, count: draws.normal(source, count, dtype, recipe.mean, recipe.std)
        case Integers():
            return lambda source, count: _as_dtype(draws.integers(source, count, recipe.low, recipe.high), dtype)
        case Exceptional():
            return lambda source, count: draws.exceptional(source, count, dtype, recipe.share)


def _as_dtype(words: Array, dtype: str) -> Array:
    """Converts integers modulo 2⁶⁴ to a dtype that can hold them (exactly, up to 2⁵³, for floats before rounding)."""
    own = numpy_dtype(dtype)
    if own.kind in "biu":
        return words.astype(own)
    return round_to(words.view(np.int64).astype(np.float64), dtype)


def _in_pieces(draw: _Draw, source: np.random.Philox, count: int, dtype: str) -> Array:
    if count <= _PIECE:
        return draw(source, count)
    drawn = np.empty(count, numpy_dtype(dtype))
    for start in range(0, count, _PIECE):
        stop = min(start + _PIECE, count)
        drawn[start:stop] = draw(source, stop - start)
    return drawn


def distinct_shape(spec: TensorSpec) -> tuple[int, ...]:
    """Returns the shape with 1 for every expanded dimension."""
    if 0 not in spec.stride:
        return spec.shape
    return tuple(min(size, 1) if step == 0 else size for size, step in zip(spec.shape, spec.stride, strict=True))


def _spread(values: Array, spec: TensorSpec) -> Array:
    if values.shape == spec.shape:
        return values
    return np.array(np.broadcast_to(values, spec.shape), order="C")


def overlapping_cells(spec: TensorSpec) -> int | None:
    """Returns how many memory cells a spec spans if elements share memory other than by a stride of 0; else None."""
    if spec.numel == 0:
        return None
    reach = 1
    overlaps = False
    for step, size in sorted(zip(spec.stride, spec.shape, strict=True)):
        if step and size > 1:
            overlaps = overlaps or step < reach
            reach += step * (size - 1)
    return reach if overlaps else None


def stored_keys(graph: Graph) -> list[str]:
    """Returns the sorted keys of the tensors that the graph's inputs need from a store."""
    return sorted({given.recipe.key for given in graph.inputs if isinstance(given.recipe, Stored)})
