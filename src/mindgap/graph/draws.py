"""Draws numbers from Philox 4×64 raw bits, by integer arithmetic and exactly rounded operations only.

Each function takes a generator in its present state and a count. It uses a fixed number of 64-bit words
for each element, so that drawing in pieces gives the same numbers as drawing at once.
Counts of all pieces but the last must be even.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from mindgap.graph.rounding import Array, float_range, interval_in, round_to
from mindgap.graph.spec import numpy_dtype

_LOW_HALF: Final = np.uint64(0xFFFF_FFFF)
_HALF: Final = np.uint64(32)
_EVEN_BYTES: Final = np.uint64(0x00FF_00FF_00FF_00FF)
_LANE_SUM: Final = np.uint64(0x0001_0001_0001_0001)


class _Key(ISeedSequence):
    """Hands Philox its key as it is: what `Philox(key=…)` does, without first asking the system for entropy."""

    def __init__(self, key: int) -> None:
        self._words = np.array([key & 0xFFFF_FFFF_FFFF_FFFF, key >> 64], np.uint64)

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Array:
        return self._words


def generator(seed: int) -> np.random.Philox:
    """Returns Philox with the key `seed` (0 ≤ seed < 2¹²⁸) and the counter at zero."""
    return np.random.Philox(_Key(seed))  # pyright: ignore[reportArgumentType] # numpy takes any ISeedSequence; its stubs name one


def uniform(source: np.random.Philox, count: int, dtype: str, low: float, high: float) -> Array:
    """Draws `count` floats of `dtype` in [low, high): low + (high - low)·k/2ⁿ, rounded; zeros are +0.

    n = 53 for float64 (one word each), 32 for the others (two to a word).
    """
    if dtype == "float64":
        steps, scale = source.random_raw(count) >> np.uint64(11), math.ldexp(high - low, -53)
    else:
        steps, scale = source.random_raw((count + 1) // 2).view("<u4")[:count], math.ldexp(high - low, -32)
    return _scaled(steps, scale, dtype, low, high)


def _scaled(steps: Array, scale: float, dtype: str, low: float, high: float) -> Array:
    """Returns low + steps·scale in `dtype`, kept inside [low, high) after rounding."""
    values = np.multiply(steps, scale, dtype=np.float64)
    if low != 0.0:
        values += low
    largest = float_range(dtype)[0]
    if low < -largest or high > largest:
        np.clip(values, -largest, largest, out=values)  # Some formats have no infinity: beyond is NaN.
    first, last = interval_in(dtype, low, high)
    rounded = round_to(values, dtype)
    own = numpy_dtype(dtype).type
    if low < 0.0:
        rounded += own(0.0)
    if first != low:
        np.maximum(rounded, own(first), out=rounded)
    return np.minimum(rounded, own(last), out=rounded)


#: For 0 and for 17 extra bits: three weights whose signs, drawn fairly, add just the variance that
#: eleven coarse uniforms and a fine one lack to the square of a power of two. With E extra bits the
#: squares sum to (11·2^(48+2E) + 1)/3; that is 3 modulo 8, and so a sum of three odd squares.
_WEIGHTS: Final = {
    0: (18537459, 18537547, 18568707),
    17: (2431111677429, 2424853860715, 2437353439093),
}


def normal(source: np.random.Philox, count: int, dtype: str, mean: float, std: float) -> Array:
    """Draws `count` floats of `dtype`: mean + std·z, rounded, clamped to the largest finite; zeros are +0.

    z is a sum of twelve uniform integers (Irwin and Hall) less its mean, over 2³³ (2⁵⁰ for float64):
    eleven of 8 bits, one of 32 (49) bits, and three weighted signs that make the variance of z exactly
    1. |z| < 6. Two words an element (three for float64).
    """
    extra = 17 if dtype == "float64" else 0
    each = 3 if extra else 2
    words = source.random_raw(count * each).reshape(count, each)
    eight, four = words[:, 0], words[:, 1]
    coarse = _byte_sum(eight) + _byte_sum(four & np.uint64(0xFF_FFFF))
    signs = (four >> np.uint64(24)) & np.uint64(7)
    fine = four >> _HALF
    if extra:
        fine = (fine << np.uint64(extra)) | (words[:, 2] >> np.uint64(64 - extra))
    total = (coarse << np.uint64(25 + extra)).view(np.int64)
    total += (fine << np.uint64(1)).view(np.int64)
    total += _SIGNED_WEIGHTS[extra][signs.view(np.int64)]
    values = total.astype(np.float64)
    values *= math.ldexp(std, -33 - extra)
    values += mean
    rounded = round_to(values, dtype)
    rounded += numpy_dtype(dtype).type(0.0)
    largest = float_range(dtype)[0]
    if abs(mean) + 6 * std >= largest:
        beyond = ~(np.abs(values) <= largest) | ~np.isfinite(rounded)
        rounded[beyond] = np.copysign(largest, values[beyond]).astype(rounded.dtype)
    return rounded


def _byte_sum(words: Array) -> Array:
    """Returns the sum of the eight bytes of each word."""
    pairs = (words & _EVEN_BYTES) + ((words >> np.uint64(8)) & _EVEN_BYTES)
    return (pairs * _LANE_SUM) >> np.uint64(48)


def _signed_weights(extra: int) -> Array:
    """For each three sign bits, the weights so signed, less twice the mean of the sum of uniforms."""
    a, b, c = _WEIGHTS[extra]
    centre = (11 * 255 << (24 + extra)) + (1 << (32 + extra)) - 1
    sums = [(a if k & 1 else -a) + (b if k & 2 else -b) + (c if k & 4 else -c) for k in range(8)]
    return np.array([total - centre for total in sums], np.int64)


_SIGNED_WEIGHTS: Final = {extra: _signed_weights(extra) for extra in _WEIGHTS}


def integers(source: np.random.Philox, count: int, low: int, high: int) -> Array:
    """Draws `count` integers uniform in [low, high) modulo 2⁶⁴, as uint64: low + floor(k·span/2ⁿ).

    n = 64 for spans up to 2³² (one word each) and 128 beyond (two words, the high one first), so
    that no value is more than 2⁻³² likelier than another.
    """
    span = high - low
    if span <= 1 << 32:
        words, wide = source.random_raw(count), np.uint64(span)
        offset = (((words & _LOW_HALF) * wide) >> _HALF) + (words >> _HALF) * wide >> _HALF
    elif span == 1 << 64:
        offset = source.random_raw(2 * count)[::2]
    else:
        words = source.random_raw(2 * count)
        upper, wide = words[::2], np.uint64(span)
        low_part = upper * wide
        carried = low_part + _high_product(words[1::2], wide) < low_part
        offset = _high_product(upper, wide) + carried
    return offset + np.uint64(low & 0xFFFF_FFFF_FFFF_FFFF)


def _high_product(words: Array, factor: np.uint64) -> Array:
    """Returns the upper 64 bits of words · factor."""
    low, high = words & _LOW_HALF, words >> _HALF
    factor_low, factor_high = factor & _LOW_HALF, factor >> _HALF
    middle = high * factor_low + ((low * factor_low) >> _HALF)
    other = low * factor_high + (middle & _LOW_HALF)
    return high * factor_high + (middle >> _HALF) + (other >> _HALF)


def permutations(source: np.random.Philox, rows: int, length: int) -> Array:
    """int64 (rows, length): each row a permutation of 0 … length-1, by sorting one word an element."""
    keys = source.random_raw(rows * length).reshape(rows, length)
    return np.argsort(keys, axis=-1, kind="stable")


def exceptional(source: np.random.Philox, count: int, dtype: str, share: float) -> Array:
    """Draws `count` floats of `dtype`: uniform in [-1, 1), about `share` of them out of `special_values`.

    Two halves of a word each (two words for float64): a value, and whether and which special.
    """
    words = source.random_raw(count * (2 if dtype == "float64" else 1))
    if dtype == "float64":
        choice = words[1::2] & _LOW_HALF
        values = _scaled(words[::2] >> np.uint64(11), math.ldexp(2.0, -53), dtype, -1.0, 1.0)
    else:
        choice = words & _LOW_HALF
        values = _scaled(words >> _HALF, math.ldexp(2.0, -32), dtype, -1.0, 1.0)
    table = special_values(dtype)
    threshold = round(share * (1 << 32))
    chosen = choice < np.uint64(threshold)
    which = choice[chosen] * np.uint64(len(table)) // np.uint64(max(threshold, 1))
    carrier = f"u{values.dtype.itemsize}"
    values.view(carrier)[chosen] = table.view(carrier)[which.view(np.int64)]
    return values


@cache
def special_values(dtype: str) -> Array:
    """Returns those of NaN, ±Inf, ±0, ± least and largest subnormal, ± least normal, ± largest that the dtype has."""
    largest, smallest_normal, smallest_subnormal = float_range(dtype)
    magnitudes = [0.0, smallest_subnormal, smallest_normal - smallest_subnormal, smallest_normal, largest]
    own = numpy_dtype(dtype)
    candidates = np.array([math.nan, math.inf, -math.inf, *magnitudes, *(-m for m in magnitudes)], np.float64)
    with np.errstate(all="ignore"):
        cast = candidates.astype(own)
    kept: dict[int, None] = {}
    bits = cast.view(f"u{own.itemsize}")
    for wanted, got, pattern in zip(candidates, cast.astype(np.float64), bits, strict=True):
        if np.array_equal(wanted, got, equal_nan=True):
            kept.setdefault(int(pattern))
    return np.array(list(kept), bits.dtype).view(own)
