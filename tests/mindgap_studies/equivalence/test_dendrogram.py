from itertools import combinations
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mindgap.graph import Array, MindgapError
from mindgap_studies.equivalence.dendrogram import Merge
from mindgap_studies.equivalence.prefix_digests import dendrogram

FORMATS: dict[Any, tuple[str, int]] = {
    np.float16: ("u2", 10),
    ml_dtypes.bfloat16: ("u2", 7),
    np.float32: ("u4", 23),
    np.float64: ("u8", 52),
}


def slow(a: Array, b: Array) -> int:
    """The definition, element by element, bit by bit."""
    unsigned, mantissa = FORMATS[a.dtype.type]
    width = np.dtype(unsigned).itemsize * 8
    least = mantissa
    with np.errstate(invalid="ignore"):  # signalling NaNs
        nans = np.isnan(a), np.isnan(b)
    for x, y, x_nan, y_nan in zip(a, b, *nans, strict=True):
        if x_nan or y_nan:
            if x_nan and y_nan:
                continue
            return 0
        text = [f"{int(bits):0{width}b}" for bits in np.array([x, y], a.dtype).view(unsigned)]
        head = width - mantissa
        same = 0
        if text[0][:head] == text[1][:head]:
            while same < mantissa and text[0][head + same] == text[1][head + same]:
                same += 1
        least = min(least, same)
    return least


def precision(a: Array, b: Array) -> int:
    return dendrogram([a, b]).minimum


@st.composite
def families(draw: st.DrawFn) -> list[Array]:
    """Tensors that differ from one another in few bits, so that all depths of the tree occur."""
    dtype = draw(st.sampled_from(list(FORMATS)))
    unsigned, mantissa = FORMATS[dtype]
    width = np.dtype(unsigned).itemsize * 8
    sign, infinity = 1 << (width - 1), (1 << (width - 1)) - (1 << mantissa)
    # ±0, ±∞, a NaN and subnormals, or anything.
    special = st.sampled_from([0, sign, infinity, sign + infinity, infinity + 1, 1, sign + 1])
    base = draw(st.lists(special | st.integers(0, 2**width - 1), min_size=1, max_size=4))
    flips = st.lists(st.tuples(st.integers(0, len(base) - 1), st.integers(0, width - 1)), max_size=3)
    family: list[Array] = []
    for each in draw(st.lists(flips, min_size=2, max_size=9)):
        bits = np.array(base, unsigned)
        for element, bit in each:
            bits[element] ^= np.array(1 << bit, unsigned)
        family.append(bits.view(dtype))
    return family


@settings(deadline=None)
@given(families())
def test_a_dendrogram_holds_the_precision_of_every_pair(family: list[Array]) -> None:
    tree = dendrogram(family)
    pairs = {(i, j): slow(family[i], family[j]) for i, j in combinations(range(len(family)), 2)}
    assert {pair: tree.precision(*pair) for pair in pairs} == pairs
    assert sorted(tree.order) == list(range(len(family)))
    assert tree.minimum == min(pairs.values())
    for bits in range(1, tree.mantissa + 1):
        together = {pair for group in tree.classes(bits) for pair in combinations(group, 2)}
        assert together == {pair for pair, shared in pairs.items() if shared >= bits}


@settings(deadline=None)
@given(families())
def test_remaining_precision_is_an_ultrametric(family: list[Array]) -> None:
    for a, b, c in combinations(family[:5], 3):
        ab, bc, ac = (precision(x, y) for x, y in ((a, b), (b, c), (a, c)))
        assert sorted((ab, bc, ac))[0] == sorted((ab, bc, ac))[1]


def test_known_distances_of_float32() -> None:
    one = np.array([1.0], np.float32)
    assert precision(one, one) == 23
    assert precision(one, np.nextafter(one, np.float32(2))) == 22
    assert precision(one, np.array([1.5], np.float32)) == 0
    assert precision(one, np.array([1.25], np.float32)) == 1
    # One step apart, but the exponents differ.
    assert precision(one, np.nextafter(one, np.float32(0))) == 0
    assert precision(one, -one) == 0
    assert precision(np.zeros(1, np.float32), -np.zeros(1, np.float32)) == 0


def test_merges_say_at_which_bits_classes_become_one() -> None:
    values = [np.array([each], np.float32) for each in (1.5, 1.0, 1.5 + 2**-20, 1.0, 1.25)]
    tree = dendrogram(values)
    assert tree.classes() == ((0,), (1, 3), (2,), (4,))
    assert tree.merges() == (Merge(19, ((0,), (2,))), Merge(1, ((1, 3), (4,))), Merge(0, ((0, 2), (1, 3, 4))))
    assert tree.classes(1) == ((0, 2), (1, 3, 4))


def test_nans_are_one_class() -> None:
    values = [np.array(each, np.float32) for each in ([np.nan], [1.0], [-np.nan], [1.0])]
    assert dendrogram(values).classes() == ((0, 2), (1, 3))


def test_unlike_tensors_and_no_tensors_are_refused() -> None:
    unlike = [np.zeros(3, np.float32), np.zeros(3, np.float64), np.zeros(4, np.float32)]
    with pytest.raises(MindgapError, match="tensor 1 is float64 of 3 elements, tensor 0 is float32 of 3"):
        dendrogram(unlike)
    with pytest.raises(MindgapError, match="tensor 1 is float32 of 4 elements"):
        dendrogram(unlike[::2])
    with pytest.raises(MindgapError, match="no tensors"):
        dendrogram([])
    with pytest.raises(MindgapError, match="int32 has no remaining precision"):
        dendrogram([np.zeros(1, np.int32)])


def test_empty_tensors_are_equal() -> None:
    empty = np.zeros(0, np.float16)
    assert precision(empty, empty) == 10
    assert dendrogram([empty] * 3).classes() == ((0, 1, 2),)
