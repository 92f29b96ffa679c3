"""Digests are positional, canonical in NaN and in nothing else; sketches agree with the obvious computation."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import xxhash
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from mindgap.graph import DTYPES, MindgapError, numpy_dtype
from mindgap.graph.compare.digest import CHUNK, SAMPLE, digest_array, digested, sketch

Array = np.ndarray[Any, np.dtype[Any]]

#: The NaN bit patterns that each float format must fold into one, and a bit pattern of its −0 (None: it has none).
NANS: dict[str, tuple[list[int], int | None]] = {
    "float64": ([0x7FF8_0000_0000_0000, 0xFFF8_0000_0000_0000, 0x7FF0_0000_0000_0001, 0xFFFF_FFFF_FFFF_FFFF], 1 << 63),
    "float32": ([0x7FC0_0000, 0xFFC0_0000, 0x7F80_0001, 0xFFFF_FFFF], 1 << 31),
    "float16": ([0x7E00, 0xFE00, 0x7C01, 0xFFFF], 1 << 15),
    "bfloat16": ([0x7FC0, 0xFFC0, 0x7F81, 0xFFFF], 1 << 15),
    "float8_e4m3fn": ([0x7F, 0xFF], 0x80),
    "float8_e5m2": ([0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF], 0x80),
    "float8_e4m3fnuz": ([0x80], None),
    "float8_e5m2fnuz": ([0x80], None),
}
FLOATS = sorted(NANS)


def from_bits(bits: list[int], name: str) -> Array:
    dtype = numpy_dtype(name)
    return np.array(bits, dtype=f"u{dtype.itemsize}").view(dtype)


def every_dtype(n: int = 12) -> dict[str, Array]:
    ramp = np.arange(n) % 2 if n < 4 else np.arange(n)
    return {name: ramp.astype(numpy_dtype(name)) for name in DTYPES}


@pytest.mark.parametrize("name", FLOATS)
def test_nan_payloads_and_signs_are_one(name: str) -> None:
    digests = {digest_array(from_bits([0x01, bits, 0x02], name)) for bits in NANS[name][0]}
    assert len(digests) == 1
    assert digests != {digest_array(from_bits([0x01, 0x02, 0x02], name))}


@pytest.mark.parametrize("name", FLOATS)
def test_every_8_and_16_bit_pattern_that_is_no_nan_stays_distinct(name: str) -> None:
    width = numpy_dtype(name).itemsize
    if width > 2:
        patterns = [0, 1, 2, 1 << (8 * width - 1), (1 << (8 * width - 1)) + 1]
    else:
        patterns = list(range(0, 1 << (8 * width), 1 if width == 1 else 7))
    values = from_bits(patterns, name)
    with np.errstate(invalid="ignore"):
        plain = ~np.isnan(values.astype(np.float64))
    digests = {digest_array(values[i : i + 1]) for i in np.flatnonzero(plain)}
    assert len(digests) == int(plain.sum())


@pytest.mark.parametrize("name", [n for n in FLOATS if NANS[n][1] is not None])
def test_signed_zeros_are_distinct(name: str) -> None:
    negative = NANS[name][1]
    assert negative is not None
    assert digest_array(from_bits([0], name)) != digest_array(from_bits([negative], name))


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_complex_parts_are_canonical_apart(name: str) -> None:
    dtype = numpy_dtype(name)
    bits = f"u{dtype.itemsize // 2}"
    one, other = np.array([complex(math.nan, 1)], dtype), np.array([complex(math.nan, 1)], dtype)
    other.view(bits)[0] |= 1
    other.view(bits)[0] ^= np.array(1, bits) << np.array(dtype.itemsize * 4 - 1, bits)
    assert other.tobytes() != one.tobytes()
    assert digest_array(other) == digest_array(one)
    assert digest_array(np.array([complex(math.nan, 2)], dtype)) != digest_array(one)
    assert digest_array(np.array([complex(1, math.nan)], dtype)) != digest_array(one)
    assert digest_array(np.array([complex(-0.0, 1)], dtype)) != digest_array(np.array([complex(0.0, 1)], dtype))


@given(hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, max_side=5), elements=st.floats(width=32)))
def test_without_nan_it_is_xxh3_of_header_and_bytes(a: Array) -> None:
    """What the digest is stays pinned: stores compare digests of different years."""
    a = np.where(np.isnan(a), np.float32(0), a)
    header = f"float32{list(a.shape)}".encode()
    assert digest_array(a) == xxhash.xxh3_128(header + a.astype("<f4").tobytes()).hexdigest()


def test_pinned() -> None:
    assert digest_array(np.array([1.0, math.nan, -0.0], np.float32)) == "91e09c85c2df47f53bf4d9f4e4390c13"


def test_dtype_and_shape_are_part_of_it() -> None:
    zeros = {name: digest_array(np.zeros((2, 3), numpy_dtype(name))) for name in DTYPES}
    assert len(set(zeros.values())) == len(DTYPES)
    shapes = [(6,), (2, 3), (3, 2), (6, 1), (1, 6), (1, 2, 3)]
    assert len({digest_array(np.zeros(s, np.float32)) for s in shapes}) == len(shapes)
    empty = [(0,), (0, 3), (3, 0)]
    assert len({digest_array(np.zeros(s, np.float32)) for s in empty}) == len(empty)
    assert digest_array(np.float32(1).reshape(())) != digest_array(np.ones(1, np.float32))


def test_it_is_positional() -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert digest_array(a[[1, 0, 2]]) != digest_array(a)
    assert digest_array(np.concatenate([a, a])) != digest_array(np.zeros((6, 4), np.float32))


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_layout_and_byte_order_are_not(name: str) -> None:
    a = every_dtype(24)[name].reshape(2, 3, 4)
    expected = digested(a)
    assert digested(np.asfortranarray(a)) == expected
    assert digested(np.repeat(a, 2, axis=1)[:, ::2]) == expected
    assert digested(a[::-1].copy()[::-1]) == expected
    readonly = a.copy()
    readonly.flags.writeable = False
    assert digested(readonly) == expected
    if a.dtype.kind in "fiuc" and a.dtype.itemsize > 1:
        assert digested(a.astype(a.dtype.newbyteorder(">"))) == expected


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("size", [CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 5])
def test_chunks_leave_no_seam(name: str, size: int) -> None:
    bits = np.full(size, 0x21, f"u{numpy_dtype(name).itemsize}")
    a = bits.view(numpy_dtype(name))
    header = f"{name}[{size}]".encode()
    assert digest_array(a) == digested(a).digest == xxhash.xxh3_128(header + bits.tobytes()).hexdigest()
    last = bits.copy()
    last[-1] = NANS[name][0][-1]
    first = bits.copy()
    first[-1] = NANS[name][0][0]
    nans = [x.view(a.dtype) for x in (last, first)]
    assert digest_array(nans[0]) == digested(nans[1]).digest != digest_array(a)


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_the_three_agree(name: str) -> None:
    for a in (every_dtype(40)[name], every_dtype(0)[name], every_dtype(1)[name].reshape(())):
        whole = digested(a)
        assert (whole.digest, whole.sketch) == (digest_array(a), sketch(a))
        assert (whole.dtype, whole.shape) == (name, a.shape)
        assert len(whole.digest) == 32


def test_a_foreign_dtype_is_refused() -> None:
    with pytest.raises(MindgapError, match="object"):
        digest_array(np.array([None]))


def slow_sketch(values: list[float]) -> dict[str, Any]:
    finite = [v for v in values if math.isfinite(v)]
    scale = max((abs(v) for v in finite), default=0.0) or 1.0
    return {
        "nan": sum(math.isnan(v) for v in values),
        "pos_inf": values.count(math.inf),
        "neg_inf": values.count(-math.inf),
        "zero": values.count(0.0),
        "minimum": min(finite) if finite else None,
        "maximum": max(finite) if finite else None,
        "mean": math.fsum(v / scale for v in finite) / len(finite) * scale if finite else None,
        "norm": math.sqrt(math.fsum((v / scale) ** 2 for v in finite)) * scale if finite else None,
    }


def assert_sketch(a: Array, values: list[float]) -> None:
    found, wanted = sketch(a), slow_sketch(values)
    for key in ("nan", "pos_inf", "neg_inf", "zero", "minimum", "maximum"):
        assert getattr(found, key) == wanted[key], key
    for key in ("mean", "norm"):
        if wanted[key] is None:
            assert getattr(found, key) is None
            continue
        # Beside the norm, and where both are subnormal, the last places of float64 there.
        slack = 1e-13 * abs(wanted["norm"]) + 4 * math.ulp(0.0)
        assert getattr(found, key) == pytest.approx(wanted[key], rel=1e-12, abs=slack), key
    picks = range(len(values)) if len(values) <= SAMPLE else [i * (len(values) - 1) // 7 for i in range(SAMPLE)]
    assert [x.hex() for x in found.sample] == [values[i].hex() for i in picks]


@given(
    st.sampled_from([n for n in sorted(DTYPES) if "complex" not in n]),
    st.lists(st.integers(0, 2**64 - 1), max_size=30),
)
def test_sketch_against_the_obvious(name: str, patterns: list[int]) -> None:
    dtype = numpy_dtype(name)
    if name == "bool":
        a = np.array([p % 2 for p in patterns], np.bool_)
    else:
        a = np.array(patterns, np.uint64).view(np.uint8).view(dtype)[: len(patterns)]
    assert_sketch(a, [float(v) for v in a])


@pytest.mark.parametrize("values", [[1e308, 1e308, -1e308], [5e-324, 1e-320], [1e200, math.inf], [0.0, -0.0], []])
def test_sketch_at_the_ends_of_the_range(values: list[float]) -> None:
    assert_sketch(np.array(values, np.float64), values)


def test_sketch_of_nothing_finite() -> None:
    found = sketch(np.array([math.nan, math.inf], np.float16))
    assert (found.minimum, found.maximum, found.mean, found.norm) == (None, None, None, None)
    assert (found.nan, found.pos_inf) == (1, 1)


def test_sketch_of_complex_counts_each_number_once() -> None:
    nan, inf = math.nan, math.inf
    a = np.array([complex(nan, inf), complex(inf, -inf), complex(-inf, 2), complex(0, -0.0), complex(0, 3)])
    found = sketch(a)
    assert (found.nan, found.pos_inf, found.neg_inf, found.zero) == (1, 1, 1, 1)
    assert (found.minimum, found.maximum, found.mean) == (0.0, 3.0, 1.0)
    assert found.norm == pytest.approx(math.sqrt(13))
    assert found.sample[-2:] == (0.0, 3.0)


def test_sketch_over_many_chunks() -> None:
    a = np.linspace(-1, 2, 3 * CHUNK + 7)
    a[[5, CHUNK + 1, 2 * CHUNK]] = [math.nan, math.inf, 0.0]
    assert_sketch(a, a.tolist())


def test_bfloat16_is_not_uint16() -> None:
    a = np.array([1.0], ml_dtypes.bfloat16)
    assert digest_array(a) != digest_array(a.view(np.uint16))
