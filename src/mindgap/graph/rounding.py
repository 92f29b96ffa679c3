"""Rounds float64 values to narrower dtypes: to nearest, ties to even, once.

float32 and float16 come from a single IEEE conversion. The 8-bit formats and bfloat16 are rounded
here, by exact float64 arithmetic, before the cast, because a library may go through float32 and so
round twice; after that the cast is exact in any library.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Any, Final

import ml_dtypes
import numpy as np

from mindgap.graph.spec import Array, numpy_dtype

#: dtypes that numpy holds through ml_dtypes.
_EXTENDED: Final = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"})
#: The float dtype of each part of a complex one.
PART: Final = {"complex64": "float32", "complex128": "float64"}
#: The library has no types for what this returns.
_finfo: Final[Any] = ml_dtypes.finfo
_EXPONENT_BITS: Final = np.uint64(0x7FF0_0000_0000_0000)


@cache
def float_range(dtype: str) -> tuple[float, float, float]:
    """Returns (largest finite, smallest normal, smallest subnormal) of a float dtype, exact in float64."""
    info = _finfo(numpy_dtype(dtype))
    return float(info.max), float(info.smallest_normal), float(info.smallest_subnormal)


def round_to(values: Array, dtype: str) -> Array:
    """Rounds float64 values to `dtype`: nearest, ties to even; overflow gives the format's Inf or NaN."""
    if dtype not in _EXTENDED:
        return values.astype(numpy_dtype(dtype))
    return _on_grid(values, dtype).astype(numpy_dtype(dtype))


def _on_grid(values: Array, dtype: str) -> Array:
    """Rounds float64 values to multiples of the last place of `dtype` at their size; keeps the sign of zero.

    Adding 1.5·2⁵²·q and taking it away again rounds to a multiple of q, ties to even, as long as the
    values stay under 2⁵¹·q: they do, because q is the value's own last place.
    """
    _, smallest_normal, smallest_subnormal = float_range(dtype)
    digits = round(smallest_normal / smallest_subnormal).bit_length() - 1
    # The power of two below each value; 0 for subnormal float64, all-ones exponent for NaN and Inf.
    power = (values.view(np.uint64) & _EXPONENT_BITS).view(np.float64)
    shift = np.maximum(power, smallest_normal)
    shift *= math.ldexp(1.5, 52 - digits)
    grid = values + shift
    grid -= shift
    special = ~np.isfinite(shift)
    if special.any():
        grid[special] = values[special]
    return np.copysign(grid, values)


def round_number(value: float, dtype: str) -> np.generic:
    """Rounds one number once to a scalar of a float dtype, also an int too long for float64."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if dtype == "float64" else _odd_float(value)
    with np.errstate(all="ignore"):
        return round_to(np.array([value], np.float64), dtype)[0]


def _odd_float(value: int) -> float:
    """Rounds an int to odd in float64, so that rounding again to a narrower format equals rounding once."""
    excess = abs(value).bit_length() - 53
    if excess <= 0:
        return float(value)
    kept = abs(value) >> excess
    lost = abs(value) & ((1 << excess) - 1)
    return math.copysign(math.ldexp(kept | (lost != 0), excess), value)


@lru_cache(maxsize=1024)
def interval_in(dtype: str, low: float, high: float) -> tuple[float, float]:
    """Returns the smallest value of a float dtype that is ≥ `low` and the largest that is < `high`, as float64.

    Where the dtype has no value in [low, high), both are the first one above `low`. Zeros are +0.
    """
    largest = float_range(dtype)[0]
    first = _clamped(low, dtype, largest)
    if first < low and first < largest:
        first = _neighbour(first, dtype, up=True)
    last = _clamped(high, dtype, largest)
    if last >= high:
        last = _neighbour(last, dtype, up=False)
    return first + 0.0, max(last, first) + 0.0


def _clamped(value: float, dtype: str, largest: float) -> float:
    nearest = float(round_number(value, dtype))
    return nearest if abs(nearest) <= largest else math.copysign(largest, value)


def _neighbour(value: float, dtype: str, up: bool) -> float:
    """Returns the next value of the dtype above or below one of its values."""
    smallest = float_range(dtype)[2]
    if value == 0.0:
        return smallest * (1 if up else -1)
    if abs(value) == smallest and (value < 0) == up:
        return 0.0  # The bits below that of -0 are NaN where a format has no -0.
    scalar = np.array([value], np.float64).astype(numpy_dtype(dtype))
    bits = scalar.view(f"u{scalar.dtype.itemsize}")
    bits += np.array(1 if (value > 0) == up else -1).astype(bits.dtype)
    return float(scalar[0])
