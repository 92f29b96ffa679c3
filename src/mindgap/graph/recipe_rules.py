"""Checks that recipes fit specs."""

from __future__ import annotations

import math

import numpy as np

from mindgap.graph.errors import GraphError
from mindgap.graph.recipe import (
    Constant,
    Exceptional,
    Integers,
    Literal,
    Normal,
    Permutation,
    Recipe,
    Stored,
    Uniform,
)
from mindgap.graph.rounding import PART, float_range
from mindgap.graph.spec import TensorSpec, numpy_dtype
from mindgap.graph.tensors import is_tensor_key

#: Integers this large are exact in float64, through which float tensors get them.
_EXACT_IN_FLOAT64 = 1 << 53


def check_recipe(spec: TensorSpec, recipe: Recipe) -> None:
    """Raises `GraphError` if the recipe cannot make a tensor of this (valid) spec."""
    match recipe:
        case Uniform():
            _check_seed(recipe.seed)
            _check_real(spec, recipe)
            _check_bounds(recipe.low, recipe.high)
        case Normal():
            _check_seed(recipe.seed)
            _check_real(spec, recipe)
            _check_spread(recipe.mean, recipe.std)
        case Exceptional():
            _check_seed(recipe.seed)
            _check_real(spec, recipe)
            if not (_is_float(recipe.share) and 0.0 <= recipe.share <= 1.0):
                raise GraphError(f"a share of {recipe.share!r} is not between 0 and 1")
        case Integers():
            _check_seed(recipe.seed)
            _check_integers(spec, recipe.low, recipe.high)
        case Permutation():
            _check_seed(recipe.seed)
            _check_permutation(spec)
        case Constant():
            _check_constant(spec, recipe.value)
        case Literal():
            _check_literal(spec, recipe.data)
        case Stored():
            if not (isinstance(recipe.key, str) and is_tensor_key(recipe.key)):  # pyright: ignore[reportUnnecessaryIsInstance] # data may come from bytes or careless callers
                raise GraphError(f"a stored tensor's key should be 64 lower-case hex digits, not {recipe.key!r}")
        case _:  # pyright: ignore[reportUnnecessaryComparison] # the same
            raise GraphError(f"{recipe!r} is no recipe")


def integer_range(dtype: str) -> tuple[int, int]:
    """Returns the least and the largest integer of a bool or integer dtype; for floats, of the exact ones."""
    own = numpy_dtype(dtype)
    if own.kind == "b":
        return 0, 1
    if own.kind in "iu":
        about = np.iinfo(own)
        return int(about.min), int(about.max)
    largest, smallest_normal, smallest_subnormal = float_range(PART.get(dtype, dtype))
    exact = min(2 * round(smallest_normal / smallest_subnormal), _EXACT_IN_FLOAT64, int(largest))
    return -exact, exact


def _check_seed(seed: int) -> None:
    if not (_is_int(seed) and 0 <= seed < 1 << 128):
        raise GraphError(f"a seed should be an int from 0 to 2**128 - 1, not {seed!r}")


def _check_real(spec: TensorSpec, recipe: Recipe) -> None:
    if spec.kind not in ("float", "complex"):
        raise GraphError(f"{type(recipe).__name__} makes floats, not {spec.dtype}: use Integers")


def _check_bounds(low: float, high: float) -> None:
    if not (_is_float(low) and _is_float(high) and low < high and math.isfinite(high - low)):
        raise GraphError(f"[{low!r}, {high!r}) is no interval of finite floats")


def _check_spread(mean: float, std: float) -> None:
    if not (_is_float(mean) and _is_float(std) and std >= 0 and math.isfinite(abs(mean) + 6 * std)):
        raise GraphError(f"mean {mean!r} and standard deviation {std!r} are not finite floats, the second not negative")


def _check_integers(spec: TensorSpec, low: int, high: int) -> None:
    least, largest = (0, 0)
    if _is_int(low) and _is_int(high) and low < high:
        least, largest = integer_range(spec.dtype)
        if spec.kind in ("float", "complex"):
            least, largest = -_EXACT_IN_FLOAT64, _EXACT_IN_FLOAT64
        if least <= low and high - 1 <= largest:
            return
    raise GraphError(f"[{low!r}, {high!r}) is no interval of integers that {spec.dtype} holds")


def _check_permutation(spec: TensorSpec) -> None:
    if spec.kind not in ("int", "float"):
        raise GraphError(f"a permutation of {spec.dtype} makes no sense: use an integer dtype")
    length = spec.shape[-1] if spec.shape else 1
    if length - 1 > integer_range(spec.dtype)[1]:
        raise GraphError(f"{spec.dtype} cannot hold a permutation of {length} numbers")
    if length > 1 and spec.stride[-1] == 0:
        raise GraphError("a permutation cannot lie along an expanded dimension: its elements share memory")


def _check_constant(spec: TensorSpec, value: bool | int | float | complex) -> None:
    fits = False
    if spec.kind in ("bool", "int"):
        least, largest = integer_range(spec.dtype)
        fits = isinstance(value, int) and least <= value <= largest
    elif isinstance(value, int):
        fits = abs(value) < 1 << 1023
    else:
        fits = isinstance(value, float) or (isinstance(value, complex) and spec.kind == "complex")  # pyright: ignore[reportUnnecessaryIsInstance] # data may come from careless callers
    if not fits:
        raise GraphError(f"the constant {value!r} does not fit {spec.dtype}")


def _check_literal(spec: TensorSpec, data: bytes) -> None:
    if not isinstance(data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] # the same
        raise GraphError("a literal's data should be bytes")
    if len(data) != spec.nbytes:
        raise GraphError(f"a literal of {len(data)} bytes cannot be {spec}, which has {spec.nbytes}")
    if spec.kind == "bool" and data.strip(b"\0\1"):
        raise GraphError("a literal of bool should hold bytes 0 and 1 only")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_float(value: object) -> bool:
    """Returns whether it is a finite float, or an int that converts to one exactly."""
    if isinstance(value, float):
        return math.isfinite(value)
    return _is_int(value) and isinstance(value, int) and abs(value) <= _EXACT_IN_FLOAT64
