"""Rounding against exact rational arithmetic and against numpy's own conversions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from mindgap.graph import DTYPES, numpy_dtype
from mindgap.graph.rounding import float_range, interval_in, round_number, round_to

FLOATS = [name for name, (kind, _) in DTYPES.items() if kind == "float"]
NARROW = [name for name in FLOATS if numpy_dtype(name).itemsize <= 2]


def finite_values(dtype: str) -> np.ndarray:
    """Every finite value of a dtype of one or two bytes, in order, as float64; zero once."""
    own = numpy_dtype(dtype)
    with np.errstate(invalid="ignore"):
        every = np.arange(1 << 8 * own.itemsize, dtype=f"u{own.itemsize}").view(own).astype(np.float64)
    return np.unique(every[np.isfinite(every)])


TABLES = {dtype: finite_values(dtype) for dtype in NARROW}


def nearest(value: float, dtype: str) -> float:
    """The slow obvious version: of the two neighbours the nearer one, of equals the even one."""
    table = TABLES[dtype]
    above = int(np.searchsorted(table, value))
    if above == 0 or above == len(table):
        raise OverflowError
    low, high = table[above - 1], table[above]
    below = Fraction(value) - Fraction(low)
    upward = Fraction(high) - Fraction(value)
    if below != upward:
        return float(low if below < upward else high)
    return float(low if _is_even(low, dtype) else high)


def _is_even(value: float, dtype: str) -> bool:
    own = np.array([value]).astype(numpy_dtype(dtype))
    return int(own.view(f"u{own.itemsize}")[0]) % 2 == 0


@pytest.mark.parametrize("dtype", NARROW)
@given(data=st.data())
def test_nearest_ties_to_even(dtype: str, data: st.DataObject) -> None:
    largest = float_range(dtype)[0]
    value = data.draw(st.floats(-largest, largest).filter(lambda v: abs(v) < largest))
    assert float(round_to(np.array([value]), dtype)[0]) == nearest(value, dtype)


@pytest.mark.parametrize("dtype", NARROW)
def test_values_ties_and_their_neighbours(dtype: str) -> None:
    table = TABLES[dtype]
    assert np.array_equal(round_to(table, dtype).astype(np.float64), table)
    ties = (table[:-1] + table[1:]) / 2
    for near in (np.nextafter(ties, -np.inf), ties, np.nextafter(ties, np.inf)):
        sample = near[:: max(1, len(near) // 3000)]
        expected = np.array([nearest(float(value), dtype) for value in sample])
        assert np.array_equal(round_to(sample, dtype).astype(np.float64), expected)


def test_rounding_happens_once() -> None:
    # Just above the tie of two bfloat16, by less than float32 can see: through float32 it would go down to even.
    value = 1.0 + 2.0**-8 + 2.0**-40
    assert float(round_to(np.array([value]), "bfloat16")[0]) == 1.0 + 2.0**-7
    assert float(np.array([value]).astype(np.float32).astype(numpy_dtype("bfloat16"))[0]) == 1.0


@pytest.mark.parametrize("dtype", NARROW)
def test_signs_and_specials(dtype: str) -> None:
    with np.errstate(all="ignore"):
        specials = round_to(np.array([math.nan, 0.0, -0.0, math.inf, -math.inf, 1e300]), dtype).astype(np.float64)
    assert math.isnan(specials[0]) and specials[1] == specials[2] == 0.0
    assert not np.isfinite(specials[3:]).any()
    if not dtype.endswith("fnuz"):
        assert np.signbit(specials[2]) and not np.signbit(specials[1])


@given(st.floats(-3e38, 3e38), st.floats(-6e4, 6e4))
def test_wider_formats_are_one_conversion(wide: float, narrow: float) -> None:
    assert round_to(np.array([wide]), "float32")[0] == np.float32(wide)
    assert round_to(np.array([narrow]), "float16")[0] == np.float16(narrow)


@given(st.integers(-(1 << 120), 1 << 120))
def test_long_integers_round_once(number: int) -> None:
    found = Fraction(float(round_number(number, "float32")))
    gap = Fraction(float(np.spacing(np.abs(np.float32(found)))))
    assert abs(found - number) <= gap / 2
    assert float(round_number(number, "float64")) == float(number)
    # One above the tie of two float32, which float64 cannot see.
    assert float(round_number((1 << 54) + (1 << 30) + 1, "float32")) == float((1 << 54) + (1 << 31))


@pytest.mark.parametrize("dtype", FLOATS)
@given(st.floats(-4, 4), st.floats(-4, 4))
@example(0.0, -4.344150815685483e-06)  # In float8_e5m2fnuz the neighbour of the last negative number was NaN.
def test_intervals(dtype: str, one: float, other: float) -> None:
    low, high = min(one, other), max(one, other)
    if low == high:
        return
    first, last = interval_in(dtype, low, high)
    assert first >= low and last >= first
    if dtype in NARROW:
        inside = TABLES[dtype][(TABLES[dtype] >= low) & (TABLES[dtype] < high)]
        if len(inside):
            assert (first, last) == (inside[0], inside[-1])
        else:
            assert first == last == TABLES[dtype][TABLES[dtype] >= low][0]
    elif last < high:
        assert float(np.nextafter(numpy_dtype(dtype).type(last), np.inf)) >= high
    assert math.copysign(1, first if first == 0 else 1) > 0


@pytest.mark.parametrize("dtype", FLOATS)
def test_intervals_beyond_the_largest(dtype: str) -> None:
    largest = float_range(dtype)[0]
    if dtype != "float64":
        assert interval_in(dtype, 0.0, largest * 4) == (0.0, largest)
        assert interval_in(dtype, -largest * 4, 0.0)[0] == -largest
