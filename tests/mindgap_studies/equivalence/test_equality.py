import ml_dtypes
import numpy as np
import pytest

from mindgap.graph import MindgapError
from mindgap.graph.compare.digest import digest_array
from mindgap_studies.equivalence.equality import BITS, VALUES, identity

DTYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_and_nans_under_both_equalities(dtype: type) -> None:
    plus, minus = np.array([0.0, 1.0], dtype), np.array([-0.0, 1.0], dtype)
    nan, negative_nan = np.array([np.nan], dtype), -np.array([np.nan], dtype)
    assert identity(plus, BITS) != identity(minus, BITS)
    assert identity(plus, VALUES) == identity(minus, VALUES)
    assert identity(nan, BITS) == identity(negative_nan, BITS) == digest_array(nan)
    assert identity(nan, VALUES) is None
    assert np.signbit(minus[0]), "the argument stays as it was"


def test_shape_and_dtype_are_part_of_an_identity() -> None:
    a = np.zeros(4, np.float32)
    for equality in (BITS, VALUES):
        assert identity(a, equality) != identity(a.reshape(2, 2), equality)
        assert identity(a, equality) != identity(a.astype(np.float64), equality)


def test_an_integer_has_an_identity_by_bits_only() -> None:
    a = np.arange(3)
    assert identity(a, BITS) == digest_array(a)
    with pytest.raises(MindgapError, match="int64 has no remaining precision: it is defined for float16"):
        identity(a, VALUES)
