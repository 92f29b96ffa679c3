"""Formats, rounding and classes against ml_dtypes and numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from mindgap.aten.tensors import to_numpy
from mindgap.judge.oracle.evaluation.formats import FORMATS, in_range, is_real, rounded, widen
from mindgap.judge.oracle.float_classes import FINITE, NAN, NEGATIVE, POSITIVE, class_bits

REALS = ["float32", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float64", "float8_e5m2"])
def test_formats_are_those_of_ml_dtypes(name: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, name, None) or name)
    info, found = ml_dtypes.finfo(kind), FORMATS[name]
    assert found.u == float(info.eps) / 2
    assert found.tiny == float(info.smallest_normal)
    assert found.largest == float(info.max)
    assert found.narrow == (info.bits <= 16)
    assert found.u_acc == (2.0**-24 if info.bits <= 32 else 2.0**-53)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
@given(values=st.lists(st.floats(width=64), min_size=1, max_size=20))
def test_rounding_is_to_nearest_even(name: str, values: list[float]) -> None:
    """From float64 at once: by way of float32 it would round twice."""
    target = np.dtype(getattr(ml_dtypes, name, None) or name)
    found = rounded(torch.tensor(values, dtype=torch.float64), name).numpy()
    with np.errstate(all="ignore"):
        expected = np.array([_nearest(v, target) for v in values])
    assert np.array_equal(found, expected, equal_nan=True)


def _nearest(value: float, target: np.dtype) -> float:
    """The nearer of the two neighbours of a float64 in a narrow format, the even one of two as near."""
    info = ml_dtypes.finfo(target)
    if not np.isfinite(value) or value == 0:
        return value
    digits = -int(np.log2(float(info.eps)))
    exponent = max(int(np.floor(np.log2(abs(value)))), int(np.log2(float(info.smallest_normal))))
    if exponent > np.log2(float(info.max)) + 1:
        return float(np.copysign(np.inf, value))
    exponent += 1 if abs(value) >= 2.0 ** (exponent + 1) else 0
    step = 2.0 ** (exponent - digits)
    near = float(np.round(value / step)) * step
    return float(np.copysign(np.inf, value)) if abs(near) > float(info.max) else near


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_range_is_kept_without_rounding(name: str) -> None:
    largest = FORMATS[name].largest
    x = torch.tensor([1 / 3, largest, -largest * 2, float("nan"), float("inf")], dtype=torch.float64)
    found = in_range(x, name)
    assert found[0] == x[0] and found[1] == largest
    assert found[2] == -torch.inf and torch.isnan(found[3]) and found[4] == torch.inf


def test_widening_keeps_values_and_leaves_integers() -> None:
    assert widen(torch.tensor([1.5], dtype=torch.bfloat16)).dtype == torch.float64
    assert widen(torch.tensor([1j], dtype=torch.complex64)).dtype == torch.complex128
    assert widen(torch.tensor([2**62 + 1])).dtype == torch.int64
    assert is_real("complex64") and not is_real("int64") and not is_real("bool")


@given(st.lists(st.floats(width=32), min_size=1, max_size=30))
def test_classes_are_numpys(values: list[float]) -> None:
    array = np.array(values, np.float32)
    bits = to_numpy(class_bits(torch.from_numpy(array)))
    assert np.array_equal(bits == FINITE, np.isfinite(array))
    assert np.array_equal(bits == NAN, np.isnan(array))
    assert np.array_equal(bits == POSITIVE, np.isposinf(array))
    assert np.array_equal(bits == NEGATIVE, np.isneginf(array))


def test_a_complex_number_is_nan_if_a_part_is() -> None:
    z = torch.tensor([complex(1, 2), complex(float("nan"), float("inf")), complex(0, float("-inf"))])
    assert class_bits(z).tolist() == [FINITE, NAN, POSITIVE]
