"""Metrics against a slow version in exact fractions, and every corner by name."""

from __future__ import annotations

import json
import math
import warnings
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from mindgap.graph import DTYPES, kind_of, numpy_dtype
from mindgap.graph.compare.metrics import (
    MANTISSA_BITS,
    Metrics,
    StructuralMismatch,
    distance,
    measure,
    remaining_precision,
    to_json,
)

Array = np.ndarray[Any, np.dtype[Any]]
nan, inf = math.nan, math.inf
FLOATS = sorted(n for n in DTYPES if kind_of(n) == "float")
SMALL_FLOATS = [n for n in FLOATS if numpy_dtype(n).itemsize <= 2]


def metrics(reference: Any, other: Any, name: str = "float32") -> Metrics:
    found = measure(np.array(reference, numpy_dtype(name)), np.array(other, numpy_dtype(name)))
    assert isinstance(found, Metrics)
    return found


# ---- the slow version: Python floats and fractions, one element at a time


@cache
def ladder(name: str) -> dict[float, int]:
    """Every finite value and both infinities of an 8- or 16-bit format, in order; both zeros are one rung."""
    dtype = numpy_dtype(name)
    every = np.arange(1 << (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}").view(dtype).tolist()
    return {v: i for i, v in enumerate(sorted({float(v) for v in every if not math.isnan(v)}))}


def slow_steps(a: float, b: float, name: str) -> int:
    if name in SMALL_FLOATS:
        return abs(ladder(name)[a] - ladder(name)[b])
    rungs: list[int] = []
    for v in (a, b):
        fraction_bits, lowest = (52, -1074) if name == "float64" else (23, -149)
        magnitude = Fraction(abs(v))
        # A binade is 2**fraction_bits rungs; subnormals are evenly spaced below the first.
        exponent = lowest if magnitude == 0 else max(lowest, math.frexp(v)[1] - 1 - fraction_bits)
        rung = int(magnitude / Fraction(2) ** exponent) + (exponent - lowest) * 2**fraction_bits
        rungs.append(-rung if v < 0 else rung)
    return abs(rungs[0] - rungs[1])


def as_float(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return inf


def slow_cosine(pairs: list[tuple[Fraction, Fraction]]) -> float:
    dot, aa, bb = (sum((p[i] * p[j] for p in pairs), Fraction(0)) for i, j in ((0, 1), (0, 0), (1, 1)))
    if aa == 0 or bb == 0:
        return 1.0 if aa == bb else 0.0
    square = float(dot * dot / (aa * bb))
    # The product itself may be too large for a float.
    return math.sqrt(square) if dot >= 0 else -math.sqrt(square)


def slow_floats(a: list[float], b: list[float], name: str) -> dict[str, Any]:
    finite = [(x, y) for x, y in zip(a, b, strict=True) if math.isfinite(x) and math.isfinite(y)]
    exact = [(Fraction(x), Fraction(y)) for x, y in finite]
    gaps = [abs(x - y) for x, y in exact]
    nan_off = sum(math.isnan(x) != math.isnan(y) for x, y in zip(a, b, strict=True))
    inf_off = sum(
        x != y and (math.isinf(x) or math.isinf(y))
        for x, y in zip(a, b, strict=True)
        if not (math.isnan(x) or math.isnan(y))
    )
    signs = sum(x == 0 == y and math.copysign(1, x) != math.copysign(1, y) for x, y in finite)
    steps = max((slow_steps(x, y, name) for x, y in finite), default=0)
    relative = [Fraction(0) if g == 0 else (g / abs(x) if x else None) for g, (x, _) in zip(gaps, exact, strict=True)]
    bits = 0
    while steps >> bits:
        bits += 1
    return {
        "n": len(a),
        "n_differing": sum(x != y for x, y in finite) + nan_off + inf_off + signs,
        "max_abs": as_float(max(gaps)) if gaps else None,
        "max_rel": (inf if None in relative else as_float(max(r for r in relative if r is not None))) if gaps else None,
        "max_ulp": steps if gaps else None,
        "remaining_precision": 0 if nan_off or inf_off else max(0, MANTISSA_BITS[name] - bits),
        "cosine": slow_cosine(exact) if gaps else None,
        "mad": as_float(sum(gaps, Fraction(0)) / len(gaps)) if gaps else None,
        "nan_mismatch": nan_off,
        "inf_mismatch": inf_off,
        "signed_zero_mismatch": signs,
    }


EXACT_FIELDS = (
    "n",
    "n_differing",
    "max_ulp",
    "remaining_precision",
    "nan_mismatch",
    "inf_mismatch",
    "signed_zero_mismatch",
)


def assert_same(found: Metrics, wanted: dict[str, Any]) -> None:
    for key in EXACT_FIELDS:
        assert getattr(found, key) == wanted[key], key
    for key in ("max_abs", "max_rel", "mad"):
        got, want = getattr(found, key), wanted[key]
        assert (got is None) == (want is None), key
        if want is not None:
            assert got == pytest.approx(want, rel=1e-12, abs=1e-320), key
    assert (found.cosine is None) == (wanted["cosine"] is None)
    if found.cosine is not None:
        assert found.cosine == pytest.approx(wanted["cosine"], abs=1e-7)


@st.composite
def float_pairs(draw: st.DrawFn) -> tuple[str, Array, Array]:
    """Raw bit patterns, and neighbours of them: random floats alone would never be a few ulp apart."""
    name = draw(st.sampled_from(FLOATS))
    width = numpy_dtype(name).itemsize
    pattern = st.integers(0, 2 ** (8 * width) - 1)
    a = draw(st.lists(pattern, max_size=8))
    b = [draw(st.one_of(st.just(x), st.integers(0, 3).map(lambda d, x=x: x ^ d), pattern)) for x in a]
    return name, *(np.array(x, f"u{width}").view(numpy_dtype(name)) for x in (a, b))


@settings(max_examples=400)
@given(float_pairs())
@example(("float64", np.array([1.34078079300e154]), np.array([1.34078079300e154])))
def test_floats_against_fractions(pair: tuple[str, Array, Array]) -> None:
    name, a, b = pair
    found = measure(a, b)
    assert isinstance(found, Metrics)
    assert_same(found, slow_floats([float(v) for v in a], [float(v) for v in b], name))


@given(float_pairs())
def test_complex_is_its_parts(pair: tuple[str, Array, Array]) -> None:
    _, a, b = pair
    with np.errstate(invalid="ignore"):
        parts = [x[: len(x) // 2 * 2].astype(np.float64) for x in (a, b)]
    whole = measure(parts[0].view(np.complex128), parts[1].view(np.complex128))
    split = measure(*parts)
    assert isinstance(whole, Metrics) and isinstance(split, Metrics)
    for key in ("max_abs", "max_rel", "max_ulp", "remaining_precision", "cosine", "mad"):
        assert getattr(whole, key) == getattr(split, key), key
    assert whole.n * 2 == split.n
    assert math.ceil(split.n_differing / 2) <= whole.n_differing <= split.n_differing
    assert whole.top1_flips is None


@given(st.sampled_from([n for n in sorted(DTYPES) if kind_of(n) in ("int", "bool")]), st.data())
def test_integers_against_python(name: str, data: st.DataObject) -> None:
    dtype = numpy_dtype(name)
    low, high = (0, 1) if name == "bool" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    values = st.lists(st.integers(low, high), min_size=3, max_size=3)
    a, b = data.draw(values), data.draw(values)
    found = metrics(a, b, name)
    gaps = [abs(x - y) for x, y in zip(a, b, strict=True)]
    assert found.max_abs == max(gaps) and isinstance(found.max_abs, int)
    assert found.n_differing == sum(g > 0 for g in gaps)
    assert found.mad == pytest.approx(sum(gaps) / 3, rel=1e-12)
    relative = max(0 if g == 0 else (g / abs(x) if x else inf) for g, x in zip(gaps, a, strict=True))
    assert found.max_rel == pytest.approx(relative, rel=1e-12)
    assert found.cosine == pytest.approx(
        slow_cosine([(Fraction(x), Fraction(y)) for x, y in zip(a, b, strict=True)]), abs=1e-7
    )
    assert (found.max_ulp, found.remaining_precision, found.top1_flips, found.nan_mismatch) == (None, None, None, 0)


# ---- corners, by name


@pytest.mark.parametrize(
    ("a", "b", "name", "gap"),
    [
        (-(2**63), 2**63 - 1, "int64", 2**64 - 1),
        (0, 2**64 - 1, "uint64", 2**64 - 1),
        (2**64 - 1, 2**64 - 2, "uint64", 1),
        (-128, 127, "int8", 255),
        (True, False, "bool", 1),
    ],
)
def test_integer_distance_does_not_wrap(a: int, b: int, name: str, gap: int) -> None:
    assert metrics([a], [b], name).max_abs == gap == metrics([b], [a], name).max_abs


@pytest.mark.parametrize("name", FLOATS)
def test_neighbours_are_one_apart_everywhere(name: str) -> None:
    dtype = numpy_dtype(name)
    below_one = np.array([1.0], dtype).view(f"u{dtype.itemsize}") - 1
    assert metrics(np.array([1.0], dtype), below_one.view(dtype), name).max_ulp == 1
    smallest = np.array([1], f"u{dtype.itemsize}").view(dtype)
    assert metrics(smallest, -smallest, name).max_ulp == 2
    assert metrics(smallest, np.zeros(1, dtype), name).max_ulp == 1


def test_ulp_distance_of_complex_parts() -> None:
    a = np.array([[1 + 1j]], np.complex64)
    found = measure(a, a + np.complex64(2**-23 * 1j))
    assert isinstance(found, Metrics) and found.max_ulp == 1 and found.n_differing == 1


def test_remaining_precision_across_a_power_of_two() -> None:
    assert metrics([1.0], [np.nextafter(np.float32(1), np.float32(0))]).remaining_precision == 22


@pytest.mark.parametrize(("name", "bits"), [("float16", 10), ("bfloat16", 7), ("float32", 23), ("float64", 52)])
def test_remaining_precision_of_each_format(name: str, bits: int) -> None:
    assert metrics([1.0, 0.0], [1.0, -0.0], name).remaining_precision == bits
    assert metrics([1.0, 1.0], [1.0, 2.0], name).remaining_precision == 0
    assert metrics([1.0], [1.5], name).remaining_precision == 0
    assert metrics([1.0], [1.25], name).remaining_precision == 1
    assert metrics([1.0], [1 + 2.0**-bits], name).remaining_precision == bits - 1
    assert [remaining_precision(bits, d) for d in (0, 1, 2, 3, 4)] == [bits, bits - 1, bits - 2, bits - 2, bits - 3]


def test_nan_against_nan_is_no_difference() -> None:
    found = metrics([nan, 1.0], [-nan, 1.0])
    assert (found.n_differing, found.nan_mismatch, found.max_abs, found.remaining_precision) == (0, 0, 0.0, 23)


def test_nan_against_a_number_and_against_infinity() -> None:
    found = metrics([nan, 1.0, nan], [1.0, 1.0, inf])
    assert (found.n_differing, found.nan_mismatch, found.inf_mismatch) == (2, 2, 0)
    assert (found.max_abs, found.remaining_precision) == (0.0, 0)


def test_infinities() -> None:
    found = metrics([inf, inf, 3.0e38, -inf], [inf, -inf, inf, -inf])
    assert (found.n_differing, found.inf_mismatch, found.nan_mismatch) == (2, 2, 0)
    assert (found.max_abs, found.max_ulp, found.mad, found.cosine, found.remaining_precision) == (None,) * 4 + (0,)
    same = metrics([inf], [inf])
    assert (same.n_differing, same.max_abs, same.remaining_precision) == (0, None, 23)


def test_signed_zero_differs_by_no_distance() -> None:
    found = metrics([0.0, -0.0, 0.0], [-0.0, -0.0, 1e-45])
    assert (found.n_differing, found.signed_zero_mismatch, found.max_ulp) == (2, 1, 1)
    assert found.max_rel == inf


def test_empty_and_zero_dimensional() -> None:
    empty = measure(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32))
    assert isinstance(empty, Metrics)
    assert (empty.n, empty.n_differing, empty.max_abs, empty.max_rel, empty.max_ulp) == (0, 0, None, None, None)
    assert (empty.cosine, empty.mad, empty.remaining_precision, empty.top1_flips) == (None, None, 23, 0)
    integers = measure(np.zeros(0, np.int8), np.zeros(0, np.int8))
    assert isinstance(integers, Metrics) and integers.max_abs is None
    scalar = metrics(2.0, 3.0)
    assert (scalar.n, scalar.max_abs, scalar.max_rel, scalar.top1_flips) == (1, 1.0, 0.5, None)


def test_distance_beyond_the_range_of_float64() -> None:
    found = metrics([1.7e308, 1.0], [-1.7e308, 1.0], "float64")
    assert (found.max_abs, found.max_rel, found.mad) == (inf, inf, inf)
    assert json.loads(json.dumps(to_json(found), allow_nan=False))["max_abs"] == "inf"
    near = metrics([1.5e308, 1.5e308], [0.5e308, 0.5e308], "float64")
    assert near.mad == pytest.approx(1e308) and near.cosine == pytest.approx(1.0)


def test_cosine_of_tiny_values_and_zero_vectors() -> None:
    assert metrics([5e-324, 0.0], [0.0, 5e-324], "float64").cosine == 0.0
    assert metrics([1e-300, 1e-300], [1e-300, 3e-300], "float64").cosine == pytest.approx(4 / math.sqrt(20))
    assert metrics([0.0], [0.0]).cosine == 1.0
    assert metrics([0.0], [1.0]).cosine == 0.0
    assert metrics([1.0, 2.0], [-1.0, -2.0]).cosine == pytest.approx(-1.0)


def test_another_dtype_or_shape_is_structural() -> None:
    a = np.zeros((2, 3), np.float32)
    assert measure(a, a.astype(np.float64)) == StructuralMismatch("float32[2,3]", "float64[2,3]")
    assert measure(a, a.T) == StructuralMismatch("float32[2,3]", "float32[3,2]")
    assert measure(a[:, :1], np.zeros((2, 1, 1), np.float32)) == StructuralMismatch("float32[2,1]", "float32[2,1,1]")
    assert to_json(StructuralMismatch("a", "b")) == {"reference": "a", "other": "b"}


def test_layout_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, 4, 7, 9)).astype(np.float32)[:, :, :, ::2]
    wanted = measure(a.copy(), b.copy())
    assert measure(np.asfortranarray(a), b) == wanted
    c = (a + 1j * b).astype(np.complex64)
    assert measure(np.asfortranarray(c), c.conj()) == measure(c.copy(), c.conj().copy())


# ---- top-k flips


def slow_flip(a: list[float], b: list[float], k: int) -> bool:
    """No set of k classes is a set of k largest for both."""

    def valid(row: list[float], chosen: tuple[int, ...]) -> bool:
        rank = [(math.isnan(v), 0.0 if math.isnan(v) else v) for v in row]
        rest = [rank[i] for i in range(len(row)) if i not in chosen]
        return min(rank[i] for i in chosen) >= max(rest)

    return not any(valid(a, c) and valid(b, c) for c in combinations(range(len(a)), k))


@given(st.integers(2, 7), st.data())
def test_flips_against_all_choices(classes: int, data: st.DataObject) -> None:
    row = st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, inf, -inf, nan]), min_size=classes, max_size=classes)
    rows = [(data.draw(row), data.draw(row)) for _ in range(data.draw(st.integers(1, 3)))]
    found = metrics([[r[0] for r in rows]], [[r[1] for r in rows]])
    assert found.top1_flips == sum(slow_flip(a, b, 1) for a, b in rows)
    assert found.top5_flips == (sum(slow_flip(a, b, 5) for a, b in rows) if classes >= 6 else None)


def test_flips_are_of_float_rows_only() -> None:
    assert metrics([[1, 2]], [[2, 1]], "int32").top1_flips is None
    assert metrics([[1.0], [2.0]], [[2.0], [1.0]]).top1_flips is None
    found = metrics([[1, 2, 3, 4, 5, 6]] * 2, [[6, 5, 4, 3, 2, 1], [1, 2, 3, 4, 6, 5]], "bfloat16")
    assert (found.top1_flips, found.top5_flips) == (2, 1)


def test_to_json_has_every_field() -> None:
    found = metrics([1.0, 2.0], [1.0, 2.5])
    assert json.loads(json.dumps(to_json(found), allow_nan=False)) == {
        "n": 2, "n_differing": 1, "max_abs": 0.5, "max_rel": 0.25, "max_ulp": 2**21, "remaining_precision": 1,
        "cosine": pytest.approx(6 / math.sqrt(5 * 7.25)), "mad": 0.25, "nan_mismatch": 0, "inf_mismatch": 0,
        "signed_zero_mismatch": 0, "top1_flips": 0, "top5_flips": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ours", "theirs", "dtype", "apart"),
    [
        ([nan, 1.0], [inf, 1.0], np.float32, inf),
        ([inf, 1.0], [-inf, 1.0], np.float32, inf),
        ([nan, 1.0], [2.0, 1.0], np.float32, inf),
        ([complex(nan, 1.0)], [complex(inf, 1.0)], np.complex64, inf),
        ([nan, inf, 1.0], [-nan, inf, 1.5], np.float32, 1.0 / 3.0),
        ([2**62 + 1, 0], [2**62, 0], np.int64, 2.0**-62),
        ([-(2**63)], [2**63 - 1], np.int64, 2.0),
        ([0, 255], [0, 0], np.uint8, 255.0),
        ([True], [False], np.bool_, 1.0),
    ],
)
def test_the_distance_of_outputs(ours: list[Any], theirs: list[Any], dtype: type[Any], apart: float) -> None:
    assert distance([np.array(ours, dtype)], [np.array(theirs, dtype)]) == pytest.approx(apart)
    assert distance([np.array(ours, dtype)], [np.array(ours, dtype)]) == 0.0


def test_the_distance_of_single_integers_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert distance([np.array(5)], [np.array(-3)]) == pytest.approx(8 / 3)
