"""The tolerances of others: the paper's, and those of torch.testing.assert_close against torch itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from mindgap.aten.tensors import TORCH_DTYPES, to_torch
from mindgap.graph import DTYPES, kind_of, numpy_dtype
from mindgap.graph.compare.profiles import ASSERT_CLOSE, PAPER, passes, tolerance

Array = np.ndarray[Any, np.dtype[Any]]
nan, inf = math.nan, math.inf


def test_assert_close_has_torchs_own_tolerances() -> None:
    for name, dtype in TORCH_DTYPES.items():
        rtol, atol = torch.testing._comparison.default_tolerances(dtype, dtype)
        assert (tolerance("assert_close", name).rtol, tolerance("assert_close", name).atol) == (rtol, atol), name
    assert set(ASSERT_CLOSE) <= set(DTYPES)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(n for n in DTYPES if "8" not in n or n.endswith("int8"))), st.data())
def test_assert_close_against_torch(name: str, data: st.DataObject) -> None:
    """Values around the tolerance itself: multiples of it away from the reference."""
    dtype = numpy_dtype(name)
    base = st.sampled_from([0, 1, 100] if kind_of(name) in ("int", "bool") else [0.0, 1.0, -3.5, 1e4, inf, nan])
    a = np.array(data.draw(st.lists(base, min_size=1, max_size=3)), dtype)
    step = tolerance("assert_close", name)
    factor = data.draw(st.sampled_from([0.0, 0.5, 0.99, 1.01, 2.0]))
    with np.errstate(invalid="ignore"):
        b = (a if factor == 0 else a + np.array(factor * (step.atol + step.rtol * np.abs(a))).astype(dtype)).astype(
            dtype
        )
    try:
        torch.testing.assert_close(to_torch(b), to_torch(a), equal_nan=True)
        wanted = True
    except AssertionError:
        wanted = False
    assert passes("assert_close", a, b) == wanted


def test_paper_tolerance() -> None:
    assert (PAPER.rtol, PAPER.atol) == (1e-4, 5e-4)
    a = np.array([10.0, 0.0])
    assert passes("paper", a, np.add(a, [1.49e-3, 4.99e-4]))
    assert not passes("paper", a, np.add(a, [1.51e-3, 0.0]))
    assert not passes("paper", a, np.add(a, [0.0, 5.01e-4]))
    # Relative to the reference: the bound belongs to the first array, however large the second is.
    assert passes("paper", np.array([1e6 + 100]), np.array([1e6])) and not passes(
        "paper", np.array([1e6]), np.array([1e6 + 101])
    )


@pytest.mark.parametrize("profile", ["paper", "assert_close"])
def test_classes_of_values(profile: Any) -> None:
    def ok(a: list[float], b: list[float]) -> bool:
        return passes(profile, np.array(a, np.float32), np.array(b, np.float32))

    assert ok([nan, inf, -inf, 0.0], [nan, inf, -inf, -0.0])
    assert not ok([nan], [1.0]) and not ok([1.0], [nan])
    assert not ok([inf], [-inf]) and not ok([inf], [3e38]) and not ok([3e38], [inf])
    assert ok([], [])


@pytest.mark.parametrize("profile", ["paper", "assert_close"])
def test_structure_must_agree(profile: Any) -> None:
    a = np.ones((2, 1), np.float32)
    assert not passes(profile, a, a.astype(np.float64)) and not passes(profile, a, a.reshape(1, 2))


def test_integers_by_their_true_difference() -> None:
    a = np.array([-(2**63)], np.int64)
    assert not passes("paper", a, np.array([2**63 - 1], np.int64))
    assert not passes("assert_close", np.array([2**53]), np.array([2**53 + 1]))
    assert passes("paper", np.array([2**53]), np.array([2**53 + 1]))
    assert not passes("paper", np.array([3], np.uint8), np.array([4], np.uint8))
    assert not passes("paper", np.array([True]), np.array([False]))


def test_complex_by_modulus() -> None:
    a = np.array([complex(1, 0)], np.complex64)
    assert passes("paper", a, a + np.complex64(complex(4e-4, 4e-4)))
    assert not passes("paper", a, a + np.complex64(complex(5e-4, 5e-4)))
